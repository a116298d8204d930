"""`/v1/messages`: its checks, and its two ways to an upstream, the native one and the translated one."""

from fibatchd.plugin_api import (
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
    rawjson,
)

from .answers import native_usage
from .checks import body_problem
from .from_chat import from_chat
from .native import NativeStream, native_call, native_reply
from .streams import ChatToMessages
from .to_chat import to_chat
from .versions import FIRST

PATH = "/v1/messages"
CHAT_PATH = "/v1/chat/completions"


class Messages(Endpoint):
    """The Messages API. Options: `version`, the API's; `beta`, an interactive call's beta header, where it has one."""

    path = PATH
    batchable = False  # in `POST /v1/batches`; its batches have an API of their own

    def carries(self, model: Model, upstream: Upstream) -> bool:
        """Whether the upstream serves messages itself, or chat completions that they can be translated to."""
        return is_native(upstream) or (upstream.protocol == "openai" and CHAT_PATH in upstream.endpoints)

    def check(self, body: bytes, *, batch: bool, options: Options) -> Problem | None:
        """Judge what is the same for every route; what a route cannot carry is found by `call`."""
        return body_problem(body, options.get("version", FIRST), batch=batch)

    def route_problem(self, body: bytes, model: Model) -> Problem | None:
        """Return why no upstream of the model can carry the body, None where one can."""
        if any(is_native(upstream) for upstream in model.upstreams):
            return None
        try:
            to_chat(body, model, model.id)
        except Refused as refused:
            return refused.problem
        return None

    def call(self, body: bytes, route: Route, options: Options, *, stream: bool = False) -> Call:
        """Return what to send. Raises Refused where the translation cannot carry it."""
        if is_native(route.upstream):
            return native_call(self.path, body, route, options)
        chat, asked = to_chat(body, route.model, route.upstream.model, stream=stream)
        return Call(CHAT_PATH, chat, memo=asked)

    def reply(self, body: bytes, call: Call, route: Route) -> Reply:
        """Return the message. Raises BrokenReply."""
        if is_native(route.upstream):
            return native_reply(body, route)
        return from_chat(body, route.model.id, call.memo)

    def usage_of(self, answer: bytes) -> Usage | None:
        """Return the usage of a message."""
        usage = native_usage(rawjson.split_object(answer).get("usage"))
        return usage.tokens() if usage else None

    def editor(self, call: Call, route: Route) -> StreamEditor:
        """Return an editor for the stream."""
        if is_native(route.upstream):
            return NativeStream(route.model.id)
        return ChatToMessages(route.model.id, call.memo)


def is_native(upstream: Upstream) -> bool:
    """Whether the upstream serves messages itself. The built-in demo model never does."""
    return PATH in upstream.endpoints and not upstream.is_echo
