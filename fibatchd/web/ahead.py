"""What is made a piece at a time is made while the piece before is in use: sent to a client, or written to the store."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Generic, TypeVar

import outcome
import trio
from quart.wrappers.response import ResponseBody

T = TypeVar("T")


class Ahead(ResponseBody, Generic[T]):
    """Gives what a generator gives, which runs one item ahead of who takes them; so there are two in memory. With items of
    bytes it can be an answer's body.

    What the generator raises comes out in its turn, behind the items before it, and in no group. On leaving, the generator is
    cancelled, where it has not ended, and closed.
    """

    def __init__(self, items: AsyncGenerator[T, None]) -> None:
        self._items = items
        self._running = self._run()

    async def __aenter__(self) -> AsyncIterator[T]:
        return await self._running.__aenter__()

    async def __aexit__(self, *_: object) -> None:
        # What was raised inside goes its own way: through the nursery it would come out in a group.
        await self._running.__aexit__(None, None, None)

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[AsyncIterator[T]]:
        send, receive = trio.open_memory_channel[outcome.Outcome[T]](0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._make, send)
            async with aclosing(_unwrapped(receive)) as items:
                yield items
            nursery.cancel_scope.cancel()

    async def _make(self, send: trio.MemorySendChannel[outcome.Outcome[T]]) -> None:
        with send:
            async with aclosing(self._items) as items:
                try:
                    async for item in items:
                        await send.send(outcome.Value(item))
                except Exception as error:
                    await send.send(outcome.Error(error))


async def _unwrapped(receive: trio.MemoryReceiveChannel[outcome.Outcome[T]]) -> AsyncGenerator[T, None]:
    async for item in receive:
        await trio.lowlevel.checkpoint()  # the next one is begun before this one is used
        yield item.unwrap()
