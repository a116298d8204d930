"""Get, list, cancel, delete, and how a batch reads over its life."""

import pytest
from api import chat, failure, success

from fibatchd.money import PICO
from fibatchd.store import ending

NOW = 1_795_000_000


async def cancel(api, batch, **options):
    return await api.call("POST", f"/v1/batches/{batch['id']}/cancel", **options)


async def test_a_life_that_ends_well(api):
    batch = await api.create()
    api.clock.advance(5)
    one, two = await api.claim(batch["id"])
    running = await api.get(batch["id"])
    assert running["status"] == "in_progress"
    assert running["in_progress_at"] == NOW + 5
    await api.end(success(one, cost=PICO // 8))
    assert (await api.get(batch["id"]))["request_counts"] == {"total": 2, "completed": 1, "failed": 0}
    api.clock.advance(5.9)
    await api.end(failure(two, "timeout", "slow", 504, cost=None))
    ended = await api.get(batch["id"])
    assert ended == running | {
        "status": "completed",
        "completed_at": NOW + 10,
        "request_counts": {"total": 2, "completed": 1, "failed": 1},
        "usage": {"input_tokens": 16, "output_tokens": 120, "total_tokens": 136},
        "cost_usd": 0.125,
        "cost_unknown_attempts": 1,
        "results_expires_at": NOW + 10 + 7 * 86400,
    }


@pytest.mark.parametrize(
    ("cost", "written"), [(0, "0.0"), (1, "0.000000000001"), (3 * PICO, "3.0"), (10**17 + 1, "100000.000000000001")]
)
async def test_the_cost_is_exact(api, cost, written):
    batch = await api.create([chat()])
    await api.end(*[success(claimed, cost=cost) for claimed in await api.claim(batch["id"])])
    text = (await api.call("GET", f"/v1/batches/{batch['id']}")).text
    assert f'"cost_usd":{written},' in text


async def test_an_invalid_owner(api):
    batch = await api.create()
    (one,) = await api.claim(batch["id"], 1)
    await api.end(success(one))
    why = ("owner_unauthorized", "The API key has been revoked")
    await api.context.store.write(ending.fail, batch["id"], *why, api.context.policy)
    failed = await api.get(batch["id"])
    assert (failed["status"], failed["failed_at"]) == ("failed", NOW)
    assert failed["error"] == {"code": why[0], "message": why[1]}
    assert failed["request_counts"] == {"total": 2, "completed": 1, "failed": 1}


async def test_a_window_that_closes(api):
    batch = await api.create()
    (one,) = await api.claim(batch["id"], 1)
    api.clock.advance(86400)
    await api.context.store.write(ending.expire, batch["id"], api.context.policy)
    assert (await api.get(batch["id"]))["status"] == "in_progress"
    await api.end(success(one))
    expired = await api.get(batch["id"])
    assert (expired["status"], expired["expired_at"]) == ("expired", NOW + 86400)
    assert expired["request_counts"] == {"total": 2, "completed": 1, "failed": 1}


@pytest.mark.parametrize(
    ("seconds", "shown"), [(86400, "24h"), (3600, "1h"), (5400, "90m"), (90, "90s"), (172800, "48h")]
)
async def test_the_window_is_the_servers_setting(api, seconds, shown):
    api.configure(completion_window_s=seconds)
    batch = await api.create(completion_window="24h")
    assert (batch["completion_window"], batch["expires_at"]) == (shown, NOW + seconds)


class TestCancel:
    async def test_with_nothing_running(self, api):
        cancelled = (await cancel(api, await api.create())).json()
        assert cancelled["status"] == "cancelled"
        assert cancelled["cancelling_at"] == cancelled["cancelled_at"] == NOW
        assert cancelled["request_counts"] == {"total": 2, "completed": 0, "failed": 0}

    async def test_with_a_request_running(self, api):
        batch = await api.create()
        (one,) = await api.claim(batch["id"], 1)
        first = (await cancel(api, batch)).json()
        assert (first["status"], first["cancelled_at"]) == ("cancelling", None)
        assert (await cancel(api, batch)).json() == first
        await api.end(success(one))
        ended = await api.get(batch["id"])
        assert ended["status"] == "cancelled"
        assert ended["request_counts"] == {"total": 2, "completed": 1, "failed": 0}

    async def test_when_it_is_over(self, api):
        batch = await api.create()
        await api.run(batch["id"])
        ended = await api.get(batch["id"])
        answer = await cancel(api, batch)
        assert (answer.status_code, answer.json()) == (200, ended)

    @pytest.mark.parametrize("content", [b"", b"{}", b"not JSON", b"x" * 100_000])
    async def test_whatever_body_comes_along(self, api, content):
        assert (await cancel(api, await api.create(), content=content)).status_code == 200


class TestDelete:
    async def test_in_any_status_with_nothing_running(self, api):
        waiting, ended, cancelled = await api.create(), await api.create(), await api.create()
        await api.run(ended["id"])
        await cancel(api, cancelled)
        for batch in (waiting, ended, cancelled):
            answer = await api.call("DELETE", f"/v1/batches/{batch['id']}")
            assert answer.json() == {"id": batch["id"], "object": "batch.deleted", "deleted": True}
            for method, rest in [
                ("GET", ""),
                ("GET", "/results"),
                ("GET", "/output.jsonl"),
                ("POST", "/cancel"),
                ("DELETE", ""),
            ]:
                assert (await api.call(method, f"/v1/batches/{batch['id']}{rest}")).status_code == 404
        assert (await api.call("GET", "/v1/batches")).json()["data"] == []

    @pytest.mark.parametrize("cancelled", [False, True])
    async def test_with_a_request_running(self, api, cancelled):
        batch = await api.create()
        (one,) = await api.claim(batch["id"], 1)
        if cancelled:
            await cancel(api, batch)
        answer = await api.call("DELETE", f"/v1/batches/{batch['id']}")
        assert answer.status_code == 409
        assert answer.headers["x-should-retry"] == "false"
        await api.end(success(one))
        assert (await api.call("DELETE", f"/v1/batches/{batch['id']}")).status_code == 200


class TestList:
    async def test_nothing(self, api):
        page = (await api.call("GET", "/v1/batches")).json()
        assert page == {"object": "list", "data": [], "has_more": False, "first_id": None, "last_id": None}

    async def test_pages_newest_first(self, api):
        api.configure(max_unfinished_batches=100)
        made = [await api.create([chat()]) for _ in range(25)]
        seen, after, pages = [], None, 0
        while True:
            params = {"after": after} if after else {}
            page = (await api.call("GET", "/v1/batches", params=params)).json()
            seen += page["data"]
            pages += 1
            assert page["first_id"] == page["data"][0]["id"]
            assert page["last_id"] == page["data"][-1]["id"]
            if not page["has_more"]:
                break
            after = page["last_id"]
        assert seen == made[::-1]
        assert pages == 2

    async def test_a_page_that_ends_exactly(self, api):
        for _ in range(3):
            await api.create([chat()])
        page = (await api.call("GET", "/v1/batches?limit=3")).json()
        assert (len(page["data"]), page["has_more"]) == (3, False)

    async def test_the_object_under_the_cursor_may_be_gone(self, api):
        old, middle, new = [await api.create([chat()]) for _ in range(3)]
        await api.call("DELETE", f"/v1/batches/{middle['id']}")
        page = (await api.call("GET", f"/v1/batches?after={middle['id']}")).json()
        assert [batch["id"] for batch in page["data"]] == [old["id"]]
        assert new["id"] > middle["id"]

    @pytest.mark.parametrize("limit", ["0", "-1", "101", "", "a", "1.0", "1e1", " 1", "٣", "9" * 5000])
    async def test_a_bad_limit(self, api, limit):
        answer = await api.call("GET", "/v1/batches", params={"limit": limit})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "limit")

    @pytest.mark.parametrize(
        "after", ["", "x", "batch_", "batch_req_1", "msgbatch_" + "0" * 32, "batch_" + "G" * 32, "batch_" + "0" * 33]
    )
    async def test_a_bad_cursor(self, api, after):
        answer = await api.call("GET", "/v1/batches", params={"after": after})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "after")

    async def test_query_parameters_that_nobody_knows(self, api):
        assert (await api.call("GET", "/v1/batches?beta=true&limit=100")).status_code == 200


@pytest.mark.parametrize(
    "name",
    [
        "x",
        "batch_" + "0" * 32,
        "msgbatch_" + "0" * 32,
        "batch_%00",
        "batch_" + "%27" * 32,
        "%F0%9F%98%80",
        "batch_" + "a" * 5000,
    ],
)
async def test_ids_that_are_none(api, name):
    for method, rest in [
        ("GET", ""),
        ("GET", "/results"),
        ("GET", "/output.jsonl"),
        ("POST", "/cancel"),
        ("DELETE", ""),
    ]:
        answer = await api.call(method, f"/v1/batches/{name}{rest}")
        assert answer.status_code == 404, (method, rest)
        assert answer.json()["error"]["type"] == "invalid_request_error"
