"""What the upstream client hands out: a whole answer, or one that is read while it arrives."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from fibatchd.errors import AnswerTooLarge
from fibatchd.upstream.connection import Connection


class Answer(NamedTuple):
    """A whole answer. Header names are in lower case; the values of a repeated one are joined by `, `."""

    status: int
    headers: Mapping[bytes, bytes]
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        """The value of the header `name` (in lower case), or None."""
        return self.headers.get(name)


class StreamedAnswer:
    """An answer whose body is read while it arrives: `async for chunk in answer`.

    Chunks are decoded and never empty; each is passed on with no wait for more.
    """

    def __init__(self, connection: Connection) -> None:
        self.status = 0
        self.headers: Mapping[bytes, bytes] = {}
        """As in `Answer`."""
        self._connection: Connection | None = connection
        self._chunks: Iterator[bytes] = iter(())

    def header(self, name: bytes) -> bytes | None:
        """The value of the header `name` (in lower case), or None."""
        return self.headers.get(name)

    def __aiter__(self) -> "StreamedAnswer":
        return self

    async def __anext__(self) -> bytes:
        while (chunk := next(self._chunks, None)) is None:
            if self._attached().parser.complete:
                raise StopAsyncIteration
            await self._read()
        return chunk

    async def read(self, max_body: int) -> bytes:
        """What is left of the body, for an answer that turns out not to be a stream. AnswerTooLarge: over `max_body`."""
        body = _Body(max_body)
        async for chunk in self:
            body.extend((chunk,))
        return body.joined()

    async def read_head(self) -> None:
        """Wait until status and headers are there."""
        parser = self._attached().parser
        while not parser.head_complete:
            await self._read()
        self.status = parser.status
        self.headers = parser.headers

    def detach(self) -> None:
        """The connection goes to somebody else; what is left of the body can no longer be read."""
        self._connection = None
        self._chunks = iter(())

    async def _read(self) -> None:
        connection = self._attached()
        await connection.read()
        self._chunks = iter(connection.parser.take())

    def _attached(self) -> Connection:
        if self._connection is None:
            raise RuntimeError("an answer can be read only inside its block")
        return self._connection


async def read_answer(connection: Connection, max_body: int) -> Answer:
    """Read the answer to the request begun on `connection`. ConnectionLost, AnswerBroken, AnswerTimeout, AnswerTooLarge."""
    parser = connection.parser
    body = _Body(max_body)
    while not parser.complete:
        await connection.read()
        body.extend(parser.take())
    return Answer(parser.status, parser.headers, body.joined())


class _Body:
    """Collects a body's pieces up to a cap on their size in bytes."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._size = 0
        self._pieces: list[bytes] = []

    def extend(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            self._size += len(piece)
            if self._size > self._cap:
                raise AnswerTooLarge(f"the body is over {self._cap} bytes")
            self._pieces.append(piece)

    def joined(self) -> bytes:
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
