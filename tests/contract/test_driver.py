"""What every driver does with a script, whatever it says: whole or not at all, one at a time where it locks, cancellable
anywhere. The scripts' own meaning is tested beside this file."""

import random

import pytest
import trio

from fibatchd.errors import StoreConflict, StoreError, StoreUnavailable
from fibatchd.store.interface import NOW, Insert, Many, Notify, Query


class Refused(Exception):
    """What a script of these tests raises."""


def put(*models, then=None):
    for model in models:
        yield Query("INSERT INTO drained_models (model, since) VALUES (?, ?)", (model, 1.5))
    if then is not None:
        raise then
    return len(models)


def stored():
    return [model for (model,) in (yield Query("SELECT model FROM drained_models ORDER BY model"))]


def query(sql, *params):
    return (yield Query(sql, params))


def several(*steps):
    rows = []
    for step in steps:
        rows.append((yield step))  # noqa: PERF401 - a comprehension cannot yield
    return rows


async def test_a_script_is_stored_whole_with_its_result(store):
    assert await store.write(put, "a", "b") == 2
    assert await store.read(stored) == ["a", "b"]


async def test_what_a_script_raises_comes_out_and_nothing_is_stored(store):
    with pytest.raises(Refused, match="because"):
        await store.write(put, "a", "b", then=Refused("because"))
    assert await store.read(stored) == []


async def test_a_value_that_exists_is_a_conflict_and_nothing_is_stored(store):
    await store.write(put, "b")
    with pytest.raises(StoreConflict):
        await store.write(put, "a", "b")
    assert await store.read(stored) == ["b"]


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**30, "\ud800"])
async def test_a_value_that_no_column_holds_is_refused_alone(store, value):
    step = {str: "INSERT INTO drained_models (model, since) VALUES (?, 1.5)"}.get(
        type(value), "UPDATE batches SET cost = cost + ?"
    )
    with pytest.raises(StoreError) as caught:
        await store.write(query, step, value)
    assert type(caught.value) is StoreError
    assert str(value) not in str(caught.value)
    assert await store.write(put, "a") == 1


async def test_a_value_twice_in_bulk_is_a_conflict_and_nothing_is_stored(store):
    twice = Insert("drained_models", ("model", "since"), [("a", 0.0), ("b", 0.0), ("a", 0.0)])
    with pytest.raises(StoreConflict):
        await store.write(several, twice)
    assert await store.read(stored) == []


@pytest.mark.parametrize("count", [0, 1, 4, 49, 556])
async def test_as_many_rows_as_one_likes_are_inserted(store, count):
    names = [(f"s-{number}", number) for number in range(count)]
    await store.write(several, Insert("sequences", ("name", "next"), names))
    found = await store.read(query, "SELECT name, next FROM sequences WHERE name >= 's-' AND name < 's.' ORDER BY next")
    assert found == names


async def test_wrong_sql_is_a_store_error_and_harms_nothing(store):
    with pytest.raises(StoreError) as caught:
        await store.write(query, "SELECT nonsense FROM nowhere")
    assert not isinstance(caught.value, StoreUnavailable)
    with pytest.raises(StoreError):
        await store.read(query, "SELECT nonsense FROM nowhere")
    assert await store.write(put, "a") == 1
    assert await store.read(stored) == ["a"]


async def test_scripts_that_run_together_do_not_share_their_failures(store):
    failures = []

    async def one(number):
        try:
            await store.write(put, f"m{number:03}", then=Refused() if number % 3 == 0 else None)
        except Refused:
            failures.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(60):
            nursery.start_soon(one, number)
    assert sorted(failures) == list(range(0, 60, 3))
    assert await store.read(stored) == [f"m{number:03}" for number in range(60) if number % 3]


async def test_values_come_back_as_they_went_in(store):
    columns = ("account_id", "key", "route", "fingerprint", "batch_id", "forget_at")
    rows = [
        ("ä\u2028\U0001f600", "'?'", "", bytes(range(256)), "x" * 100_000, 1_795_000_000.123456),
        ("b", "k", "r", b"", "b", None),
    ]

    def script():
        nothing = yield Insert("idempotency", columns, rows)
        found = yield Query(f"SELECT {', '.join(columns)} FROM idempotency ORDER BY key")
        return nothing, found

    nothing, found = await store.write(script)
    assert nothing == []
    assert found == rows
    assert all(type(row) is tuple for row in found)
    big = 2**62 + 1
    await store.write(query, "INSERT INTO sequences (name, next) VALUES (?, ?)", "big", big)
    assert await store.read(query, "SELECT next FROM sequences WHERE name = ?", "big") == [(big,)]


async def test_the_rows_of_many_come_back_together(store):
    insert = "INSERT INTO sequences (name, next) VALUES (?, ?)"
    update = "UPDATE sequences SET next = next + ? WHERE name = ? RETURNING name, next"
    for names in (["a"], ["b", "c", "d"]):
        none, some = await store.write(
            several,
            Many(insert, [(name, 0) for name in names]),
            Many(update, [(5, name) for name in names] + [(1, "absent")]),
        )
        assert none == []
        assert some == [(name, 5) for name in names]


@pytest.mark.parametrize(
    ("column", "wanted", "found"),
    [("name", ["a", "c", "x"], ["a", "c"]), ("next", [2, 9], ["b"]), ("name", [], [])],
)
async def test_any_takes_a_list(store, column, wanted, found):
    await store.write(several, Insert("sequences", ("name", "next"), [("a", -1), ("b", 2), ("c", -3)]))
    rows = await store.read(query, f"SELECT name FROM sequences WHERE {column} = ANY(?) ORDER BY name", wanted)
    assert [name for (name,) in rows] == found


async def test_now_is_the_clock_that_all_share(store, clock):
    assert await store.write(several, NOW) == [[(clock.now,)]]
    clock.advance(100)
    assert await store.read(several, NOW) == [[(clock.now,)]]


async def test_a_read_sees_one_state(store):
    """A writer moves units between two rows; no reader sees one on its way."""
    await store.write(several, Insert("sequences", ("name", "next"), [("left", 500), ("right", 500)]))
    move = "UPDATE sequences SET next = next + ? WHERE name = ?"
    get = "SELECT next FROM sequences WHERE name = ?"
    seen = set()
    done = trio.Event()

    async def reader():
        while not done.is_set():
            (((left,),), ((right,),)) = await store.read(several, Query(get, ("left",)), Query(get, ("right",)))
            seen.add(left + right)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader)
        nursery.start_soon(reader)
        for _ in range(100):
            await store.write(several, Query(move, (-1, "left")), Query(move, (1, "right")))
        done.set()
    assert seen == {1000}


def increment(name):
    ((value,),) = yield Query("SELECT next FROM sequences WHERE name = ? FOR UPDATE", (name,))
    yield Query("UPDATE sequences SET next = ? WHERE name = ?", (value + 1, name))


async def test_writers_that_lock_a_row_take_turns(store):
    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(store.write, increment, "lanes")
    assert await store.read(query, "SELECT next FROM sequences WHERE name = 'lanes'") == [(51,)]


async def test_writers_that_lock_each_other_out_both_get_through(store):
    def both(first, second):
        yield from increment(first)
        yield from increment(second)

    async with trio.open_nursery() as nursery:
        for pair in [("lanes", "daemons"), ("daemons", "lanes")] * 2:
            nursery.start_soon(store.write, both, *pair)
    assert await store.read(query, "SELECT name, next FROM sequences WHERE next > 1 ORDER BY name") == [
        ("daemons", 5),
        ("lanes", 5),
    ]


async def test_listeners_hear_what_is_committed_and_nothing_else(store):
    def tell(text, then=None):
        yield Notify("work", text)
        yield Notify("other", text)
        if then is not None:
            raise then

    async with store.listen("work") as first, store.listen("work") as second:
        with pytest.raises(Refused):
            await store.write(tell, "no", then=Refused())
        await store.write(tell, "yes")
        with trio.fail_after(10):
            assert await first.__anext__() == "yes"
            assert await second.__anext__() == "yes"
        await store.write(tell, "last")
        with trio.fail_after(10):
            assert await first.__anext__() == "last"


async def test_a_closed_store_says_so(store):
    await store.aclose()
    await store.aclose()
    with pytest.raises(StoreUnavailable):
        await store.write(put, "a")
    with pytest.raises(StoreUnavailable):
        await store.read(stored)


async def cancel_often(store, times):
    """Cancel as many pairs of inserts at random points. Then each is whole or absent, and the store at its best."""
    chance = random.Random(times)
    left = iter(range(times))
    acknowledged = set()

    async def keep_cancelling():
        for number in left:
            with trio.move_on_after(0.0005 * 2000 ** chance.random()):
                await store.write(put, f"{number}a", f"{number}b")
                acknowledged.add(number)
            with trio.move_on_after(0.0005 * 2000 ** chance.random()):
                await store.read(stored) if number % 50 == 0 else await store.read(query, "SELECT 1")

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(keep_cancelling)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(store.write, increment, "lanes")
        found = set(await store.read(stored))
    whole = {number for number in range(times) if {f"{number}a", f"{number}b"} <= found}
    assert len(found) == 2 * len(whole)
    assert acknowledged <= whole
    assert await store.read(query, "SELECT next FROM sequences WHERE name = 'lanes'") == [(51,)]
    return len(acknowledged)


async def test_cancelled_anywhere_a_script_is_whole_or_absent(store):
    done = await cancel_often(store, 200)
    assert 0 < done < 200


@pytest.mark.torture
async def test_cancelled_ten_thousand_times(store):
    done = await cancel_often(store, 10_000)
    assert 0 < done < 10_000
