"""Bodies that there is no memory for are refused before they come; small ones are taken all the same."""

import pytest

from fibatchd.errors import ApiError
from fibatchd.web.errors import as_api_error
from fibatchd.web.guards.body import LARGE_BYTES, NEEDED, SPARE_BYTES, BodyBudget

MIB = 1024 * 1024


class Request:
    """A body of so many bytes, whose length is announced or not; `sent` counts what was taken of it."""

    def __init__(self, size, *, announced=True):
        self.content_length = size if announced else None
        self.sent = 0
        self.body = self._chunks(size)

    async def _chunks(self, size):
        while self.sent < size:
            chunk = bytes(min(MIB, size - self.sent))
            self.sent += len(chunk)
            yield chunk


async def refused(budget, request):
    with pytest.raises(ApiError) as caught:
        async with budget.body(request, 64 * MIB):
            pass
    return caught.value.status, caught.value.retry_after


async def test_a_large_body_that_does_not_fit_is_not_received():
    budget = BodyBudget(64 * MIB, lambda: NEEDED * 8 * MIB + SPARE_BYTES - 1)
    request = Request(8 * MIB)
    assert await refused(budget, request) == (503, 5)
    assert request.sent == 0
    assert (await refused(budget, Request(8 * MIB, announced=False)))[0] == 503
    async with budget.body(Request(8 * MIB - 1), 64 * MIB) as body:
        assert len(body) == 8 * MIB - 1


async def test_bodies_count_together():
    budget = BodyBudget(64 * MIB, lambda: NEEDED * 8 * MIB + SPARE_BYTES)
    async with budget.body(Request(5 * MIB), 64 * MIB):
        assert (await refused(budget, Request(4 * MIB)))[0] == 503
        async with budget.body(Request(3 * MIB), 64 * MIB):
            pass
    async with budget.body(Request(8 * MIB), 64 * MIB):
        pass


async def test_small_bodies_come_through_however_little_there_is():
    budget = BodyBudget(64 * MIB, lambda: 0)
    async with budget.body(Request(LARGE_BYTES), 64 * MIB):
        pass


def test_an_allocation_that_fails_is_answered_as_passing():
    refusal = as_api_error(MemoryError())
    assert (refusal.status, refusal.retry_after) == (503, 5)
