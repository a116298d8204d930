"""LISTEN on PostgreSQL: one connection that hears for the whole process, and is made anew when it is lost.

It is not one of the set that transactions borrow from, for it is never free.
"""

import logging
import random
from collections.abc import Callable
from typing import Any

import trio

from fibatchd.errors import StoreUnavailable
from fibatchd.store.bridge import Bridge
from fibatchd.store.listeners import Listeners
from fibatchd.store.postgres_connections import Server, open_connection
from fibatchd.store.postgres_errors import DRIVER_ERRORS, described

PING_S = 15.0
"""How often a connection on which nothing comes in is asked whether it still stands."""
ANSWER_S = 5.0
RETRY_S = 1.0

_log = logging.getLogger(__name__)


class Listening:
    """Hands on what other daemons notify. `own` tells the server processes whose notifications are handed on already,
    by the transaction that made them."""

    def __init__(self, bridge: Bridge, server: Server, listeners: Listeners, own: Callable[[int], bool]) -> None:
        self._bridge = bridge
        self._server = server
        self._listeners = listeners
        self._own = own
        self._changed = trio.Event()
        self._scope = trio.CancelScope()
        self._stopped = trio.Event()
        self._deaf = False

    def look_again(self) -> None:
        """Notice that there may be a channel more to listen to."""
        self._changed.set()

    async def run(self) -> None:
        """Listen until `stop`, through all losses."""
        try:
            with self._scope:
                while not self._listeners.channels():
                    await self._woken()
                while True:
                    try:
                        await self._listen_once()
                    except (StoreUnavailable, *DRIVER_ERRORS) as error:
                        self._note_loss(error)
                    await trio.sleep(random.uniform(RETRY_S / 2, RETRY_S))
        finally:
            self._stopped.set()

    async def stop(self) -> None:
        """End `run` and wait for it."""
        self._scope.cancel()
        await self._stopped.wait()

    async def _woken(self) -> None:
        await self._changed.wait()
        self._changed = trio.Event()

    def _note_loss(self, error: Exception) -> None:
        """Say once that the others are not heard: until they are, everybody only looks now and then."""
        if not self._deaf:
            self._deaf = True
            _log.warning("what other daemons notify is not heard: %s", described(error))

    async def _listen_once(self) -> None:
        raw = await open_connection(self._bridge, self._server)
        raw.add_termination_listener(lambda _: self._changed.set())
        heard: set[str] = set()
        try:
            while not raw.is_closed():
                with trio.fail_after(ANSWER_S):
                    wanted = self._listeners.channels() - heard
                    await self._bridge.call(self._subscribe(raw, sorted(wanted)), raw.terminate)
                heard |= wanted
                self._deaf = False
                with trio.move_on_after(PING_S):
                    await self._woken()
        finally:
            raw.terminate()

    async def _subscribe(self, raw: Any, channels: list[str]) -> None:
        for channel in channels:
            await raw.add_listener(channel, self._hear)
        if not channels:
            await raw.execute("SELECT 1")

    def _hear(self, _: Any, pid: int, channel: str, payload: str) -> None:
        if not self._own(pid):
            self._listeners.tell(channel, payload)
