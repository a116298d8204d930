"""An answer's body that is made while it is sent: its next part is there when the last one is out."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import outcome
import trio
from quart.wrappers.response import ResponseBody

from fibatchd.errors import FibatchdError


class Ahead(ResponseBody):
    """Gives what a generator gives, which runs one part ahead of who takes them: memory is held for two.

    A FibatchdError of the generator is raised in its turn, behind the parts before it. When the client leaves, the generator
    is cancelled, and closed.
    """

    def __init__(self, parts: AsyncGenerator[bytes, None]) -> None:
        self._parts = parts
        self._running = self._run()

    async def __aenter__(self) -> AsyncIterable[bytes]:
        return await self._running.__aenter__()

    async def __aexit__(self, *_: object) -> None:
        # What is raised meanwhile goes its own way: through the nursery it would come out as a group.
        await self._running.__aexit__(None, None, None)

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[AsyncIterable[bytes]]:
        send, receive = trio.open_memory_channel[outcome.Outcome[bytes]](0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._make, send)
            async with aclosing(_unwrapped(receive)) as parts:
                yield parts
            nursery.cancel_scope.cancel()

    async def _make(self, send: trio.MemorySendChannel[outcome.Outcome[bytes]]) -> None:
        async with send, aclosing(self._parts) as parts:
            try:
                async for part in parts:
                    await send.send(outcome.Value(part))
            except FibatchdError as error:
                await send.send(outcome.Error(error))


async def _unwrapped(receive: trio.MemoryReceiveChannel[outcome.Outcome[bytes]]) -> AsyncGenerator[bytes, None]:
    async for part in receive:
        yield part.unwrap()
