"""`Idempotency-Key`: a create call that is sent again creates nothing anew, and says so in the contract's ways."""

import json
import string

import pytest
import trio
from api import chat

from fibatchd.money import PICO
from fibatchd.store import accounts, sweeps

BODY = json.dumps({"requests": [chat("q-1"), chat("q-2")]}).encode()
OTHER = json.dumps({"requests": [chat("q-1")]}).encode()
MANY = json.dumps({"requests": [chat(f"q-{n}") for n in range(1200)]}).encode()


async def create(api, key, body=BODY, **options):
    return await api.call("POST", "/v1/batches", content=body, headers={"idempotency-key": key}, **options)


async def listed(api):
    return [batch["id"] for batch in (await api.call("GET", "/v1/batches")).json()["data"]]


@pytest.mark.parametrize("body", [BODY, MANY], ids=["small", "large"])
async def test_the_same_request_again(api, body):
    first = await create(api, "run 1", body)
    again = await create(api, "run 1", body)
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json() == first.json()
    assert await listed(api) == [first.json()["id"]]


async def test_a_replay_shows_the_batch_as_it_is_now(api):
    first = (await create(api, "a")).json()
    await api.run(first["id"])
    again = (await create(api, "a")).json()
    assert (again["id"], again["status"]) == (first["id"], "completed")


async def test_the_key_belongs_to_the_account(api):
    first = await create(api, "a")
    other_key = await api.key_of(api.ada.account)
    assert (await create(api, "a", by=other_key)).json()["id"] == first.json()["id"]
    bob = await api.owner()
    assert (await create(api, "a", by=bob)).json()["id"] != first.json()["id"]


async def test_a_replay_needs_neither_quota_nor_access_nor_room(api):
    first = await create(api, "a")
    await api.context.store.write(accounts.set_account_quota, api.ada.account.id, 0)
    api.configure(create_tiers=())
    api.store.room = False
    assert (await create(api, "a")).json()["id"] == first.json()["id"]
    assert (await create(api, "b")).status_code == 403


@pytest.mark.parametrize("body", [OTHER, BODY + b" ", MANY])
async def test_another_request(api, body):
    await create(api, "a")
    answer = await create(api, "a", body)
    assert answer.status_code == 409
    assert answer.headers["x-should-retry"] == "false"
    assert answer.json()["error"]["code"] == "idempotency_key_reused"


async def test_after_the_batch_was_deleted(api):
    first = (await create(api, "a")).json()
    assert (await api.call("DELETE", f"/v1/batches/{first['id']}")).status_code == 200
    for body in (BODY, OTHER):
        gone = await create(api, "a", body)
        assert (gone.status_code, gone.json()["error"]["code"]) == (410, "idempotency_key_expired")
    api.clock.advance(86400)
    await api.context.store.write(sweeps.forget_keys, 10)
    assert (await create(api, "a", OTHER)).status_code == 200


async def test_a_refused_call_does_not_use_the_key_up(api):
    api.configure(create_tiers=())
    assert (await create(api, "a")).status_code == 403
    api.configure(create_tiers=("internal",), max_unfinished_batches=0)
    assert (await create(api, "a")).status_code == 429
    api.configure(max_unfinished_batches=1)
    await api.context.store.write(accounts.set_account_quota, api.ada.account.id, 0)
    assert (await create(api, "a")).status_code == 429
    await api.context.store.write(accounts.set_account_quota, api.ada.account.id, PICO)
    assert (await create(api, "a", b'{"requests": []}')).status_code == 400
    assert (await create(api, "a", OTHER)).status_code == 200


@pytest.mark.parametrize("body", [BODY, MANY], ids=["small", "large"])
async def test_calls_that_race_all_get_one_batch(api, body):
    answers = []

    async def call():
        answers.append(await create(api, "a", body))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(call)
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len(await listed(api)) == 1


PRINTABLE = "".join(char for char in string.printable if char.isprintable()).strip()


@pytest.mark.parametrize("key", ["a", "x" * 255, "a b", PRINTABLE, "!", "~"])
async def test_good_keys(api, key):
    assert (await create(api, key)).status_code == 200


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb", b"caf\xc3\xa9", b"\xff"])
async def test_malformed_keys(api, key):
    answer = await create(api, key)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_idempotency_key")
    assert await listed(api) == []


async def test_two_keys(api):
    headers = [("idempotency-key", "a"), ("idempotency-key", "b"), *api.ada.headers.items()]
    assert (await api.http.post("/v1/batches", content=BODY, headers=headers)).status_code == 400
