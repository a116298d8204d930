"""Running again what did not succeed of an inline batch. The other kinds' tests stand with their plugins'."""

import json
from dataclasses import replace

import trio
from api import chat, failure, success

from fibatchd.ids import new_id
from fibatchd.store import admission, ending, requests
from fibatchd.store.interface import Query


async def rerun(api, batch_id, body=None, status=200, **options):
    content = b"" if body is None else json.dumps(body).encode()
    answer = await api.call("POST", f"/v1/batches/{batch_id}/rerun", content=content, **options)
    assert answer.status_code == status, answer.text
    return answer.json() if status == 200 else answer.json()["error"]


async def half_failed(api, count=4, **members):
    """An ended batch of which every second request has failed."""
    batch = await api.create([chat(f"q-{n}", seed=n) for n in range(count)], **members)
    claimed = await api.claim(batch["id"])
    ends = [failure(c, "timeout", "late", 504) if n % 2 else success(c) for n, c in enumerate(claimed)]
    await api.end(*ends)
    return batch


async def requests_of(api, batch_id):
    path = f"/v1/account/batches/{batch_id}/requests"
    rows = (await api.call("GET", path)).json()["data"]
    bodies = [(await api.call("GET", f"{path}/{row['index']}")).json()["body"] for row in rows]
    return [(row["custom_id"], body["seed"]) for row, body in zip(rows, bodies, strict=True)]


async def test_the_failed_ones_become_a_new_batch(api):
    old = await half_failed(api, metadata={"run": "7"})
    new = await rerun(api, old["id"], by=await api.key_of(api.ada.account))
    assert new["id"] != old["id"]
    assert (new["kind"], new["status"], new["endpoint"]) == ("inline", "validating", "/v1/chat/completions")
    assert (new["rerun_of"], new["metadata"], new["counts"]["total"]) == (old["id"], {"run": "7"}, 2)
    assert await requests_of(api, new["id"]) == [("q-1", 1), ("q-3", 3)]
    await api.run(new["id"])
    assert (await api.get(new["id"]))["status"] == "completed"
    assert (await api.call("GET", f"/v1/account/batches/{old['id']}")).json()["reruns"] == [new["id"]]


async def test_a_limit_on_requests_that_was_lowered_holds(api):
    old = await half_failed(api, 6)
    api.configure(max_requests=2)
    assert (await rerun(api, old["id"], status=400))["code"] == "too_many_requests_in_batch"
    api.configure(max_requests=3)
    assert (await rerun(api, old["id"]))["counts"]["total"] == 3


async def test_cancelled_and_expired_ones_where_they_are_asked_for(api):
    cancelled = await api.create([chat(f"q-{n}", seed=n) for n in range(3)])
    (one,) = await api.claim(cancelled["id"], 1)
    await api.call("POST", f"/v1/batches/{cancelled['id']}/cancel")
    await api.end(failure(one, "timeout", "late", 504))
    assert await requests_of(api, (await rerun(api, cancelled["id"]))["id"]) == [("q-0", 0)]
    again = await rerun(api, cancelled["id"], {"outcomes": ["cancelled"]})
    assert await requests_of(api, again["id"]) == [("q-1", 1), ("q-2", 2)]
    everything = await rerun(api, cancelled["id"], {"outcomes": ["failed", "cancelled", "expired"]})
    assert everything["counts"]["total"] == 3

    expired = await api.create([chat("q", seed=1)])
    api.clock.advance(2 * 86_400)
    await api.context.store.write(ending.expire, expired["id"], api.context.policy)
    assert (await rerun(api, expired["id"], status=409))["code"] == "nothing_to_rerun"
    assert (await rerun(api, expired["id"], {"outcomes": ["expired"]}))["counts"]["total"] == 1


async def test_one_call_with_its_key_sent_twice_creates_once(api):
    old = await half_failed(api)
    key = {"idempotency-key": "again"}
    first = await rerun(api, old["id"], headers=key)
    assert (await rerun(api, old["id"], headers=key))["id"] == first["id"]
    other = await rerun(api, old["id"], {"outcomes": ["failed"]}, status=409, headers=key)
    assert other["code"] == "idempotency_key_reused"
    assert (await rerun(api, old["id"]))["id"] != first["id"]


async def test_what_cannot_be_run_again(api):
    running = await api.create()
    assert (await rerun(api, running["id"], status=409))["code"] == "batch_not_finished"
    await api.run(running["id"])
    assert (await rerun(api, running["id"], status=409))["code"] == "nothing_to_rerun"
    old = await half_failed(api)
    assert (await rerun(api, old["id"], status=404, by=await api.owner("eve")))["code"] == "batch_not_found"
    assert (await rerun(api, new_id("batch_"), status=404))["code"] == "batch_not_found"
    for body in ({"outcomes": []}, {"outcomes": "failed"}, {"outcomes": ["succeeded"]}, {"outcome": ["failed"]}, [1]):
        await rerun(api, old["id"], body, status=400)


async def test_all_that_creating_is_subject_to_holds(api):
    old = await half_failed(api)
    api.context.drained = frozenset({"glm-5.3-flash"})
    refused = await rerun(api, old["id"], status=400)
    assert (refused["code"], refused["param"]) == ("model_unavailable", "requests[0].body.model")
    assert "custom_id 'q-1'" in refused["message"]
    api.context.drained = frozenset()
    limited = await api.key_of(api.ada.account, models=["qwen3.6-35b"])
    assert (await rerun(api, old["id"], status=400, by=limited))["code"] == "model_not_found"
    api.configure(max_unfinished_requests=1)
    assert (await rerun(api, old["id"], status=429))["code"] == "too_many_unfinished_requests"
    api.configure(create_tiers=())
    assert (await rerun(api, old["id"], status=403))["code"] == "batch_access_denied"
    api.configure(enabled=False)
    assert (await rerun(api, old["id"], status=404))["code"] == "batches_unavailable"
    listed = await api.context.store.read(count_batches)
    assert listed == 1


def count_batches():
    ((count,),) = yield Query("SELECT COUNT(*) FROM batches WHERE deleted_at IS NULL")
    return count


async def test_a_kind_that_nobody_runs_again(api):
    def put():
        owner = api.ada
        new = admission.NewBatch(
            new_id("odd_"), "odd", "odd", owner.account.id, owner.key.id, "/v1/chat/completions", 60.0
        )
        yield from admission.insert(new, "validating")
        yield from ending.refuse(new.id, '{"object":"list","data":[]}', api.context.policy)
        yield Query("UPDATE batches SET failed = 1 WHERE id = ?", (new.id,))
        return new.id

    batch_id = await api.context.store.write(put)
    assert (await rerun(api, batch_id, status=409))["code"] == "rerun_unsupported"


async def test_a_batch_that_is_deleted_meanwhile_leaves_nothing(api):
    old = await half_failed(api)

    def lose_some():
        yield Query("DELETE FROM request_bodies WHERE custom_id = 'q-3'")

    await api.context.store.write(lose_some)
    assert (await rerun(api, old["id"], status=404))["code"] == "not_found"
    assert await api.context.store.read(count_batches) == 1


async def test_an_account_has_one_under_way_and_holds_no_other_up(api, monkeypatch):
    old, read = await half_failed(api), api.store.read
    bob = await api.owner()
    his = await api.create([chat("b")], by=bob)
    await api.end(failure((await api.claim(his["id"]))[0], "timeout", "late", 504))
    reached, go_on = trio.Event(), trio.Event()

    async def slow(script, batch=None, *args, **kwargs):
        if script is requests.submitted and batch.id == old["id"]:
            reached.set()
            await go_on.wait()
        return await read(script, *([] if batch is None else [batch]), *args, **kwargs)

    monkeypatch.setattr(api.store, "read", slow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rerun, api, old["id"])
        await reached.wait()
        second = await api.call("POST", f"/v1/batches/{old['id']}/rerun")
        assert (second.status_code, second.json()["error"]["code"]) == (429, "rerun_under_way")
        assert int(second.headers["retry-after"]) > 0
        assert (await rerun(api, his["id"], by=bob))["rerun_of"] == his["id"]
        go_on.set()
    await rerun(api, old["id"])


async def test_what_it_holds_counts_with_the_bodies_of_create_calls(api):
    old = await half_failed(api, 40)
    config = api.context.config
    api.context.config = replace(config, server=replace(config.server, max_buffered_body_bytes=1000))
    refused = await api.call("POST", f"/v1/batches/{old['id']}/rerun")
    assert (refused.status_code, "too many large requests" in refused.text) == (503, True)
    assert await api.context.store.read(count_batches) == 1
    api.context.config = config
    assert (await rerun(api, old["id"]))["counts"]["total"] == 20
