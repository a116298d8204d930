"""What the metrics page asks the store for, and what scripts tell of batches that moved on, on both drivers."""

import msgspec
import pytest
import trio
from scenario import FINALIZER, POLICY, cancel, claim, create, daemon, failed, owner, report, succeeded, upload

from fibatchd.errors import StoreUnavailable
from fibatchd.store import admission, claims, ending, leases, transitions
from fibatchd.store.interface import Notify
from fibatchd.store.measured import READ, WRITE, MeasuredStore
from fibatchd.store.opening import open_store
from fibatchd.store.standing import Standing, standing


async def test_an_empty_store(store):
    assert await store.read(standing) == Standing({}, {}, 0, {})


async def test_what_is_unfinished(store, clock):
    ada, one = await owner(store), await daemon(store)
    await create(store, ada, ["m", "m", "m"])
    taken = await claim(store, one, "m", 1)
    clock.advance(5)
    await create(store, ada, ["m", "n"])
    clock.advance(1.5)
    found = await store.read(standing)
    assert found.batches == {"validating": 1, "in_progress": 1}
    assert found.queued == {"m": 3, "n": 1}
    assert found.running == 1
    assert found.oldest["m"] == pytest.approx(6.5)
    assert found.oldest["n"] == pytest.approx(1.5)

    await report(store, *map(succeeded, taken))
    for model in ("m", "n"):
        await report(store, *map(succeeded, await claim(store, one, model)))
    assert await store.read(standing) == Standing({}, {}, 0, {})


async def test_a_batch_that_is_closed_waits_for_nothing(store):
    ada, one = await owner(store), await daemon(store)
    batch = await create(store, ada, ["m", "m", "m"])
    await claim(store, one, "m", 1)
    await cancel(store, ada, batch.id)
    assert await store.read(standing) == Standing({"cancelling": 1}, {}, 1, {})


class Told:
    """What was told of batches, in order."""

    def __init__(self, told):
        self._told = told

    async def next(self):
        with trio.fail_after(30):
            return msgspec.json.decode(await anext(self._told))

    async def nothing(self):
        with trio.move_on_after(0.2) as scope:
            await anext(self._told)
        assert scope.cancelled_caught


async def test_a_batch_goes_its_way(store, clock):
    ada, one = await owner(store), await daemon(store)
    async with store.listen(transitions.CHANNEL) as channel:
        told = Told(channel)
        batch = await create(store, ada, ["m", "m", "m"])
        clock.advance(2)
        first = await claim(store, one, "m", 1)
        who = {"batch": batch.id, "account": ada.account.id}
        assert await told.next() == who | {"status": "in_progress"}
        second = await claim(store, one, "m", 2)
        clock.advance(3)
        await report(store, *map(succeeded, first))
        await report(store, succeeded(second[0]), failed(second[1]))
        ended = await told.next()
        assert ended | who == ended
        assert (ended["status"], ended["age_s"], ended["run_s"]) == ("completed", 5.0, 3.0)
        assert ended["requests"] == {"completed": 2, "failed": 1, "cancelled": 0, "expired": 0}
        assert ended["cost"] > 0
        await told.nothing()


async def test_a_batch_that_writes_files_and_one_that_never_ran(store):
    ada, one = await owner(store), await daemon(store)
    async with store.listen(transitions.CHANNEL) as channel:
        told = Told(channel)
        await create(store, ada, ["m"], finalizer=FINALIZER)
        await report(store, *map(succeeded, await claim(store, one)))
        assert [(await told.next())["status"] for _ in range(2)] == ["in_progress", "finalizing"]
        batch = await create(store, ada, ["m"])
        await cancel(store, ada, batch.id)
        ended = await told.next()
        assert (ended["status"], ended["run_s"], ended["requests"]["cancelled"]) == ("cancelled", None, 1)


async def test_a_batch_whose_input_was_checked_first(store):
    ada = await owner(store)
    async with store.listen(transitions.CHANNEL) as channel:
        reserved = await upload(store, ada)
        assert await store.write(admission.open_batch, reserved, {"m": 3}, 0, 3, status="in_progress")
        notice = await Told(channel).next()
        assert (notice["batch"], notice["status"]) == (reserved.batch_id, "in_progress")
        await claim(store, await daemon(store))
        await Told(channel).nothing()


async def test_what_is_rolled_back_is_not_told(store):
    ada, _ = await owner(store), await daemon(store)
    batch = await create(store, ada, ["m"])

    def cancelled_in_vain():
        yield from ending.fail(batch.id, "owner_unauthorized", "gone", POLICY)
        raise RuntimeError("rolled back")

    async with store.listen(transitions.CHANNEL) as channel:
        with pytest.raises(RuntimeError):
            await store.write(cancelled_in_vain)
        await Told(channel).nothing()


async def test_a_notice_for_here_does_not_leave_the_process(postgres_url, tmp_path):
    def tell():
        yield Notify("work", "here", here=True)
        yield Notify("work", "everywhere")

    async with (
        open_store(postgres_url, tmp_path, migrations=[], exclusive=True) as store,
        open_store(postgres_url, tmp_path, migrations=[], exclusive=True) as other,
        store.listen("work") as here,
        other.listen("work") as elsewhere,
    ):
        heard = []
        while not heard:  # until the other one's connection for it stands, it hears nothing
            with trio.fail_after(30):
                await store.write(tell)
                assert [await anext(here) for _ in range(2)] == ["here", "everywhere"]
            with trio.move_on_after(0.5):
                heard.append(await anext(elsewhere))
        assert heard == ["everywhere"]


async def test_measured(store):
    measured = MeasuredStore(store)
    assert (measured.shared, measured.dialect) == (store.shared, store.dialect)
    daemon_id = await measured.write(leases.register, "one")
    assert await measured.read(claims.models_with_work) == []
    assert daemon_id > 0
    assert (measured.seconds[WRITE].count, measured.seconds[READ].count) == (1, 1)
    await measured.aclose()
    with pytest.raises(StoreUnavailable):
        await measured.write(leases.register, "two")
    with pytest.raises(StoreUnavailable):
        await measured.read(claims.models_with_work)
    assert measured.unavailable == {READ: 1, WRITE: 1}
    assert measured.seconds[WRITE].count == 2
