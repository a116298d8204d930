"""Names to addresses, in threads of their own: a name server that hangs holds up webhooks at most."""

import socket
from collections.abc import Awaitable, Callable

import trio

Resolve = Callable[[str], Awaitable[list[str]]]
"""A host name -> its IP addresses, in the order to try them. Raises OSError where it has none."""

THREADS = 64


class Resolver:
    """The system's resolver."""

    def __init__(self) -> None:
        self._limiter = trio.CapacityLimiter(THREADS)

    async def __call__(self, host: str) -> list[str]:
        """Return a name's addresses. A cancelled call leaves its thread to end by itself."""

        def look_up() -> list[str]:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            return list(dict.fromkeys(str(address[0]) for *_, address in found))

        return await trio.to_thread.run_sync(look_up, abandon_on_cancel=True, limiter=self._limiter)
