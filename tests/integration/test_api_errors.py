"""Error answers: their shapes, their headers, and that nothing internal leaves through them."""

import json
import re

import pytest
import structlog
import trio
from api import chat, serving
from quart import Blueprint

from fibatchd.errors import ApiError
from fibatchd.hookspecs import hookimpl
from fibatchd.web.auth import caller, public
from fibatchd.web.guards import Limits

REQUEST_ID = re.compile(r"req_[0-9a-f]{32}")


class Anthropic:
    """A plugin with an API of its own under a prefix, and routes that go wrong."""

    @staticmethod
    @hookimpl
    def fibatchd_error_shapes():
        def shape(status, message, param, code, request_id):
            return {"type": "error", "error": {"type": f"error_{status}", "message": message}, "request_id": request_id}

        return {"/other": shape}

    @staticmethod
    @hookimpl
    def fibatchd_routes(context):
        routes = Blueprint("other", __name__)

        @routes.get("/other/broken")
        @routes.get("/v1/broken")
        async def broken():
            raise RuntimeError("the password is secret")

        @routes.get("/v1/group")
        async def group():
            raise ExceptionGroup("", [RuntimeError("secret")])

        @routes.get("/v1/conflict")
        async def conflict():
            raise ApiError(409, "no", code="c", param="p")

        @routes.get("/v1/who")
        async def who():
            return {"account": caller().account.id}

        @routes.get("/v1/anyone")
        @public
        async def anyone():
            return {}

        return [routes]


@pytest.fixture
async def other(tmp_path):
    async with serving(tmp_path, plugins={"other": Anthropic}) as served:
        yield served


def ids(answer):
    assert answer.headers["x-request-id"] == answer.headers["request-id"]
    assert REQUEST_ID.fullmatch(answer.headers["x-request-id"])
    return answer.headers["x-request-id"]


CASES = {
    "unknown path": ("GET", "/v1/nothing", 404, "invalid_request_error"),
    "unknown path without a version": ("GET", "/", 404, "invalid_request_error"),
    "two slashes": ("GET", "//v1/batches", 404, "invalid_request_error"),
    "a slash at the end": ("GET", "/v1/batches/", 404, "invalid_request_error"),
    "a path that is no text": ("GET", "/v1/%ff%fe", 404, "invalid_request_error"),
    "wrong method": ("PUT", "/v1/batches", 405, "invalid_request_error"),
    "OPTIONS": ("OPTIONS", "/v1/batches", 405, "invalid_request_error"),
    "a fault": ("GET", "/v1/broken", 500, "server_error"),
    "several faults": ("GET", "/v1/group", 500, "server_error"),
    "no key": ("GET", "/v1/batches", 401, "authentication_error"),
}
CODES = {401: "missing_api_key", 500: "internal_error"}


@pytest.mark.parametrize(("method", "path", "status", "kind"), CASES.values(), ids=CASES.keys())
async def test_openai_shape(other, method, path, status, kind):
    call = other.http.request if status == 401 else other.call
    answer = await call(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error"}
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert answer.json()["error"]["type"] == kind
    assert answer.json()["error"]["code"] == CODES.get(status)
    assert ids(answer)
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(("path", "status"), [("/other/broken", 500), ("/other/nothing", 404), ("/other", 404)])
async def test_a_plugins_shape_under_its_prefix(other, path, status):
    answer = await other.call("GET", path)
    assert answer.status_code == status
    assert answer.json()["error"]["type"] == f"error_{status}"
    assert answer.json()["request_id"] == ids(answer)
    assert "secret" not in answer.text


@pytest.mark.parametrize("path", ["/otherwise", "/v1/other"])
async def test_a_prefix_ends_at_a_slash(other, path):
    assert "type" not in (await other.call("GET", path)).json()


async def test_shapes_hold_below_the_app_too(tmp_path):
    async with serving(tmp_path, plugins={"other": Anthropic}, limits=Limits(max_body_bytes=100)) as api:
        for path, key in [("/other/x", "request_id"), ("/v1/batches", "error")]:
            answer = await api.call("POST", path, content=b"x" * 101)
            assert answer.status_code == 413
            assert key in answer.json()


async def test_405_tells_what_is_allowed(api):
    answer = await api.call("PATCH", "/v1/batches")
    assert answer.headers["allow"] == "GET, HEAD, POST"


async def test_409_is_not_to_be_retried(other):
    answer = await other.call("GET", "/v1/conflict")
    assert answer.headers["x-should-retry"] == "false"
    assert answer.json()["error"] == {"message": "no", "type": "invalid_request_error", "param": "p", "code": "c"}


async def test_plugins_routes_know_their_caller(other):
    assert (await other.call("GET", "/v1/who")).json() == {"account": other.ada.account.id}
    assert (await other.http.get("/v1/who")).status_code == 401
    assert (await other.http.get("/v1/anyone")).status_code == 200


async def test_every_answer_has_its_request_id(api):
    batch = await api.create()
    seen = set()
    for path in (
        "/healthz",
        "/v1/models",
        "/v1/batches",
        f"/v1/batches/{batch['id']}",
        f"/v1/batches/{batch['id']}/results",
    ):
        seen.add(ids(await api.call("GET", path)))
    assert len(seen) == 5


async def test_a_fault_is_logged_with_the_id_that_the_client_saw(other):
    processors = [structlog.contextvars.merge_contextvars, structlog.testing.LogCapture()]
    structlog.configure(processors=processors)
    answer = await other.call("GET", "/v1/broken?key=value")
    while not (lines := [line for line in processors[1].entries if line["event"] == "request failed"]):
        await trio.lowlevel.checkpoint()
    assert lines[0]["request_id"] == ids(answer)
    assert isinstance(lines[0]["exc_info"], RuntimeError)


async def test_one_line_a_request_without_secrets(api):
    capture = structlog.testing.LogCapture()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, capture])
    sent = {"requests": [chat("my-custom-id", messages=[{"role": "user", "content": "my prompt"}])]}
    batch = (await api.call("POST", "/v1/batches?secret=query", json=sent)).json()
    await api.call("GET", f"/v1/batches/{batch['id']}/results")
    while len(lines := [line for line in capture.entries if line["event"] == "request"]) < 2:
        await trio.lowlevel.checkpoint()
    created, read = lines
    assert (created["method"], created["path"]) == ("POST", "/v1/batches")
    assert (created["status"], created["account"], created["log_level"]) == (200, api.ada.account.id, "info")
    assert read["path"] == "/v1/batches/<batch_id>/results"
    assert read["ms"] >= 0
    assert created["complete"] is read["complete"] is True
    written = json.dumps(capture.entries)
    for secret in (api.ada.secret, "my prompt", "my-custom-id", "query"):
        assert secret not in written


async def test_probes_are_logged_for_debugging_only(api):
    capture = structlog.testing.LogCapture()
    structlog.configure(processors=[capture])
    await api.http.get("/healthz")
    while not capture.entries:
        await trio.lowlevel.checkpoint()
    assert {line["log_level"] for line in capture.entries} == {"debug"}
