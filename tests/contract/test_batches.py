"""Batches as their owners list and find them."""

from scenario import POLICY, create, delete, owner

from fibatchd.store import batches


async def test_pages_of_batches_go_both_ways(store):
    ada, eve = await owner(store, "ada"), await owner(store, "eve")
    ids = [(await create(store, ada, ["m"])).id for _ in range(5)]
    await create(store, eve)

    async def page(**how):
        found, more = await store.read(batches.page, ada.account.id, "batches", **how)
        return [ids.index(b.id) for b in found], more

    assert await page(limit=2) == ([4, 3], True)
    assert await page(limit=5) == ([4, 3, 2, 1, 0], False)
    assert await page(limit=2, after=ids[3]) == ([2, 1], True)
    assert await page(limit=2, after=ids[2]) == ([1, 0], False)
    assert await page(limit=2, before=ids[1]) == ([3, 2], True)
    assert await page(limit=2, before=ids[2]) == ([4, 3], False)
    await delete(store, ada, ids[2])
    assert await page(limit=2, after=ids[2]) == ([1, 0], False)
    found, _ = await store.read(batches.page, ada.account.id, "message_batches", limit=5)
    assert found == []


async def test_a_batch_of_another_api_reads_as_not_found(store):
    ada = await owner(store)
    batch = await create(store, ada)
    assert await store.read(batches.get, ada.account.id, batch.id, "message_batches") is None
    assert await store.write(batches.cancel, ada.account.id, batch.id, "message_batches", POLICY) is None
    assert await store.write(batches.delete, ada.account.id, batch.id, "message_batches", POLICY) is None
