"""An outcome that the store never takes fails its own request, and holds up nothing else."""

import pytest
from msgspec.structs import replace

CONFIG = """
[[models]]
id = "m"
concurrency = 4
[[models.upstreams]]
url = "echo:"
delay_s = 0.5
"""
BEYOND_64_BITS = 2**70


@pytest.mark.parametrize("what", ["cost", "answer"])
async def test_one_outcome_that_cannot_be_stored(world, clock, what):
    async with world(CONFIG) as w:
        owner = await w.account()
        attempt = w.context.executor.attempt
        spoilt = []

        async def spoil_the_first(*args, **more):
            made = await attempt(*args, **more)
            if spoilt:
                return made
            spoilt.append(made)
            if what == "cost":
                return replace(made, cost=BEYOND_64_BITS)
            return replace(made, answer=(BEYOND_64_BITS, b"{}"))

        w.context.executor.attempt = spoil_the_first
        batch = await w.until(owner, await w.submit(owner, 6))
        assert (batch.status, batch.completed, batch.failed) == ("completed", 5, 1)
        assert batch.cost_unknown == 1
        (failed,) = [result for result in await w.results(owner, batch.id) if result.failure]
        assert (failed.failure.code, failed.failure.message) == ("upstream_error", "The result could not be stored")
