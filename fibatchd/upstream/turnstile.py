"""Where batch requests wait for their answers: so few of them go on in one turn of the event loop that others keep theirs.

trio runs all that is ready in one turn. With 64 quick answers at once, each step of a status call would wait for all of them.
So sockets of batch requests are watched by an epoll set of its own, out of which AT_ONCE are taken a turn; the kernel keeps
the others, in order. Where there is no epoll, which is a place to try things, all go on at once; and so does one that the
system has no descriptor or no memory to watch for.
"""

import select
import socket

import trio

AT_ONCE = 8
"""Each takes about 0.1 ms until it waits for its next answer: a turn of the loop is a millisecond, not ten."""

_turnstile: trio.lowlevel.RunVar["Turnstile"] = trio.lowlevel.RunVar("turnstile")


async def wait_in_turn(sock: socket.socket) -> None:
    """Wait until `sock` is readable, and then for its turn."""
    if not hasattr(select, "epoll"):
        await trio.lowlevel.wait_readable(sock)
        return
    try:
        await _the_turnstile().readable(sock)
    except OSError:
        await trio.lowlevel.wait_readable(sock)


def _the_turnstile() -> "Turnstile":
    try:
        return _turnstile.get()
    except LookupError:
        turnstile = Turnstile()
        _turnstile.set(turnstile)
        trio.lowlevel.spawn_system_task(turnstile.run)
        return turnstile


class Turnstile:
    """One for all upstreams, for as long as trio runs."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._waiting: dict[int, trio.lowlevel.Task] = {}

    async def readable(self, sock: socket.socket) -> None:
        """Wait until `sock` is readable, or broken, and it is its turn. OSError: the system cannot watch it."""
        descriptor = sock.fileno()
        self._watch(descriptor)
        self._waiting[descriptor] = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            del self._waiting[descriptor]
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def _watch(self, descriptor: int) -> None:
        once = select.EPOLLIN | select.EPOLLONESHOT
        try:
            self._epoll.modify(descriptor, once)
        except FileNotFoundError:  # a new one; those that were closed have left the set
            self._epoll.register(descriptor, once)

    async def run(self) -> None:
        """Let AT_ONCE through each turn, until trio ends."""
        try:
            while True:
                ready = self._epoll.poll(0, AT_ONCE)
                for descriptor, _ in ready:
                    if (task := self._waiting.pop(descriptor, None)) is not None:  # None: it was cancelled
                        trio.lowlevel.reschedule(task)
                if len(ready) == AT_ONCE:
                    await trio.lowlevel.checkpoint()  # there are more, most likely
                else:
                    await trio.lowlevel.wait_readable(self._epoll.fileno())
        finally:
            self._epoll.close()
