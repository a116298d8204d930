"""What the account API and the admin API read: lists, requests, progress, usage; and models drained by hand."""

import pytest
from scenario import cancel, claim, create, daemon, failed, get, owner, report, succeeded, to_retry

from fibatchd.ids import new_id
from fibatchd.store import admission, drains, overview, progress, requests, usage
from fibatchd.store.overview import Filter
from fibatchd.store.progress import ErrorCount, Slice
from fibatchd.store.requests import OUTCOMES


async def listed(store, who, wanted=Filter(), after=None, limit=10):  # noqa: B008  # frozen
    found, more = await store.read(overview.page, who.account.id, wanted, after=after, limit=limit)
    return [batch.id for batch in found], more


async def test_kinds_with_different_prefixes_stand_in_one_order(store):
    ada, eve = await owner(store, "ada"), await owner(store, "eve")

    async def put(prefix):
        new = admission.NewBatch(new_id(prefix), "x", "x", ada.account.id, ada.key.id, "/v1/x", 60.0)
        await store.write(admission.insert, new, "validating")
        return new.id

    ids = [await put(prefix) for prefix in ("zz_", "a_", "m_", "a_", "zz_")]
    await create(store, eve)
    newest_first = ids[::-1]
    assert await listed(store, ada) == (newest_first, False)
    assert await listed(store, ada, limit=2) == (newest_first[:2], True)
    for place, batch_id in enumerate(newest_first):
        assert await listed(store, ada, after=batch_id) == (newest_first[place + 1 :], False)


async def test_a_text_of_any_letters_is_found(store):
    ada = await owner(store)
    new = admission.NewBatch(
        new_id("b_"), "x", "x", ada.account.id, ada.key.id, "/v1/x", 60.0, label="Übung ÉTÉ 東京.jsonl"
    )
    await store.write(admission.insert, new, "validating")
    for text in ("Übung ÉTÉ", "東京", "JSONL"):
        assert await listed(store, ada, Filter(text=text)) == ([new.id], False), text


async def test_what_is_staged_is_not_listed(store):
    ada = await owner(store)
    new = admission.NewBatch(
        new_id("batch_"), "x", "x", ada.account.id, ada.key.id, "/v1/x", 60.0, rerun_of="batch_old"
    )
    await store.write(admission.insert, new, "staging")
    assert await listed(store, ada) == ([], False)
    assert await store.read(overview.find, ada.account.id, new.id) is None
    assert await store.read(overview.reruns_of, "batch_old") == []


async def test_waiting_lanes_tell_when_the_next_request_is_due(store, clock):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada, ["m", "n"])
    await report(store, *[to_retry(claimed, 60.0) for claimed in await claim(store, worker)])
    lanes, now = await store.read(overview.waiting_lanes, [batch.id])
    assert now == clock.now
    assert {lane.candidate.model: lane.due_at for lane in lanes[batch.id]} == {"m": clock.now + 60, "n": 0.0}
    assert await store.read(overview.models_of, [batch.id]) == {batch.id: ["m", "n"]}
    await cancel(store, ada, batch.id)
    assert (await store.read(overview.waiting_lanes, [batch.id]))[0] == {}


async def test_every_request_has_one_outcome(store):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada, ["m"] * 9, refused=1)
    one, two, three, _ = (await claim(store, worker, count=4))[:4]
    await report(store, succeeded(one), failed(two), to_retry(three))

    async def split():
        found = {}
        now = await get(store, ada, batch.id)
        for outcome in OUTCOMES:
            entries, _ = await store.read(requests.page, now, [outcome], after=-1, limit=100, max_answer=1000)
            found |= {entry.index: entry.result.status for entry in entries}
            assert all(entry.result.status == outcome for entry in entries)
        whole, _ = await store.read(requests.page, now, None, after=-1, limit=100, max_answer=1000)
        assert found == {entry.index: entry.result.status for entry in whole}
        return [found[index] for index in range(9)]

    assert await split() == ["failed", "completed", "failed", "queued", "running"] + ["queued"] * 4
    await cancel(store, ada, batch.id)
    assert await split() == ["failed", "completed", "failed", "cancelled", "running"] + ["cancelled"] * 4
    assert await store.read(progress.errors, batch) == [
        ErrorCount("cancelled", "batch_cancelled", 5),
        ErrorCount("failed", "invalid_request", 2),
    ]


async def test_outcomes_of_which_a_batch_counts_none_are_not_searched_for(store):
    batch = await create(store, await owner(store), ["m"] * 3)
    script = requests.page(batch, ["failed", "expired"], after=-1, limit=10, max_answer=1000)
    with pytest.raises(StopIteration) as answered:
        next(script)
    assert answered.value.value == ([], False)


async def test_requests_to_run_again_come_in_pieces_of_both_bounds(store):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada, ["m"] * 7)
    await report(store, *[failed(claimed) for claimed in await claim(store, worker)])
    batch = await get(store, ada, batch.id)
    for bounds in ({"max_rows": 3, "max_bytes": 10_000}, {"max_rows": 100, "max_bytes": 1}):
        first, got, sizes = batch.first_number, [], []
        while True:
            piece, first = await store.read(requests.submitted, batch, ["failed"], first, **bounds)
            if not piece:
                break
            sizes.append(len(piece))
            got += [(one.custom_id, one.body) for one in piece]
        assert got == [(f"q-{n}", b'{"prompt": %d}' % n) for n in range(7)]
        assert sizes == ([3, 3, 1] if bounds["max_rows"] == 3 else [1] * 7)


async def test_slices_rank_latencies(store, clock):
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada, ["m"] * 20)
    began = clock.now
    for claimed in await claim(store, worker):
        clock.advance(1)
        await report(store, succeeded(claimed))
    slices = {part.index: part for part in await store.read(progress.slices, batch, began, 25.0, 1)}
    assert slices == {0: Slice(0, 20, 20, 10.0, 19.0, 20.0)}
    # As if the clock had been set: some have ended before it began, and some later than now.
    shifted = await store.read(progress.slices, batch, began + 8.5, 2.0, 3)
    assert {part.index: part.ended for part in shifted} == {0: 10, 1: 2, 2: 8}
    assert await store.read(progress.ended_since, batch, began + 15) == 5


async def test_usage_has_every_day(store, clock):
    ada, eve, worker = await owner(store, "ada"), await owner(store, "eve"), await daemon(store)
    await create(store, ada, ["m"] * 3)
    await create(store, eve, ["m"])
    await report(store, *[succeeded(claimed) for claimed in await claim(store, worker)])
    mine = await store.read(usage.usage, ada.account.id, 3)
    assert [day.attempts for day in mine.days.values()] == [3, 0, 0]
    assert list(mine.days) == ["2026-11-18", "2026-11-17", "2026-11-16"]
    everybody = await store.read(usage.usage, None, 1)
    assert (everybody.models["m"].attempts, everybody.ways["batch"].attempts) == (4, 4)
    rows, more = await store.read(usage.by_account, mine.today, after="", limit=1)
    assert ([row.name for row in rows], more) == (["ada"], True)


async def test_a_model_stays_drained_since_when_it_was(store, clock):
    await store.write(drains.drain, "m")
    since = clock.now
    clock.advance(60)
    await store.write(drains.drain, "m")
    assert await store.read(drains.drained) == {"m": since}
    assert await store.write(drains.undrain, "m")
    assert not await store.write(drains.undrain, "m")
    assert await store.read(drains.drained) == {}
