"""Asyncio inside trio, for the PostgreSQL driver alone: a loop in a task of its own, and calls into it.

The loop's task keeps the loop to itself: whoever calls sees no running asyncio loop in its context, so that libraries
which look for one are not led astray.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import outcome
import trio
import trio_asyncio

T = TypeVar("T")

_log = logging.getLogger(__name__)


def _nothing() -> None:
    """Be called when a call is cancelled that has nothing to tear down."""


class Bridge:
    """Runs coroutines of asyncio for tasks of trio. Make one with `open_bridge`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, nursery: trio.Nursery) -> None:
        self._loop = loop
        self._nursery = nursery

    def start_soon(self, function: Callable[[], Awaitable[None]]) -> None:
        """Run a trio function in the background for as long as the bridge stands; an error of it closes the bridge."""
        self._nursery.start_soon(function)

    async def call(self, coroutine: Coroutine[Any, Any, T], abort: Callable[[], None] = _nothing) -> T:
        """Run a coroutine as a task of asyncio, whole, and return or raise what it does.

        Crossing over costs more than what most statements do, so whoever has several awaits it all here. When the scope
        of the caller is cancelled, `abort` is called, then the task is cancelled; the call ends when the task has, so
        `abort` must make sure that it does.
        """
        task = self._loop.create_task(coroutine)
        caller = trio.lowlevel.current_task()
        task.add_done_callback(lambda _: trio.lowlevel.reschedule(caller, outcome.Value(None)))
        raise_cancelled: Callable[[], Any] | None = None

        def on_cancel(raise_cancel: Callable[[], Any]) -> trio.lowlevel.Abort:
            nonlocal raise_cancelled
            raise_cancelled = raise_cancel
            abort()
            task.cancel()
            return trio.lowlevel.Abort.FAILED

        await trio.lowlevel.wait_task_rescheduled(on_cancel)
        if raise_cancelled is not None and (task.cancelled() or task.exception() is not None):
            raise_cancelled()
        return task.result()


async def _hold_loop(task_status: trio.TaskStatus[asyncio.AbstractEventLoop]) -> None:
    async with trio_asyncio.open_loop() as loop:
        loop.set_exception_handler(_log_problem)
        task_status.started(loop)
        await trio.sleep_forever()


def _log_problem(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # Without this, trio-asyncio would end the loop for an error that nobody waited for, such as that of a connection
    # torn down while asyncpg was telling the server to cancel its statement.
    _log.warning("asyncio: %s", context.get("message"), exc_info=context.get("exception"))


@contextlib.asynccontextmanager
async def open_bridge() -> AsyncIterator[Bridge]:
    """Hold an asyncio loop open for as long as the block runs. What the block raises comes out as it is, in no group."""
    raised: Exception | None = None
    async with trio.open_nursery() as nursery:
        loop = await nursery.start(_hold_loop)
        try:
            yield Bridge(loop, nursery)
        except Exception as error:
            raised = error  # carried around the nursery, which would wrap it
        nursery.cancel_scope.cancel()
    if raised is not None:
        raise raised
