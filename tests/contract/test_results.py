"""Reading results: in submission order, in pieces bounded by rows and by bytes, each request once."""

from scenario import claim, create, daemon, failed, get, owner, report, succeeded, upload

from fibatchd.store import results
from fibatchd.store.results import Range


async def piece(store, batch, first=None, last=None, max_rows=100, max_bytes=10_000):
    span = Range.of(batch)
    first, last = span.first if first is None else first, span.last if last is None else last
    return list(await store.read(results.piece, batch, first, last, max_rows=max_rows, max_bytes=max_bytes))


async def answered(store, sizes):
    """A batch whose requests were answered with bodies of so many bytes; None leaves one queued."""
    ada, worker = await owner(store), await daemon(store)
    batch = await create(store, ada, ["m"] * len(sizes))
    taken = await claim(store, worker)
    pairs = list(zip(taken, sizes, strict=True))
    for claimed, size in reversed(pairs):
        if size is not None:
            await report(store, succeeded(claimed, b"x" * size))
    return batch


async def test_pieces_are_bounded_by_rows(store):
    batch = await answered(store, [1] * 5)
    first = await piece(store, batch, max_rows=3)
    assert [r.custom_id for r in first] == ["q-0", "q-1", "q-2"]
    rest = await piece(store, batch, first=first[-1].number + 1, max_rows=3)
    assert [r.custom_id for r in rest] == ["q-3", "q-4"]
    assert await piece(store, batch, first=rest[-1].number + 1) == []


async def test_pieces_are_bounded_by_bytes_and_hold_at_least_one(store):
    batch = await answered(store, [400, 500, None, 200, 5000, 0])
    found, first, sizes = [], batch.first_number, []
    while got := await piece(store, batch, first=first, max_bytes=1000):
        sizes.append([len(r.body or b"") for r in got])
        found += got
        first = got[-1].number + 1
    assert sizes == [[400, 500, 0], [200], [5000], [0]]
    assert [r.custom_id for r in found] == [f"q-{index}" for index in range(6)]


async def test_the_order_is_that_of_submission_whatever_ended_first(store):
    batch = await answered(store, [3, 2, 1])
    assert [len(r.body) for r in await piece(store, batch)] == [3, 2, 1]


async def test_a_batchs_range_holds_its_own_requests_and_no_others(store):
    ada, worker = await owner(store), await daemon(store)
    batches = [await create(store, ada, ["m"] * size) for size in (2, 3, 1)]
    await report(store, *[failed(c) for c in await claim(store, worker)])
    for batch in batches:
        listed = await piece(store, batch)
        assert [r.custom_id for r in listed] == [f"q-{index}" for index in range(batch.total)]
        assert {r.status for r in listed} == {"failed"}


async def test_a_batch_without_requests_has_no_range(store):
    ada = await owner(store)
    batch = await get(store, ada, (await upload(store, ada)).batch_id)
    span = Range.of(batch)
    assert span.last < span.first
