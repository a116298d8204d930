"""Events in the store: who may deliver which, one at a time; what a daemon that is gone was delivering; on both drivers."""

from collections import Counter
from types import SimpleNamespace

import pytest
import trio
from fibatchd_plugins.webhooks import housekeeping, outbox, registry
from fibatchd_plugins.webhooks.outbox import MOST_ATTEMPTS_KEPT, Attempt, Report, Room
from fibatchd_plugins.webhooks.registry import abandon_pending

from fibatchd.errors import LeaseLost
from fibatchd.store import accounts, leases

OK = Attempt(1.0, 204, None, 7)
DOWN = Attempt(1.0, None, "connection_failed", 7)
GONE = Attempt(1.0, 410, None, 7)


async def daemon(store, name="one"):
    return await store.write(leases.register, name)


async def lose(store, who):
    """Do what the take-over of a daemon that is gone does."""
    while await store.write(leases.take_over, who, 8, None):
        pass
    await store.write(leases.forget, who)


async def owner(store, url="https://example.com/"):
    account = await store.write(accounts.create_account, "ada", "internal")
    if url:
        await store.write(registry.put, account.id, url, rotate=False)
    return account.id


async def add(store, account_id, count=1):
    """The ids of new events."""
    return [
        (await store.write(outbox.add, account_id, "batch.completed", {"id": f"batch_{n}"})).id for n in range(count)
    ]


async def take(store, who, held=(), most=100, most_each=4, most_failing=100):
    return (await store.write(outbox.take, who, list(held), Room(most, most_failing, most_each))).deliveries


async def report(store, delivery, attempt, wait):
    """The event as it is when this is recorded."""
    return (await store.write(outbox.record, [Report(delivery, attempt, wait)])).get(delivery.event.id)


def ids(deliveries):
    return [delivery.event.id for delivery in deliveries]


async def get(store, account_id, event_id):
    return await store.read(outbox.get, account_id, event_id)


async def test_an_event_is_leased_once(store):
    one, two = await daemon(store), await daemon(store, "two")
    account_id = await owner(store)
    (event_id,) = await add(store, account_id)
    (delivery,) = await take(store, one)
    assert (delivery.event.id, delivery.webhook.url, delivery.lease) == (event_id, "https://example.com/", one)
    assert await take(store, two) == []
    assert await take(store, one, held=[event_id]) == []


async def test_many_daemons_at_once_share_the_events(store):
    who = [await daemon(store, str(n)) for n in range(4)]
    owners = [await owner(store) for _ in range(5)]
    written = [event_id for account_id in owners for event_id in await add(store, account_id, 6)]
    taken = []

    async def work(me):
        held = []
        for _ in range(20):
            for delivery in await take(store, me, held, most=2, most_each=3):
                taken.append(delivery.event.id)
                await report(store, delivery, OK, None)

    async with trio.open_nursery() as nursery:
        for me in who:
            nursery.start_soon(work, me)
    assert sorted(taken) == sorted(written)


async def test_the_limit_of_an_endpoint_holds_over_all_daemons(store):
    one, two = await daemon(store), await daemon(store, "two")
    account_id = await owner(store)
    written = await add(store, account_id, 6)
    first = await take(store, one, most_each=4)
    assert ids(first) == written[:4]
    assert await take(store, two, most_each=4) == []
    await report(store, first[1], OK, None)
    assert ids(await take(store, two, most_each=4)) == [written[4]]


async def test_a_long_queue_leaves_room_for_the_others(store):
    who = await daemon(store)
    busy, others = await owner(store), [await owner(store) for _ in range(10)]
    await add(store, busy, 50)
    later = [event_id for account_id in others for event_id in await add(store, account_id, 2)]
    taken = await take(store, who, most=40, most_each=4)
    assert Counter(delivery.event.account_id for delivery in taken)[busy] == 4
    assert set(later) <= set(ids(taken))
    # With room for few, everyone's first goes before anyone's second.
    fresh = await daemon(store, "two")
    await lose(store, who)
    taken = await take(store, fresh, most=11, most_each=4)
    assert len({delivery.event.account_id for delivery in taken}) == 11


async def test_an_endpoint_that_fails_gets_one_at_a_time_and_last(store, clock):
    who = await daemon(store)
    failing, good = await owner(store), await owner(store)
    await add(store, failing, 5)
    (first, *_) = await take(store, who, most=1)
    await report(store, first, DOWN, 1000.0)
    clock.advance(1)
    await add(store, good, 2)
    assert [d.event.account_id for d in await take(store, who, most=1)] == [good]
    taken = await take(store, await daemon(store, "two"))
    assert Counter(delivery.event.account_id for delivery in taken) == {good: 1, failing: 1}
    (probe,) = [delivery for delivery in taken if delivery.event.account_id == failing]
    await report(store, probe, OK, None)
    assert len(await take(store, await daemon(store, "three"), most_each=3)) == 3


async def test_those_that_fail_leave_places_to_those_that_work(store, clock):
    who = await daemon(store)
    for _ in range(6):
        await add(store, await owner(store))
    for delivery in await take(store, who):
        await report(store, delivery, DOWN, 0.0)
    assert len(await take(store, who, most=10, most_failing=4)) == 4
    assert await take(store, await daemon(store, "two"), most=10, most_failing=0) == []


async def test_events_come_when_they_are_due(store, clock):
    who = await daemon(store)
    account_id = await owner(store)
    await add(store, account_id)
    (delivery,) = await take(store, who)
    event = await report(store, delivery, DOWN, 10.0)
    assert (event.status, event.attempts, event.tries, event.due_at) == ("pending", 1, 1, clock.now + 10)
    taken = await store.write(outbox.take, who, [], Room(100, 100, 4))
    assert (taken.deliveries, taken.next_in) == ([], 10.0)
    clock.advance(10)
    assert len(await take(store, who)) == 1


async def test_no_more_attempts(store):
    who = await daemon(store)
    account_id = await owner(store)
    await add(store, account_id)
    (delivery,) = await take(store, who)
    event = await report(store, delivery, DOWN, None)
    assert (event.status, event.due_at) == ("failed", None)
    assert await take(store, who) == []


async def test_a_daemon_that_is_gone_holds_nothing(store):
    gone, other = await daemon(store), await daemon(store, "two")
    account_id = await owner(store)
    await add(store, account_id)
    (lost,) = await take(store, gone)
    assert await take(store, other) == []
    await lose(store, gone)
    (again,) = await take(store, other)
    assert again.event.id == lost.event.id
    assert await report(store, lost, OK, None) is None  # too late: it is another's by now
    assert (await get(store, account_id, again.event.id)).attempts == 0
    with pytest.raises(LeaseLost):
        await take(store, gone)


async def test_what_was_leased_by_a_commit_never_heard_of_is_free_again(store):
    who = await daemon(store)
    account_id = await owner(store)
    written = await add(store, account_id, 2)
    assert len(await take(store, who)) == 2
    assert ids(await take(store, who, held=written[:1])) == written[1:]


async def test_an_event_of_no_webhook_is_not_written(store):
    account_id = await owner(store, url=None)
    assert await store.write(outbox.add, account_id, "batch.completed", {}) is None
    deleted = await owner(store)
    await store.write(accounts.delete_account, deleted)
    assert await store.write(outbox.add, deleted, "batch.completed", {}) is None


async def test_410_disables_and_abandons_what_waits(store):
    who = await daemon(store)
    account_id = await owner(store)
    written = await add(store, account_id, 3)
    (first, *_) = await take(store, who, most=1)
    event = await report(store, first, GONE, 5.0)
    assert event.status == "abandoned"
    assert {(await get(store, account_id, event_id)).status for event_id in written} == {"abandoned"}
    webhook = await store.read(registry.get, account_id)
    assert (webhook.disabled_at, webhook.disabled_reason) == (event.created_at, "The endpoint answered 410 Gone")
    (late,) = await add(store, account_id)
    assert (await get(store, account_id, late)).status == "abandoned"
    await store.write(registry.put, account_id, "https://example.com/new", rotate=False)
    assert (await store.read(registry.get, account_id)).disabled_at is None
    assert await take(store, who) == []
    await store.write(outbox.redeliver, account_id, late)
    assert [delivery.webhook.url for delivery in await take(store, who)] == ["https://example.com/new"]


async def test_410_of_a_url_that_was_replaced_meanwhile_disables_nothing(store):
    who = await daemon(store)
    account_id = await owner(store)
    await add(store, account_id)
    (delivery,) = await take(store, who)
    await store.write(registry.put, account_id, "https://example.com/new", rotate=False)
    event = await report(store, delivery, GONE, 5.0)
    assert event.status == "pending"
    assert (await store.read(registry.get, account_id)).disabled_at is None


async def test_removing_the_webhook_abandons_what_waits_and_records_what_is_on_its_way(store):
    who = await daemon(store)
    account_id = await owner(store)
    delivered, failed, waiting = await add(store, account_id, 3)
    one, two = await take(store, who, most=2)
    assert await store.write(registry.delete, account_id)
    assert (await get(store, account_id, waiting)).status == "abandoned"
    assert (await report(store, one, OK, None)).status == "delivered"
    await report(store, two, DOWN, 0.0)
    assert await take(store, who) == []
    statuses = [(await get(store, account_id, event_id)).status for event_id in (delivered, failed, waiting)]
    assert statuses == ["delivered", "abandoned", "abandoned"]


async def test_an_event_goes_to_the_url_as_it_is_then(store):
    who = await daemon(store)
    account_id = await owner(store)
    await add(store, account_id)
    await store.write(registry.put, account_id, "https://example.com/new", rotate=True)
    (delivery,) = await take(store, who)
    assert delivery.webhook.url == "https://example.com/new"
    assert len(delivery.webhook.ring) == 2


async def test_redelivery_leaves_what_is_on_its_way(store):
    who = await daemon(store)
    account_id = await owner(store)
    (event_id,) = await add(store, account_id)
    (delivery,) = await take(store, who)
    await store.write(outbox.redeliver, account_id, event_id)
    assert await take(store, await daemon(store, "two")) == []
    assert (await report(store, delivery, OK, None)).status == "delivered"


async def test_what_the_old_url_did_says_nothing_of_the_new_one(store):
    who = await daemon(store)
    account_id = await owner(store)
    await add(store, account_id)
    (delivery,) = await take(store, who)
    await store.write(registry.put, account_id, "https://other.example/", rotate=False)
    await report(store, delivery, DOWN, 60.0)
    assert not (await store.read(registry.get, account_id)).failing


async def test_only_the_last_attempts_are_kept(store):
    who = await daemon(store)
    account_id = await owner(store)
    (event_id,) = await add(store, account_id)
    for number in range(MOST_ATTEMPTS_KEPT + 5):
        (delivery,) = await take(store, who)
        await report(store, delivery, Attempt(number, 500, None, 1), 0.0)
    kept = (await store.read(outbox.attempts_of, [event_id]))[event_id]
    assert [int(attempt.at) for attempt in kept] == list(range(5, MOST_ATTEMPTS_KEPT + 5))


async def test_old_events_go_but_not_those_that_wait(store, clock):
    who = await daemon(store)
    account_id = await owner(store)
    done, waiting = await add(store, account_id, 2)
    (delivery,) = await take(store, who, most=1)
    await report(store, delivery, OK, None)
    assert delivery.event.id == done
    assert await store.write(outbox.sweep, 100.0, 10) == 0
    clock.advance(100)
    assert await store.write(outbox.sweep, 100.0, 10) == 1
    assert await get(store, account_id, done) is None
    assert (await get(store, account_id, waiting)).status == "pending"
    await store.write(abandon_pending, account_id)
    assert await store.write(outbox.sweep, 100.0, 10) == 1


async def test_a_sweep_goes_on_until_nothing_is_left(store, clock, monkeypatch):
    monkeypatch.setattr(housekeeping, "AT_ONCE", 2)
    gone = await owner(store)
    await add(store, gone)
    await store.write(accounts.delete_account, gone)
    account_id = await owner(store)
    await add(store, account_id, 5)
    await store.write(abandon_pending, account_id)
    clock.advance(100)
    config = SimpleNamespace(plugin_tables={"webhooks": {"event_retention_s": 100.0}})
    await housekeeping.Housekeeping(SimpleNamespace(store=store, config=config)).sweep()
    assert await store.read(outbox.page, account_id, after=None, limit=9) == ([], {}, False)


async def test_an_event_of_a_clock_that_was_ahead_is_sent_when_it_is_set_back(store, clock):
    who = await daemon(store)
    account_id = await owner(store)
    clock.advance(10_000)
    (event_id,) = await add(store, account_id)
    clock.advance(-10_000)
    assert await take(store, who) == []
    assert await store.write(outbox.sweep, 1e6, 10) == 0
    assert [delivery.event.id for delivery in await take(store, who)] == [event_id]
