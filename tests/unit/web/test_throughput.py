"""How much of a model a daemon has done in the last minute, on a clock that jumps."""

import pytest
import trio

from fibatchd.inference.tally import Tally
from fibatchd.web.throughput import SAMPLE_S, Throughput

MODEL = "m"


async def test_throughput_of_the_last_minute(autojump_clock):
    tally = Tally()
    throughput = Throughput(tally)
    assert throughput.rates().of(MODEL).attempts == 0
    async with trio.open_nursery() as nursery:
        await nursery.start(throughput.run)
        tally.attempts[MODEL, "batch", "completed"] += 50
        tally.attempts[MODEL, "interactive", "timeout"] += 10
        tally.tokens[MODEL, "batch", "output"] += 600
        await trio.sleep(SAMPLE_S * 6)
        found = throughput.rates().of(MODEL)
        assert (found.basis_s, found.attempts, found.failed, found.output_tokens) == (30, 120, 20, 1200)
        assert throughput.rates().of("other").attempts == 0
        await trio.sleep(SAMPLE_S * 20)
        found = throughput.rates().of(MODEL)
        assert (found.basis_s, found.attempts) == (pytest.approx(55, abs=5), 0)
        nursery.cancel_scope.cancel()
