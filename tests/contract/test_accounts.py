"""Accounts and their keys, and what becomes of an account that is deleted."""

import pytest
from ledger import balanced, rows_of
from scenario import claim, create, daemon, get, owner, purge_all, read_results, report, succeeded, sweep, upload

from fibatchd.domain.accounts import ACTIVE, DELETED, SUSPENDED, looks_like_key, secret_hash
from fibatchd.store import accounts


async def account(store, who):
    return await store.read(accounts.get_account, who.account.id)


async def test_an_account_reads_as_it_was_made(store, clock):
    made = await store.write(accounts.create_account, "ada", "pro")
    assert (made.name, made.tier, made.status, made.quota, made.quota_set) == ("ada", "pro", ACTIVE, None, False)
    assert made.created_at == clock.now
    assert await store.read(accounts.get_account, made.id) == made
    assert await store.read(accounts.get_account, "acct_none") is None


async def test_accounts_are_listed_oldest_first(store):
    made = [await store.write(accounts.create_account, name, "free") for name in ("c", "a", "b")]
    assert await store.read(accounts.list_accounts) == made


async def test_tier_quota_and_status_change(store):
    ada = await owner(store)
    assert await store.write(accounts.set_account_tier, ada.account.id, "free")
    assert await store.write(accounts.set_account_quota, ada.account.id, 5_000_000_000_000_000)
    assert await store.write(accounts.set_account_status, ada.account.id, SUSPENDED)
    now = await account(store, ada)
    assert (now.tier, now.quota, now.quota_set, now.status) == ("free", 5_000_000_000_000_000, True, SUSPENDED)
    assert await store.write(accounts.set_account_quota, ada.account.id, None)
    assert ((await account(store, ada)).quota, (await account(store, ada)).quota_set) == (None, True)


@pytest.mark.parametrize(
    ("script", "value"),
    [
        (accounts.set_account_tier, "free"),
        (accounts.set_account_quota, 1),
        (accounts.set_account_status, ACTIVE),
        (accounts.set_account_status, SUSPENDED),
    ],
)
async def test_a_deleted_or_unknown_account_cannot_be_changed(store, script, value):
    ada = await owner(store)
    assert await store.write(accounts.delete_account, ada.account.id)
    before = await account(store, ada)
    assert await store.write(script, ada.account.id, value) is False
    assert await store.write(script, "acct_none", value) is False
    assert await account(store, ada) == before


async def test_a_key_is_found_by_its_secret_alone(store, clock):
    ada, eve = await owner(store, "ada"), await owner(store, "eve")
    key, secret = await store.write(accounts.create_key, ada.account.id, expires_in=60, models=["m", "é"])
    assert looks_like_key(secret)
    assert (key.expires_at, key.models, key.prefix) == (clock.now + 60, ("m", "é"), secret[:12])
    assert await store.read(accounts.authenticate, secret_hash(secret)) == (ada.account, key, clock.now)
    assert await store.read(accounts.authenticate, secret_hash(secret + "x")) is None
    assert await store.read(accounts.list_keys, ada.account.id) == [ada.key, key]
    assert await store.read(accounts.list_keys, eve.account.id) == [eve.key]


async def test_a_key_and_its_account_are_found_by_its_id(store, clock):
    ada, eve = await owner(store, "ada"), await owner(store, "eve")
    for who in (ada, eve):
        assert await store.read(accounts.owner_of, who.key.id) == (who.account, who.key, clock.now)
    await store.write(accounts.revoke_key, eve.key.id)
    _, key, now = await store.read(accounts.owner_of, eve.key.id)
    assert key.is_revoked(now)
    assert await store.read(accounts.owner_of, "key_none") is None


async def test_no_models_is_not_all_models(store):
    ada = await owner(store, models=[])
    assert ada.key.models == ()
    assert await store.read(accounts.list_keys, ada.account.id) == [ada.key]


async def test_revoking_twice_keeps_the_first_time(store, clock):
    ada = await owner(store)
    revoked_at = clock.now
    assert await store.write(accounts.revoke_key, ada.key.id)
    clock.advance(5)
    assert await store.write(accounts.revoke_key, ada.key.id)
    assert [k.revoked_at for k in await store.read(accounts.list_keys, ada.account.id)] == [revoked_at]
    assert await store.write(accounts.revoke_key, "key_none") is False


async def test_a_deleted_account_gets_no_key_and_keeps_no_name(store, clock):
    ada = await owner(store)
    assert await store.write(accounts.delete_account, ada.account.id)
    assert await store.write(accounts.delete_account, ada.account.id) is False
    gone = await account(store, ada)
    assert (gone.name, gone.status) == ("", DELETED)
    assert [k.revoked_at for k in await store.read(accounts.list_keys, ada.account.id)] == [clock.now]
    assert await store.write(accounts.create_key, ada.account.id) is None
    assert await store.write(accounts.create_key, "acct_none") is None


async def test_deleting_an_account_ends_its_batches_and_erases_its_data(store):
    ada, eve, worker = await owner(store, "ada"), await owner(store, "eve"), await daemon(store)
    ended = await create(store, ada, ["n"])
    await report(store, *[succeeded(c) for c in await claim(store, worker, "n")])
    waiting, running = await create(store, ada), await create(store, ada, ["r", "r"])
    in_flight = await claim(store, worker, "r")
    reading = await upload(store, ada)
    others = await create(store, eve)

    assert await store.write(accounts.delete_account, ada.account.id)
    await sweep(store)
    assert await get(store, ada, ended.id) is None
    assert await get(store, ada, waiting.id) is None
    assert await get(store, ada, reading.batch_id) is None
    closed = await get(store, ada, running.id)
    assert (closed.error_code, closed.closed_as, closed.running) == ("owner_unauthorized", "failed", 2)
    await balanced(store)

    assert await report(store, *[succeeded(c) for c in in_flight]) == 2
    assert (await get(store, ada, running.id)).status == "failed"
    await sweep(store)
    await purge_all(store, worker)

    assert await get(store, eve, others.id) == others
    assert await rows_of(store, "batches", "requests", "request_bodies", "results") == [1, 3, 3, 0]
    assert len(await read_results(store, others)) == 3
