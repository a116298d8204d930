"""What a create call may be refused for before, or although, its requests are good: access, room, quota, sizes, limits,
faults. Nothing is left behind by any of them."""

import json
from contextlib import suppress
from dataclasses import replace

import pytest
import trio
from api import chat

from fibatchd.errors import StoreUnavailable
from fibatchd.money import PICO
from fibatchd.store import accounts, spending
from fibatchd.store.interface import Query
from fibatchd.store.spending import Spent

ROWS = ("batches", "requests", "request_bodies", "lanes", "idempotency")


async def rows(api, *tables):
    """How many rows there are of batches that no purge is going to take."""

    def count():
        found = []
        for table in tables or ROWS:
            where = "WHERE deleted_at IS NULL" if table == "batches" else ""
            ((number,),) = yield Query(f"SELECT COUNT(*) FROM {table} {where}")
            found.append(number)
        return found

    return await api.context.store.read(count)


async def create(api, number=2, **options):
    return await api.call("POST", "/v1/batches", json={"requests": [chat(f"q-{n}") for n in range(number)]}, **options)


async def spend(api, who, usd):
    part = (who.account.id, "glm-5.3-flash", Spent(attempts=1, cost=int(usd * PICO)))
    await api.context.store.write(spending.record_interactive, [part])


async def test_an_account_without_access(api):
    bob = await api.owner(tier="free")
    answer = await create(api, by=bob)
    assert answer.status_code == 403
    assert answer.json()["error"]["type"] == "permission_error"
    api.configure(create_tiers=("free",))
    assert (await create(api, by=bob)).status_code == 200


async def test_losing_access_leaves_what_there_is(api):
    batch = await api.create()
    api.configure(create_tiers=())
    assert (await create(api)).status_code == 403
    assert (await api.get(batch["id"]))["id"] == batch["id"]
    assert (await api.call("POST", f"/v1/batches/{batch['id']}/cancel")).status_code == 200
    assert (await api.call("GET", f"/v1/batches/{batch['id']}/output.jsonl")).status_code == 200
    assert (await api.call("DELETE", f"/v1/batches/{batch['id']}")).status_code == 200


async def test_the_daily_quota(api):
    batch = await api.create()
    await api.context.store.write(accounts.set_account_quota, api.ada.account.id, PICO)
    await spend(api, api.ada, 0.999999)
    assert (await create(api)).status_code == 200
    await spend(api, api.ada, 0.000001)
    answer = await create(api)
    assert answer.status_code == 429
    assert answer.json()["error"]["code"] == "quota_exceeded"
    assert answer.headers["x-should-retry"] == "false"
    assert int(answer.headers["retry-after"]) == 86400 - 1_795_000_000 % 86400
    for path in ("", "/results"):
        assert (await api.call("GET", f"/v1/batches/{batch['id']}{path}")).status_code == 200
    assert (await api.call("POST", f"/v1/batches/{batch['id']}/cancel")).status_code == 200
    assert (await api.call("GET", f"/v1/batches/{batch['id']}/output.jsonl")).status_code == 200
    assert (await api.call("DELETE", f"/v1/batches/{batch['id']}")).status_code == 200
    api.clock.advance(int(answer.headers["retry-after"]))
    assert (await create(api)).status_code == 200


async def test_a_tiers_quota(api):
    bob = await api.owner(tier="free")
    api.configure(create_tiers=("free",))
    await spend(api, bob, 1)
    assert (await create(api, by=bob)).status_code == 429


async def test_no_room(api):
    api.store.room = False
    answer = await create(api)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "storage_full")
    assert int(answer.headers["retry-after"]) > 0


async def test_too_many_requests(api):
    api.configure(max_requests=3)
    assert (await create(api, 3)).status_code == 200
    answer = await create(api, 4)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "requests")
    assert "at most 3" in answer.json()["error"]["message"]
    assert answer.json()["error"]["code"] == "too_many_requests_in_batch"


@pytest.mark.parametrize("number", [2, 1500])
@pytest.mark.parametrize(
    ("setting", "code"), [("max_unfinished_batches", "batches"), ("max_unfinished_requests", "requests")]
)
async def test_unfinished_limits(api, number, setting, code):
    first = await api.create([chat(f"q-{n}") for n in range(number)])
    before = await rows(api)
    api.configure(**{setting: 1 if code == "batches" else 2 * number - 1})
    answer = await create(api, number, headers={"idempotency-key": "a"})
    assert answer.status_code == 429
    assert answer.json()["error"]["code"] == f"too_many_unfinished_{code}"
    assert answer.headers["x-should-retry"] == "false"
    assert "retry-after" not in answer.headers
    if number == 2:
        assert await rows(api) == before
    else:
        assert await rows(api, "batches", "lanes", "idempotency") == [before[0], before[3], before[4]]
    await api.run(first["id"])
    await api.run(first["id"])
    assert (await create(api, number, headers={"idempotency-key": "a"})).status_code == 200


async def test_a_body_over_the_limit(api):
    api.configure(max_body_bytes=2000)
    sent = json.dumps({"requests": [chat()]}).encode()
    whole = sent + b" " * (2000 - len(sent))
    assert (await api.call("POST", "/v1/batches", content=whole)).status_code == 200
    assert (await api.call("POST", "/v1/batches", content=whole + b" ")).status_code == 413

    async def chunked():
        for _ in range(3):
            yield b" " * 1000

    answer = await api.call("POST", "/v1/batches", content=chunked())
    assert answer.status_code == 413
    assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_bodies_received_together_are_bounded(api):
    config = api.context.config
    api.context.config = replace(config, server=replace(config.server, max_buffered_body_bytes=5000))
    stream = await trio.open_tcp_stream("127.0.0.1", api.port)
    async with stream:
        head = f"POST /v1/batches HTTP/1.1\r\nhost: a\r\nx-api-key: {api.ada.secret}\r\ncontent-length: 4500\r\n"
        await stream.send_all(head.encode() + b"expect: 100-continue\r\n\r\n")
        assert b" 100 " in await stream.receive_some()
        answer = await create(api, 4)  # some 600 bytes
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        await stream.send_all(b" " * 4500)
        assert b" 400 " in await stream.receive_some()
    assert (await create(api, 4)).status_code == 200


async def test_a_store_that_is_gone(api):
    batch = await api.create()
    api.store.down = True
    for method, path in [
        ("POST", "/v1/batches"),
        ("GET", "/v1/batches"),
        ("GET", f"/v1/batches/{batch['id']}"),
        ("DELETE", f"/v1/batches/{batch['id']}"),
    ]:
        answer = await api.call(method, path)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert "secret.db" not in answer.text
    api.store.down = False
    assert (await api.get(batch["id"])) == batch


@pytest.mark.parametrize("script", ["insert", "reserve", "append", "publish"])
async def test_a_large_batch_whose_storing_fails_leaves_nothing(api, script):
    """Wherever the store gives up, what was staged goes to the purge."""
    plain = api.store.write

    async def failing(called, *args, **kwargs):
        if called.__name__ == script:
            raise StoreUnavailable("full")
        return await plain(called, *args, **kwargs)

    api.store.write = failing
    answer = await create(api, 1500, headers={"idempotency-key": "a"})
    assert answer.status_code == 503
    api.store.write = plain
    assert await rows(api, "batches", "lanes", "idempotency") == [0, 0, 0]
    assert (await create(api, 1500, headers={"idempotency-key": "a"})).status_code == 200


async def test_a_client_that_leaves_while_its_large_batch_is_stored_leaves_nothing(api):
    plain, reached, left = api.store.write, trio.Event(), trio.Event()

    async def slow(called, *args, **kwargs):
        if called.__name__ == "publish":
            reached.set()
            await trio.sleep_forever()
        done = await plain(called, *args, **kwargs)
        if called.__name__ == "abandon":
            left.set()
        return done

    api.store.write = slow
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_ignored, create, api, 1500)
        await reached.wait()
        nursery.cancel_scope.cancel()
    await left.wait()
    assert await rows(api, "batches", "lanes") == [0, 0]


async def _ignored(call, *args):
    with suppress(Exception):
        await call(*args)
