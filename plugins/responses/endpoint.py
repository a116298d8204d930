"""The endpoint: its checks, and its two ways to an upstream, the native one and the translated one."""

from fibatchd.plugin_api import (
    CHAT_COMPLETIONS,
    Call,
    Endpoint,
    Model,
    Options,
    Problem,
    Refused,
    Reply,
    Route,
    StreamEditor,
    Upstream,
    Usage,
    load_schema,
    rawjson,
)

from .checks import independence_problem
from .from_chat import from_chat
from .native import NativeStream, native_call, native_reply, native_usage
from .streaming import ChatToResponses
from .to_chat import to_chat

PATH = "/v1/responses"


class Responses(Endpoint):
    """OpenAI's Responses API. The memo of a translated Call is what its answer repeats of the request."""

    path = PATH

    def carries(self, model: Model, upstream: Upstream) -> bool:
        """Whether the upstream serves responses itself, or chat completions that they can be translated to."""
        return _is_native(upstream) or (upstream.protocol == "openai" and CHAT_COMPLETIONS in upstream.endpoints)

    def check(self, body: bytes, *, batch: bool, options: Options) -> Problem | None:
        """Judge what is the same for every route: `schemas/responses.schema.json`, and that the request is independent."""
        request = rawjson.decode(body)
        problem = load_schema("responses").problem(request)
        if problem is not None:
            return Problem(problem.message, problem.param)
        if batch and request.get("stream"):
            return Problem("stream: a batched request cannot be streamed", "stream", "streaming_unsupported")
        return independence_problem(request)

    def route_problem(self, body: bytes, model: Model) -> Problem | None:
        """Return what cannot be translated where every way to the model's upstreams is a translation."""
        if any(_is_native(upstream) for upstream in model.upstreams):
            return None
        try:
            to_chat(body, model.id)
        except Refused as refused:
            return refused.problem
        return None

    def call(self, body: bytes, route: Route, options: Options, *, stream: bool = False) -> Call:
        """Return what to send. Raises Refused where the translation cannot carry it."""
        if _is_native(route.upstream):
            return native_call(self.path, body, route)
        chat, settings = to_chat(body, route.upstream.model, stream=stream)
        return Call(CHAT_COMPLETIONS, chat, memo=settings)

    def reply(self, body: bytes, call: Call, route: Route) -> Reply:
        """Return the response. Raises BrokenReply."""
        if _is_native(route.upstream):
            return native_reply(body, route)
        return from_chat(body, route.model.id, call.memo)

    def usage_of(self, answer: bytes) -> Usage | None:
        """Return the usage of a response."""
        return native_usage(rawjson.split_object(answer).get("usage"))

    def editor(self, call: Call, route: Route) -> StreamEditor:
        """Return an editor for the stream."""
        if _is_native(route.upstream):
            return NativeStream(route.model.id)
        return ChatToResponses(route.model.id, call.memo)


def _is_native(upstream: Upstream) -> bool:
    """Whether the upstream serves responses itself. The built-in demo model never does."""
    return PATH in upstream.endpoints and not upstream.is_echo
