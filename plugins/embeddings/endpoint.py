"""The endpoint: bodies and answers pass through byte for byte, the model's name aside.

One thing is mended: an upstream that knows no base64 answers lists of floats where the client asked for base64. OpenAI's
Python client copes with that, the one for Node takes the list for bytes and gives a vector that is wrong without a word.
"""

from typing import Any

import msgspec

from fibatchd.plugin_api import (
    BrokenReply,
    Call,
    Endpoint,
    Model,
    Options,
    Problem,
    Reply,
    Route,
    Usage,
    load_schema,
    rawjson,
    read_usage,
)

from .encoding import in_base64
from .limits import limit_problem

PATH = "/v1/embeddings"


class Embeddings(Endpoint):
    """OpenAI's embeddings. A Call's memo says whether the client asked for base64."""

    path = PATH

    def check(self, body: bytes, *, batch: bool, options: Options) -> Problem | None:
        """Judge by `schemas/embeddings.schema.json`; and nothing can be streamed."""
        request = rawjson.decode(body)
        problem = load_schema("embeddings").problem(request)
        if problem is not None:
            return Problem(problem.message, problem.param)
        if request.get("stream"):
            what = "a batched request" if batch else "an embedding"
            return Problem(f"stream: {what} cannot be streamed", "stream", "streaming_unsupported")
        return None

    def route_problem(self, body: bytes, model: Model) -> Problem | None:
        """Judge by the model's limits."""
        return limit_problem(rawjson.decode(body), model.capabilities)

    def call(self, body: bytes, route: Route, options: Options, *, stream: bool = False) -> Call:
        """Send the client's own bytes, with the upstream's name for the model."""
        sent = rawjson.replace_member(body, "model", msgspec.json.encode(route.upstream.model))
        return Call(self.path, sent, memo=_asks_for_base64(body))

    def reply(self, body: bytes, call: Call, route: Route) -> Reply:
        """Return the upstream's own bytes, the model under its public name, and vectors in base64 where those were asked."""
        members = rawjson.split_object(body)
        data = members.get("data")
        if data is None or memoryview(data)[0] != ord("["):
            raise BrokenReply("no data")
        if call.memo:
            body = rawjson.replace_member(body, "data", in_base64(data))
        if "model" in members:
            body = rawjson.replace_member(body, "model", msgspec.json.encode(route.model.id))
        return Reply(body, read_usage(members.get("usage")))

    def usage_of(self, answer: bytes) -> Usage | None:
        """Return the usage of a list of embeddings."""
        return read_usage(rawjson.split_object(answer).get("usage"))


def _asks_for_base64(body: bytes) -> bool:
    wanted: Any = rawjson.split_object(body).get("encoding_format")
    return wanted is not None and rawjson.decode(wanted) == "base64"
