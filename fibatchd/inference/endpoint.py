"""What an endpoint is: one path such as `/v1/chat/completions`, its checks, and its way to an upstream and back.

The core brings chat completions; plugins bring others. All methods are plain functions without I/O, and may run in a
worker thread.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw, Struct

from fibatchd.config import Model, Upstream
from fibatchd.domain.requests import Usage
from fibatchd.errors import FibatchdError

Options = Mapping[str, Any]
"""What a batch (or an interactive call) keeps beside the body, such as the version of the API it speaks."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a body is refused. `param` is the path of the field at fault inside the body, `code` OpenAI's error code."""

    message: str
    param: str | None = None
    code: str = "invalid_request"


class Refused(FibatchdError):
    """The route that was chosen cannot carry the request. Raised by `Endpoint.call`; where no other can, it is final, as a
    400 is. The problem's message names the field, as in every Problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class BrokenReply(FibatchdError):
    """The upstream answered 200 with what is no answer of its API. Raised by `Endpoint.reply` and translators."""


class Route(Struct, frozen=True):
    """Where an attempt goes: a model, and one of its upstreams."""

    model: Model
    upstream: Upstream


class Call(Struct, frozen=True):
    """What is sent to an upstream: a path below its URL, a body, headers beside the usual ones. `memo` is the
    endpoint's own note of what it needs to translate the answer back."""

    path: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    memo: Any = None


class Reply(Struct, frozen=True):
    """A success as the client gets it. `usage` is None where the upstream gave none."""

    body: bytes
    usage: Usage | None


class StreamEditor(ABC):
    """Turns an upstream's event stream into the client's, while it arrives.

    `usage` holds what the stream has told so far; None until it tells any.
    """

    usage: Usage | None = None

    @abstractmethod
    def feed(self, chunk: bytes) -> bytes:
        """Take bytes as they came; return what goes on to the client now, b"" where nothing does yet."""

    def close(self) -> bytes:
        """The stream ended well; return what is still to go on."""
        return b""

    def failed(self, code: str, message: str) -> bytes:
        """The stream broke; return the event that tells the client so, in the API's own form. b"": there is none."""
        return b""


class Endpoint(ABC):
    """One path of the API.

    path       such as "/v1/chat/completions"
    batchable  whether `POST /v1/batches` may name it as `url` or `endpoint`; False for one that has a batch API of its own
    """

    path: str
    batchable: bool = True

    @abstractmethod
    def check(self, body: bytes, *, batch: bool, options: Options) -> Problem | None:
        """Judge a body (valid JSON, an object, without duplicate members) as this endpoint documents it.

        `batch` says whether it comes in a batch, where `stream` must not be true. The model is checked elsewhere.
        """

    def passes_at_sight(self, members: Mapping[str, Raw]) -> bool:
        """Whether a body of a usual form is one that `check` passes in any case, and `route_problem` for any model, told from
        its `members` in less time than those take. The default: False, which says nothing."""
        return False

    def route_problem(self, body: bytes, model: Model) -> Problem | None:
        """Judge a body that `check` has passed by what its model takes, and by what the way to its upstreams carries.

        The default: all that `check` passes.
        """
        return None

    def carries(self, model: Model, upstream: Upstream) -> bool:
        """Whether this upstream can serve the endpoint, itself or by translation. The default: itself."""
        return self.path in upstream.endpoints

    @abstractmethod
    def call(self, body: bytes, route: Route, options: Options, *, stream: bool = False) -> Call:
        """Return what to send, `model` replaced by the upstream's name for it. Raises Refused."""

    @abstractmethod
    def reply(self, body: bytes, call: Call, route: Route) -> Reply:
        """Turn the body of a 2xx answer into the client's. Raises BrokenReply."""

    def usage_of(self, answer: bytes) -> Usage | None:
        """Return what an answer, as the client got it, tells of its tokens; None where it tells nothing. The default."""
        return None

    def editor(self, call: Call, route: Route) -> StreamEditor:
        """Return a new editor for the stream that answers `call`. The default: this endpoint does not stream."""
        raise Refused(Problem("stream: not available on this endpoint", "stream"))


@dataclass(slots=True)
class Endpoints:
    """All endpoints by path; filled once at start, by the core and then by plugins."""

    by_path: dict[str, Endpoint] = field(default_factory=dict)
    _extensions: dict[str, str | None] = field(default_factory=dict)

    def add(self, endpoint: Endpoint, extension: str | None = None) -> None:
        """Register one; `extension` is the switch that opens it to batches, None for what is always open.

        Raises ValueError where its path is taken.
        """
        if endpoint.path in self.by_path:
            raise ValueError(f"two endpoints for {endpoint.path}")
        self.by_path[endpoint.path] = endpoint
        self._extensions[endpoint.path] = extension

    def __getitem__(self, path: str) -> Endpoint:
        return self.by_path[path]

    def get(self, path: str) -> Endpoint | None:
        """Return the endpoint of a path, None where there is none."""
        return self.by_path.get(path)

    def open_to_batches(self, is_on: Callable[[str], bool]) -> list[str]:
        """Return the paths that a new batch may name; `is_on` says which extensions are switched on."""
        return [
            path
            for path, extension in self._extensions.items()
            if self.by_path[path].batchable and (extension is None or is_on(extension))
        ]
