"""Keys that nobody has: so many for each address and minute, whatever else comes from it; and memory that does not grow."""

import pytest
import trio

from fibatchd.errors import ApiError
from fibatchd.web.attempts import Attempts
from fibatchd.web.failed_keys import FailedKeys


def refused(keys, address, digest=b"x"):
    """Seconds to wait, None where the key may be tried."""
    try:
        keys.check(address, digest)
    except ApiError as error:
        return error.retry_after
    return None


async def test_an_address_has_so_many_and_gets_them_back_with_time(autojump_clock):
    keys = FailedKeys(6)
    for _ in range(6):
        assert refused(keys, "192.0.2.1") is None
        keys.failed("192.0.2.1")
    assert refused(keys, "192.0.2.1") == 10
    assert refused(keys, "192.0.2.2") is None
    autojump_clock.jump(10)
    assert refused(keys, "192.0.2.1") is None


async def test_a_network_of_ipv6_is_one_client(autojump_clock):
    keys = FailedKeys(1)
    keys.failed("2001:db8::1")
    assert refused(keys, "2001:db8::2")
    assert refused(keys, "2001:db8:0:1::1") is None


async def test_a_key_that_was_good_passes(autojump_clock):
    keys = FailedKeys(1)
    keys.succeeded(b"good")
    keys.failed("192.0.2.1")
    assert refused(keys, "192.0.2.1")
    assert refused(keys, "192.0.2.1", b"good") is None


async def test_many_addresses_send_nobody_else_away_but_lookups_wait_for_each_other(autojump_clock):
    keys, at_once = FailedKeys(1), []

    async def look_up(digest):
        async with keys.turn(digest):
            at_once.append(looking.statistics().borrowed_tokens + 1)
            async with looking:
                await trio.sleep(1)

    async def most_at_once(*digests):
        at_once.clear()
        async with trio.open_nursery() as nursery:
            for digest in digests:
                nursery.start_soon(look_up, digest)
        return max(at_once)

    looking = trio.CapacityLimiter(10)
    assert await most_at_once(b"1", b"2", b"3") == 3
    for number in range(500):
        keys.failed(f"192.0.{number // 250}.{number % 250}")
    assert refused(keys, "198.51.100.1", b"never seen") is None
    assert await most_at_once(b"1", b"2") == 1
    for _ in range(500):
        keys.failed("192.0.2.1")
    keys.succeeded(b"good")
    assert await most_at_once(b"good", b"good") == 2
    autojump_clock.jump(60)
    assert await most_at_once(b"1", b"2", b"3") == 3


async def test_zero_counts_nothing(autojump_clock):
    keys = FailedKeys(0)
    for _ in range(1000):
        keys.failed("192.0.2.1")
    assert refused(keys, "192.0.2.1") is None


@pytest.mark.parametrize("number", [30_000])
async def test_memory_is_bounded(autojump_clock, number):
    keys, attempts = FailedKeys(10**6), Attempts(10, 1)
    for index in range(number):
        keys.succeeded(index.to_bytes(32, "big"))
        attempts.take(f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}")
    assert len(keys._good) == 10_000
    assert len(attempts._by_address) == 10_000
