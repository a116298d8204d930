"""Responses in batches of both forms with the OpenAI SDK; the whole parameter space through a daemon."""

import json

import openai
import pytest
from endpoints_stand import COST_USD, bodies_of
from openai.types.responses import Response
from response_space import about, cases, is_no_op, lost

URL = "/v1/responses"


@pytest.mark.parametrize("form", ["inline", "from_file"])
@pytest.mark.parametrize("model", ["translated", "native"])
def test_a_batch(stored, form, model):
    bodies = [{"model": model, "input": f"number {n}", "metadata": {"n": str(n)}} for n in range(5)]
    bodies.append(
        {"model": model, "input": "long", "store": False, "background": False, "stream": False, "conversation": None}
    )
    batch = getattr(stored, form)(URL, bodies)
    assert batch.endpoint == URL
    found = [Response.model_validate(body) for body in bodies_of(stored.completed(batch, len(bodies)))]
    said = "Native" if model == "native" else "You said"
    assert [response.output_text for response in found] == [f"{said}: {body['input']}" for body in bodies]
    assert {response.model for response in found} == {model}
    if model == "translated":
        assert [response.metadata for response in found[:5]] == [body["metadata"] for body in bodies[:5]]
        assert found[-1].incomplete_details.reason == "max_output_tokens"
    assert {call.path for call in stored.models.calls} == {URL if model == "native" else "/v1/chat/completions"}
    ended = stored.ended(batch)
    assert (ended.usage.input_tokens, ended.usage.output_tokens, ended.usage.total_tokens) == (180, 72, 252)
    assert ended.to_dict()["cost_usd"] == pytest.approx(6 * COST_USD)


@pytest.mark.parametrize(
    ("members", "param", "code"),
    [
        ({"stream": True}, "stream", "streaming_unsupported"),
        ({"store": True}, "store", "invalid_request"),
        ({"background": True}, "background", "invalid_request"),
        ({"previous_response_id": "r"}, "previous_response_id", "invalid_request"),
        ({"conversation": "c"}, "conversation", "invalid_request"),
        ({"tools": [{"type": "mcp"}]}, "tools[0].type", "invalid_request"),
        ({"max_tool_calls": 1}, "max_tool_calls", "invalid_request"),
    ],
)
def test_what_is_refused_is_named_in_both_forms(stand, members, param, code):
    bodies = [{"model": "translated", "input": "x"}, {"model": "translated", "input": "x"} | members]
    with pytest.raises(openai.BadRequestError) as refused:
        stand.inline(URL, bodies)
    assert (refused.value.param, refused.value.code) == (f"requests[1].body.{param}", code)
    assert refused.value.body["message"].startswith(f"requests[1] (custom_id '1'): {param}: ")
    batch = stand.ended(stand.from_file(URL, bodies))
    assert batch.status == "failed"
    (problem,) = batch.errors.data
    assert (problem.line, problem.param, problem.code) == (2, f"body.{param}", code)


def test_one_batch_targets_one_endpoint(stand):
    requests = [
        {"custom_id": "a", "url": URL, "body": {"model": "translated", "input": "x"}},
        {"custom_id": "b", "url": "/v1/embeddings", "body": {"model": "embed", "input": "x"}},
    ]
    with pytest.raises(openai.BadRequestError) as refused:
        stand.client.post("/batches", cast_to=object, body={"requests": requests})
    assert (refused.value.param, refused.value.code) == ("requests[1].url", "invalid_url")
    assert "custom_id 'b'" in refused.value.body["message"]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["translated", "native"])
def test_every_single_field_reaches_the_upstream_or_is_named(stand, model):
    """Each alone in an interactive call; then all that were taken in one batch, which sends the very same."""
    space = cases()
    taken = []
    with stand.daemon.client(stand.key) as client:
        for case in space:
            before = len(stand.models.calls)
            answer = client.post(URL, json={"model": model} | case.body)
            sent = stand.models.calls[before:]
            if answer.status_code == 400:
                assert not sent
                assert about(answer.json()["error"]["param"], case.path), (case, answer.text)
                continue
            assert (answer.status_code, len(sent)) == (200, 1), (case, answer.text)
            taken.append((case, sent[0].body))
            if model == "native":
                assert sent[0].json == {"model": "their-responder"} | case.body | {"store": False}
            else:
                assert is_no_op(case) or not lost(case.body, sent[0].body.decode()), case
    batched = [(case, body) for case, body in taken if not case.body.get("stream")]
    before = len(stand.models.calls)
    stand.completed(stand.inline(URL, [{"model": model} | case.body for case, _ in batched]), len(batched))
    assert sorted(call.body for call in stand.models.calls[before:]) == sorted(body for _, body in batched)
    assert len(space) > len(taken) > (60 if model == "translated" else 400)
    print(f"{len(space)} fields, {len(taken)} carried, {json.dumps(model)}")
