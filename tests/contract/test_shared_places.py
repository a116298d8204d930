"""A model's places, shared by daemons: never more than the limit at any instant, and never one unused that is wanted."""

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from scenario import daemon, take_over

from fibatchd.errors import LeaseLost
from fibatchd.store import leases
from fibatchd.store.interface import Query


async def places(store, who, wanted, limit=8, in_use=0, model="m"):
    return (await store.write(leases.hold_places, who, model, wanted, limit, in_use=in_use)).granted


async def held(store):
    def read():
        return (yield Query("SELECT held FROM places WHERE daemon > 0"))

    return sum(n for (n,) in await store.read(read))


async def test_one_alone_has_what_it_wants_up_to_the_limit(store):
    one = await daemon(store)
    assert [await places(store, one, wanted) for wanted in (3, 8, 20, 0)] == [3, 8, 8, 0]
    assert await places(store, one, 20, model="n") == 8


async def test_who_holds_too_many_shrinks_at_its_next_call(store):
    one, two, three = [await daemon(store, name) for name in ("one", "two", "three")]
    assert await places(store, one, 20) == 8
    assert await places(store, two, 20) == 0
    assert await places(store, one, 20) == 4
    assert await places(store, two, 20) == 4
    assert await places(store, three, 20) == 0
    assert [await places(store, who, 20) for who in (one, two, three)] == [3, 3, 2]
    assert await held(store) == 8


async def test_places_in_use_are_not_given_away(store):
    """A running request is never interrupted: its place is free when it has ended, not when its daemon's share shrinks."""
    one, two = await daemon(store, "one"), await daemon(store, "two")
    await places(store, one, 8)
    assert await places(store, two, 8) == 0
    assert await places(store, one, 8, in_use=7) == 4
    assert await places(store, two, 8) == 1
    assert await places(store, one, 8, in_use=5) == 4
    assert await places(store, two, 8, in_use=1) == 3
    assert await held(store) == 8
    assert await places(store, one, 8, in_use=3) == 4
    assert await places(store, two, 8, in_use=3) == 4


async def test_who_wants_little_has_it_and_the_others_share_the_rest(store):
    one, two, three = [await daemon(store, name) for name in ("one", "two", "three")]
    for _ in range(3):
        got = [await places(store, one, 1, 9), await places(store, two, 20, 9), await places(store, three, 20, 9)]
    assert got == [1, 4, 4]


async def test_fewer_places_than_daemons_are_used_nevertheless(store):
    one, two = await daemon(store, "one"), await daemon(store, "two")
    assert await places(store, one, 5, 1) == 1
    assert await places(store, two, 5, 1) == 0
    assert await places(store, one, 0, 1) == 0
    assert await places(store, two, 5, 1) == 1


async def test_a_lowered_limit_is_reached_as_daemons_call(store):
    one, two = await daemon(store, "one"), await daemon(store, "two")
    for who in (one, two, one, two):
        await places(store, who, 20, 8)
    assert [await places(store, who, 20, 2) for who in (one, two, one)] == [0, 1, 1]
    assert await places(store, two, 20, 0) == 0


async def test_daemons_are_told_when_places_can_move(store):
    one, two = await daemon(store, "one"), await daemon(store, "two")
    async with store.listen("places") as heard:

        async def told(*notes):
            for note in notes:
                with trio.fail_after(10):
                    assert await anext(heard) == note
            with trio.move_on_after(0.05):
                pytest.fail(f"was told {await anext(heard)}")

        await places(store, one, 20)
        await told()
        assert await places(store, two, 20) == 0
        await told(f"{two} m")  # one has too many
        assert await places(store, one, 20, in_use=8) == 4
        await told()  # it cannot give them up yet
        assert await places(store, one, 20, in_use=4) == 4
        await told(f"{one} m")  # two lacks them
        assert await places(store, two, 20) == 4
        assert await places(store, one, 20) == 4
        await told()
        await take_over(store, one)
        await told(f"{one} m")
        assert await places(store, two, 20) == 8


async def test_who_wants_more_than_is_left_tells_the_others_once(store):
    """They may hold less than their share and not even use that any more: nobody else can know."""
    one, two = await daemon(store, "one"), await daemon(store, "two")
    await places(store, one, 3)
    async with store.listen("places") as heard:
        assert await places(store, two, 5) == 5
        assert await places(store, two, 7) == 5
        with trio.fail_after(10):
            assert await anext(heard) == f"{two} m"
        assert [await places(store, two, wanted) for wanted in (7, 6, 0)] == [5, 5, 0]
        assert await places(store, one, 0) == 0
        with trio.move_on_after(0.05):
            pytest.fail(f"was told {await anext(heard)}")


async def test_it_is_told_what_others_hold(store):
    one, two = await daemon(store, "one"), await daemon(store, "two")
    await places(store, one, 3)
    assert await store.write(leases.hold_places, two, "m", 20, 8) == leases.Places(granted=5, others=3)
    assert await store.write(leases.hold_places, two, "m", 20, 6, in_use=5) == leases.Places(granted=3, others=3)


async def test_a_lost_daemon_leaves_its_places_and_can_take_none(store, clock):
    one, two = await daemon(store, "one"), await daemon(store, "two")
    await places(store, one, 8)
    await take_over(store, one)
    assert await places(store, two, 8) == 8
    with pytest.raises(LeaseLost):
        await places(store, one, 8)
    assert await held(store) == 8


@given(st.integers(0, 20), st.lists(st.integers(0, 30), min_size=1, max_size=6))
def test_shares_are_even_and_leave_nothing_unused(limit, wants):
    share = leases._share(limit, wants)
    use = sum(min(want, share) for want in wants)
    assert use >= min(limit, sum(wants))
    if share > 0 and use > limit:
        assert sum(min(want, share - 1) for want in wants) < limit
