"""Who listens to which channel inside this process; both drivers hand on what they hear through it."""

import contextlib
from collections.abc import AsyncIterator, Iterator

import trio

BACKLOG = 1024


class Listeners:
    """Memory channels by name. Telling never waits: a listener with a full backlog misses the rest."""

    def __init__(self) -> None:
        self._channels: dict[str, set[trio.MemorySendChannel[str]]] = {}

    @contextlib.contextmanager
    def on(self, channel: str) -> Iterator[AsyncIterator[str]]:
        """Listen for as long as the block runs."""
        send, receive = trio.open_memory_channel[str](BACKLOG)
        self._channels.setdefault(channel, set()).add(send)
        try:
            yield receive
        finally:
            self._channels[channel].discard(send)
            send.close()
            receive.close()

    def tell(self, channel: str, payload: str) -> None:
        """Hand a payload to all who listen."""
        for send in self._channels.get(channel, ()):
            with contextlib.suppress(trio.WouldBlock):
                send.send_nowait(payload)

    def channels(self) -> frozenset[str]:
        """Return the channels somebody has listened to."""
        return frozenset(self._channels)
