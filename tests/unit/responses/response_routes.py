"""Models for tests of the Responses endpoint, and a request's way through it."""

import json
from typing import Any

from fibatchd_plugins.responses.endpoint import PATH, Responses

from fibatchd.config import CHAT_COMPLETIONS, Model, Upstream
from fibatchd.inference.endpoint import Call, Problem, Route

ENDPOINT = Responses()


def model(*serving: str) -> Model:
    """A model with one upstream for each of the paths that they serve."""
    upstreams = tuple(Upstream(url="http://h/v1", endpoints=(path,), model="up/model") for path in serving)
    return Model(id="public", endpoints=(PATH,), upstreams=upstreams)


TRANSLATED = model(CHAT_COMPLETIONS)
NATIVE = model(PATH)


def route(of: Model = TRANSLATED) -> Route:
    return Route(of, of.upstreams[0])


def encoded(members: dict[str, Any]) -> bytes:
    return json.dumps({"model": "public", "input": "x"} | members).encode()


def problem(members: dict[str, Any], of: Model = TRANSLATED, *, batch: bool = True) -> Problem | None:
    """Why a request is refused at its creation."""
    body = encoded(members)
    return ENDPOINT.check(body, batch=batch, options={}) or ENDPOINT.route_problem(body, of)


def call(members: dict[str, Any], *, stream: bool = False) -> Call:
    return ENDPOINT.call(encoded(members), route(), {}, stream=stream)


def chat(members: dict[str, Any], *, stream: bool = False) -> dict[str, Any]:
    """The chat completions body that a request becomes, but for the model; one that is refused is an error."""
    found = problem(members, batch=not stream)
    assert found is None, found
    sent = call(members, stream=stream)
    assert sent.path == CHAT_COMPLETIONS
    body: dict[str, Any] = json.loads(sent.body)
    assert body.pop("model") == "up/model"
    return body


def response(answer: dict[str, Any], **asked: Any) -> dict[str, Any]:
    """The response that a chat completion becomes."""
    found: dict[str, Any] = json.loads(ENDPOINT.reply(json.dumps(answer).encode(), call(asked), route()).body)
    return found
