"""Answers to batch requests are taken a few at a time, so that a turn of the event loop is short for everybody else."""

import errno
import socket
from collections import Counter
from contextlib import contextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from fibatchd.upstream.turnstile import AT_ONCE, Turnstile, wait_in_turn

COUNT = 5 * AT_ONCE


@contextmanager
def pairs(count):
    """So many connected pairs of sockets; the first of each does not block."""
    found = [socket.socketpair() for _ in range(count)]
    for ours, _ in found:
        ours.setblocking(False)
    try:
        yield found
    finally:
        for ours, theirs in found:
            ours.close()
            theirs.close()


class Turns(trio.abc.Instrument):
    """Counts the turns of the loop."""

    def __init__(self):
        self.now = 0

    def after_io_wait(self, timeout):
        self.now += 1


@pytest.fixture
async def turns():
    found = Turns()
    trio.lowlevel.add_instrument(found)
    yield found
    trio.lowlevel.remove_instrument(found)


async def test_no_more_than_a_few_go_on_in_one_turn(turns, nursery):
    passed = []

    async def wait(ours):
        await wait_in_turn(ours)
        passed.append(turns.now)

    with pairs(COUNT) as sockets, trio.fail_after(10):
        for ours, _ in sockets:
            nursery.start_soon(wait, ours)
        await wait_all_tasks_blocked()
        for _, theirs in sockets:
            theirs.send(b"x")
        await wait_all_tasks_blocked()
    assert len(passed) == COUNT
    assert max(Counter(passed).values()) == AT_ONCE
    assert max(passed) - min(passed) < COUNT / AT_ONCE + 2, "and as many in each, with none in between"


async def test_others_have_every_turn(turns, nursery):
    """Somebody who needs ten turns has waited for ten small ones when all is done, not for ten of everybody."""
    left = COUNT
    seen = []

    async def wait(ours):
        nonlocal left
        for _ in range(10):
            await wait_in_turn(ours)
        left -= 1

    with pairs(COUNT) as sockets, trio.fail_after(10):
        for ours, theirs in sockets:
            theirs.send(b"x")  # and it stays readable
            nursery.start_soon(wait, ours)
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        seen.append(left)
        await wait_all_tasks_blocked()
    assert (seen[0] > COUNT / 2, left) == (True, 0)


async def test_who_does_not_wait_any_more_holds_nobody_up(nursery):
    with pairs(2) as sockets, trio.fail_after(10):
        (first, its), (second, others) = sockets
        with trio.CancelScope() as scope:
            nursery.start_soon(cancel_soon, scope)
            await wait_in_turn(first)
        assert scope.cancelled_caught
        its.send(b"x")
        others.send(b"x")
        await wait_in_turn(second)
        await wait_in_turn(first)


async def cancel_soon(scope):
    await wait_all_tasks_blocked()
    scope.cancel()


async def test_a_descriptor_that_is_given_out_again_is_watched_anew():
    with trio.fail_after(10):
        for _ in range(3):
            with pairs(1) as [(ours, theirs)]:
                theirs.send(b"x")
                await wait_in_turn(ours)


@pytest.mark.parametrize("end", ["theirs", "ours"])
async def test_the_end_of_a_connection_wakes_who_waits(nursery, end):
    with pairs(1) as [(ours, theirs)], trio.fail_after(10):
        ended = theirs if end == "theirs" else ours
        nursery.start_soon(shut_soon, ended)
        await wait_in_turn(ours)
        assert ours.recv(1) == b""


async def shut_soon(sock):
    await wait_all_tasks_blocked()
    sock.shutdown(socket.SHUT_RDWR)


async def test_without_epoll_all_go_on_at_once(monkeypatch):
    monkeypatch.delattr("select.epoll")
    with pairs(1) as [(ours, theirs)], trio.fail_after(10):
        theirs.send(b"x")
        await wait_in_turn(ours)


@pytest.mark.parametrize("lacking", ["descriptor", "memory"])
async def test_one_that_cannot_be_watched_goes_on_at_once(monkeypatch, lacking):
    def refuse(*_):
        raise OSError(errno.EMFILE if lacking == "descriptor" else errno.ENOSPC, "refused")

    with pairs(1) as [(ours, theirs)], trio.fail_after(10):
        if lacking == "descriptor":
            monkeypatch.setattr("select.epoll", refuse)
        else:
            monkeypatch.setattr(Turnstile, "_watch", refuse)
        theirs.send(b"x")
        await wait_in_turn(ours)
        monkeypatch.undo()
        await wait_in_turn(ours)


def test_each_run_of_trio_has_its_own():
    async def once():
        with pairs(1) as [(ours, theirs)]:
            theirs.send(b"x")
            with trio.fail_after(10):
                await wait_in_turn(ours)

    trio.run(once)
    trio.run(once)
