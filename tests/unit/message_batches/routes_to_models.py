"""Models and routes for tests of the translation."""

from typing import Any

from fibatchd.config import Capabilities, Model, Upstream
from fibatchd.inference.endpoint import Route

BODY = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]}
"""The least that is a request."""

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"


def model(*, protocol: Any = "openai", serves: str = CHAT, url: str = "http://h/v1", **carries: Any) -> Model:
    """A model with one upstream, its name there being "theirs"; `carries` are its capabilities."""
    upstream = Upstream(url=url, protocol=protocol, endpoints=(serves,), model="theirs")
    return Model(id="m", endpoints=(MESSAGES,), capabilities=Capabilities(**carries), upstreams=(upstream,))


def route(of: Model) -> Route:
    return Route(of, of.upstreams[0])
