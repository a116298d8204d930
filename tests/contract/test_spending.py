"""The books of the daily quota: every attempt once, on the UTC date on which it ended, to the pico-dollar."""

import datetime

from scenario import claim, create, daemon, given_back, owner, pass_time, report, succeeded, to_retry

from fibatchd.store import claims, spending
from fibatchd.store.interface import Query
from fibatchd.store.spending import Spent

NOON = datetime.datetime(2026, 12, 31, 12, tzinfo=datetime.UTC).timestamp()


async def spent(store, who):
    return (await store.read(spending.spent_today, who.account.id))[0]


async def books(store):
    columns = "day, model, way, attempts, input_tokens, cached_tokens, output_tokens, cost, cost_unknown"

    def read():
        return (yield Query(f"SELECT {columns} FROM spending ORDER BY day, model, way"))

    return await store.read(read)


def test_a_day_is_a_utc_date():
    midnight = NOON + 12 * 3600
    assert [spending.utc_day(t) for t in (midnight - 0.001, midnight)] == ["2026-12-31", "2027-01-01"]
    assert [spending.seconds_to_midnight(t) for t in (NOON, midnight - 1, midnight)] == [43200, 1, 86400]


async def test_batch_and_interactive_attempts_count_at_one_place(store, clock):
    clock.now = NOON
    ada, eve, worker = await owner(store, "ada"), await owner(store, "eve"), await daemon(store)
    await create(store, ada, ["m", "m", "n"])
    first, second = await claim(store, worker, "m")
    await report(store, succeeded(first, cost=30), to_retry(second, cost=None))
    await report(store, succeeded((await claim(store, worker, "n"))[0], cost=5))
    call = Spent(attempts=2, input_tokens=7, output_tokens=3, cost=100, cost_unknown=1)
    other = Spent(attempts=1, cost=1)
    await store.write(
        spending.record_interactive,
        [(ada.account.id, "m", call), (eve.account.id, "m", other), (ada.account.id, "m", call)],
    )
    assert (await spent(store, ada), await spent(store, eve)) == (235, 1)
    assert [row for row in await books(store) if row[7] != 1] == [
        ("2026-12-31", "m", "batch", 2, 10, 4, 5, 30, 1),
        ("2026-12-31", "m", "interactive", 4, 14, 0, 6, 200, 2),
        ("2026-12-31", "n", "batch", 1, 10, 4, 5, 5, 0),
    ]


async def test_an_attempt_counts_on_the_day_it_ended(store, clock):
    clock.now = NOON
    ada, worker = await owner(store), await daemon(store)
    await create(store, ada, ["m", "m"])
    first, second = await claim(store, worker)
    await report(store, succeeded(first, cost=30))
    await pass_time(store, clock, 12 * 3600)
    assert await spent(store, ada) == 0
    await report(store, succeeded(second, cost=4))
    assert await spent(store, ada) == 4
    assert [(row[0], row[7]) for row in await books(store)] == [("2026-12-31", 30), ("2027-01-01", 4)]


async def test_what_was_not_sent_costs_nothing(store):
    ada, worker = await owner(store), await daemon(store)
    await create(store, ada, ["m"])
    await report(store, *[given_back(c) for c in await claim(store, worker)])
    assert await books(store) == []


async def test_sums_are_exact_beyond_what_a_float_holds(store):
    ada, worker = await owner(store), await daemon(store)
    await create(store, ada, ["m"] * 4)
    large = 2**55 + 1
    for claimed in (await claim(store, worker))[:3]:
        await report(store, succeeded(claimed, cost=large))
    assert await spent(store, ada) == 3 * large
    await report(store, *[])
    assert await spent(store, ada) == 3 * large


async def test_a_candidate_shows_the_sum_over_models_and_ways(store):
    ada, worker = await owner(store), await daemon(store)
    await create(store, ada, ["m", "m", "n"])
    await report(store, succeeded((await claim(store, worker, "n"))[0], cost=5))
    await store.write(spending.record_interactive, [(ada.account.id, "x", Spent(attempts=1, cost=2**60))])
    ((candidate,), _) = await store.read(claims.candidates, "m")
    assert candidate.spent == 2**60 + 5
