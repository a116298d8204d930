"""A part of the daemon that ends or crashes is started again; one that never started is told to whoever starts it."""

import pytest
import trio
from structlog.testing import capture_logs

from fibatchd.errors import FibatchdError
from fibatchd.supervise import CAP_S, FIRST_S, STABLE_S, restarts, supervise


class Part:
    """Works for the times that it is given, one for each start, and then crashes or ends; after the last it works on."""

    def __init__(self, *lasting, error=None):
        self._lasting = iter(lasting)
        self._error = error
        self.starts = []

    async def __call__(self, *, task_status=trio.TASK_STATUS_IGNORED):
        self.starts.append(trio.current_time())
        task_status.started()
        await trio.sleep(next(self._lasting, 1e9))
        if self._error is not None:
            raise self._error


async def waits(part, seconds):
    """Run a part for so long; return what was logged."""
    with capture_logs() as lines, trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            await nursery.start(supervise, "part", part)
    return lines


@pytest.mark.parametrize(("error", "event"), [(None, "part ended"), (ValueError(), "part crashed")])
async def test_it_is_started_again_with_backoff(autojump_clock, error, event):
    before = restarts["part",]
    part = Part(*[0] * 9, error=error)
    lines = await waits(part, 1000)
    pauses = [min(FIRST_S * 2**n, CAP_S) for n in range(9)]
    assert [later - sooner for sooner, later in zip(part.starts, part.starts[1:], strict=False)] == pauses
    assert [(line["event"], line["again_in"]) for line in lines] == [(event, pause) for pause in pauses]
    assert restarts["part",] - before == 9


async def test_after_a_long_run_the_backoff_begins_anew(autojump_clock):
    lines = await waits(Part(0, 0, 0, STABLE_S + 1), 1000)
    assert [line["again_in"] for line in lines] == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S, FIRST_S]


async def test_what_cannot_start_is_told(autojump_clock):
    async def broken(*, task_status=trio.TASK_STATUS_IGNORED):
        raise OSError("no socket")

    async def idle(*, task_status=trio.TASK_STATUS_IGNORED):
        await trio.sleep(1)

    with pytest.raises(OSError, match="no socket"):
        await supervise("part", broken)
    with trio.fail_after(100), pytest.raises(FibatchdError, match="part ended before it said that it works"):
        await supervise("part", idle)
