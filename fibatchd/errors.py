"""The exception tree. It needs no other part, so that every part may raise and catch these, and nothing else crosses a
boundary.

Driver exceptions stay behind the store, socket exceptions behind the upstream client; what leaves a part is one of these.
"""

from collections.abc import Mapping

from fibatchd.printable import printable


class FibatchdError(Exception):
    """Base of everything this program raises on purpose."""


class ConfigError(FibatchdError):
    """The configuration is wrong. Raised with every problem found, each a line `path: what is wrong`.

    What a file holds is quoted in many of them: line breaks and other control characters are shown as escapes.
    """

    def __init__(self, problems: list[str]) -> None:
        self.problems = [printable(problem) for problem in problems]
        super().__init__("\n".join(self.problems))


class InvalidJson(FibatchdError):
    """A text is not JSON as RFC 8259 has it, or not the kind of value expected. Says what and where, and quotes nothing."""


class UnknownMember(InvalidJson):
    """An object has a member that it may not have, `name`. Raised by `rawjson.read_known`."""

    def __init__(self, name: str) -> None:
        super().__init__("an unknown member")
        self.name = name


class ApiError(FibatchdError):
    """A call is refused. Raised by a route or a check; the front end turns it into the answer of the route's API.

    status   HTTP status
    message  what the client is told; names the field, line or request at fault
    code     OpenAI's machine-readable `code`, or None
    param    the field at fault, or None
    retry    False adds `x-should-retry: false`: waiting seconds cannot cure it, and the SDKs would retry in vain
    retry_after  seconds for a `Retry-After` header, or None
    headers  what the answer says beside that, such as the size of which no such range exists
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry: bool = True,
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.retry = retry
        self.retry_after = retry_after
        self.headers = headers or {}


class StoreError(FibatchdError):
    """Base of what the store raises."""


class StoreUnavailable(StoreError):
    """The database is gone, full, locked or read-only: nothing was stored. Raised by every store call; it may pass."""


class StoreUncertain(StoreUnavailable):
    """The database was lost in the very commit and did not come back in time to tell: the script is stored whole or not
    at all. Raised by a write of the PostgreSQL driver. Whoever claimed so may hold what it does not know of.

    `receipt` is by what the store finds out which it was, once it is back (`Store.was_stored`).
    """

    def __init__(self, message: str, receipt: tuple[int, int] = (0, 0)) -> None:
        super().__init__(message)
        self.receipt = receipt


class StoreConflict(StoreError):
    """A unique value exists already. Raised by an insert; the transaction was rolled back."""


class StoreTooNew(StoreError):
    """The database was migrated by a newer program. Raised at start, which it ends."""


class StoreInUse(StoreError):
    """Another daemon holds this SQLite file. Raised at start, which it ends."""


class LeaseLost(StoreError):
    """This daemon's leases ran out and others took its work over. Raised by a claim; the daemon registers anew."""


class UpstreamError(FibatchdError):
    """Base of what the upstream client raises when no complete answer was had."""


class ConnectFailed(UpstreamError):
    """No connection could be made (refused, unreachable, name not found, TLS). Nothing was sent."""


class ConnectionLost(UpstreamError):
    """The connection ended after the request was (perhaps partly) sent, and before the answer was whole."""


class AnswerTimeout(UpstreamError):
    """The answer was not whole within the attempt's time-out. The request was sent."""


class AnswerBroken(UpstreamError):
    """What came back is not HTTP as RFC 9112 has it, or not in the announced encoding. The request was sent."""


class AnswerTooLarge(UpstreamError):
    """The answer's body passed the size cap while it arrived; the connection was closed. The request was sent."""
