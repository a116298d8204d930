"""What an attempt needs of an upstream's client: what the client for model servers and the built-in demo model share."""

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from fibatchd.upstream.answer import Answer


class Streamed(Protocol):
    """An answer whose body is read while it arrives: `async for chunk in answer`."""

    status: int

    def header(self, name: bytes) -> bytes | None:
        """Return the header `name`, in lower case, or None."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def read(self, max_body: int) -> bytes:
        """Return what is left of the body. AnswerTooLarge: over `max_body`."""


class Client(Protocol):
    """Sends requests to one upstream; `UpstreamClient` says what parameters mean and which errors are raised."""

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        headers: Iterable[tuple[str, str]] = (),
        timeout: float,
        max_body: int,
        patient: bool = False,
    ) -> Answer:
        """Send a request and wait for the whole answer, whatever its status."""

    def stream(
        self, method: str, path: str, body: bytes = b"", *, headers: Iterable[tuple[str, str]] = (), timeout: float
    ) -> AbstractAsyncContextManager[Streamed]:
        """Send a request and give the answer as soon as its head is there; leaving the block stops the rest."""

    async def aclose(self) -> None:
        """Close what is idle; what runs ends as it would."""
