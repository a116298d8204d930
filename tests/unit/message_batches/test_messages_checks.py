"""What is refused on every route: by form, by what is not available here, by the version's rules."""

import json

import pytest
from fibatchd_plugins.message_batches.endpoint import Messages
from fibatchd_plugins.message_batches.errors import error_shape, type_of_code, type_of_status
from fibatchd_plugins.message_batches.versions import FIRST, SECOND
from routes_to_models import BODY, CHAT, MESSAGES, model

TEXT = {"type": "text", "text": "Hi"}
CITED = TEXT | {"citations": [{"type": "char_location"}]}
FILE = {"type": "file", "file_id": "file_1"}


def problem(version=FIRST, *, batch=True, **members):
    body = json.dumps(BODY | members).encode()
    found = Messages().check(body, batch=batch, options={"version": version})
    return found and found.message


def turn(role, *content):
    return {"messages": [{"role": role, "content": list(content)}, {"role": "user", "content": "x"}]}


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"max_tokens": None}, "max_tokens: Field required"),
        ({"messages": None}, "messages: Field required"),
        ({"messages": []}, "messages: must not be empty"),
        ({"messages": "Hi"}, "messages: expected an array"),
        ({"stream": True}, "stream: a batched request cannot be streamed"),
        ({"stream": "yes"}, "stream: expected true or false"),
        ({"mcp_servers": [{"type": "url"}]}, "mcp_servers: MCP servers are not available here"),
        ({"container": "c"}, "container: containers are not available here"),
        (turn("user", {"type": "container_upload", "file_id": "f"}), "messages.0.content.0: containers"),
        (turn("user", {"type": "image", "source": FILE}), "messages.0.content.0.source: files"),
        (turn("user", {"type": "document", "source": FILE}), "messages.0.content.0.source: files"),
        (
            turn("user", {"type": "tool_result", "content": [{"type": "image", "source": FILE}]}),
            "messages.0.content.0.content.0.source: files",
        ),
        (
            turn(
                "user",
                {"type": "document", "source": {"type": "content", "content": [{"type": "image", "source": FILE}]}},
            ),
            "messages.0.content.0.source.content.0.source: files",
        ),
        *[
            ({"tools": [{"name": "f", "input_schema": {}}, {"type": kind}]}, "tools.1.type: server tools")
            for kind in (
                "web_search_20250305",
                "web_fetch_20260318",
                "code_execution_20260521",
                "tool_search_tool_regex_20251119",
                "mcp_toolset",
                "advisor_20260101",
            )
        ],
    ],
)
@pytest.mark.parametrize("version", [FIRST, SECOND])
def test_what_is_refused_on_every_route(members, message, version):
    assert problem(version, **members).startswith(message)


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"stream": None},
        {"container": None, "mcp_servers": None},
        {"mcp_servers": []},
        {"something_new": 1},
        {"max_tokens": 0},
        {"tools": [{"type": "bash_20250124", "name": "bash"}]},
        {"messages": [7, {"role": "new", "content": 3}]},
        turn(
            "assistant", {"type": "tool_use", "input": {"content": [{"type": "image", "source": FILE}], "source": FILE}}
        ),
    ],
)
def test_the_rest_is_for_the_server_to_judge(members):
    assert problem(**members) is None


def test_only_a_batched_request_must_not_stream():
    assert problem(batch=False, stream=True) is None


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"temperature": 1}, "temperature: Extra inputs are not permitted"),
        ({"top_p": 1.0}, "top_p: Extra inputs are not permitted"),
        ({"top_k": 0}, "top_k: Extra inputs are not permitted"),
        (turn("assistant", TEXT, {"type": "document"}), "messages.0.content.1: a document block"),
        (turn("user", CITED), "messages.0.content.0.citations: "),
        (
            turn("user", {"type": "search_result", "content": [TEXT, CITED]}),
            "messages.0.content.0.content.1.citations: ",
        ),
        (
            turn("user", {"type": "tool_result", "content": [{"type": "search_result", "content": [CITED]}]}),
            "messages.0.content.0.content.0.content.0.citations: ",
        ),
    ],
)
def test_what_the_second_version_took_away(members, message):
    assert problem(SECOND, **members).startswith(message)
    assert problem(FIRST, **members) is None


@pytest.mark.parametrize(
    "members",
    [
        {"temperature": None},
        turn("assistant", CITED),
        turn("assistant", {"type": "tool_result", "content": [{"type": "document"}]}),
        turn("user", {"type": "document", "citations": {"enabled": True}}),
        turn("user", {"type": "search_result", "content": [TEXT], "citations": {"enabled": True}}),
        turn("user", TEXT | {"citations": []}),
        turn("user", {"type": "tool_result", "content": [CITED]}),
    ],
)
def test_what_the_second_version_left(members):
    assert problem(SECOND, **members) is None


NATIVE = model(protocol="anthropic", serves=MESSAGES, url="http://h")


@pytest.mark.parametrize(
    ("of", "carried"),
    [
        (NATIVE, True),
        (model(), True),
        (model(serves=MESSAGES), True),
        (model(serves="/v1/embeddings"), False),
        (model(serves=CHAT, url="echo:"), True),
    ],
)
def test_upstreams_that_carry_messages(of, carried):
    assert Messages().carries(of, of.upstreams[0]) is carried


def test_what_no_route_of_the_model_carries_is_a_problem_of_the_request():
    body = json.dumps(BODY | {"top_k": 1}).encode()
    assert Messages().route_problem(body, NATIVE) is None
    assert Messages().route_problem(body, model(top_k=True)) is None
    assert Messages().route_problem(body, model()).message.startswith("top_k: ")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"), (401, "authentication_error"), (403, "permission_error"), (404, "not_found_error"),
        (405, "invalid_request_error"), (408, "invalid_request_error"), (409, "conflict_error"), (410, "invalid_request_error"),
        (413, "request_too_large"), (415, "invalid_request_error"), (422, "invalid_request_error"), (429, "rate_limit_error"),
        (500, "api_error"), (502, "api_error"), (503, "overloaded_error"), (504, "timeout_error"), (529, "overloaded_error"),
    ],
)  # fmt: skip
def test_types_of_errors(status, kind):
    assert type_of_status(status) == kind
    assert error_shape(status, "why", "p", "c", "req_1") == {
        "type": "error",
        "error": {"type": kind, "message": "why"},
        "request_id": "req_1",
    }


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("invalid_request", "invalid_request_error"), ("forbidden", "permission_error"), ("model_not_found", "not_found_error"),
        ("rate_limited", "rate_limit_error"), ("timeout", "timeout_error"), ("service_unavailable", "overloaded_error"),
        ("upstream_error", "api_error"), ("result_too_large", "api_error"), ("batch_failed", "authentication_error"),
    ],
)  # fmt: skip
def test_types_of_failures(code, kind):
    assert type_of_code(code) == kind
