"""Running again what did not succeed of a Message Batch: the new batch is one, too."""

from dataclasses import replace

from api import failure, success
from messages_api import BATCHES, create, get, item, lines, switch

ANSWER = b'{"id":"msg_1","type":"message","model":"claude","content":[],"usage":{"input_tokens":3,"output_tokens":4}}'


async def half_failed(api):
    """An ended batch: one request succeeded, one failed, one was refused by its own check."""
    batch = await create(api, item("ok"), item("late"), item("check", foo=1))
    ok, late = await api.claim(batch["id"])
    await api.end(success(ok, ANSWER), failure(late, "timeout", "late", 504))
    return batch


async def rerun(api, batch, status=200):
    answer = await api.call("POST", f"/v1/batches/{batch['id']}/rerun")
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_the_errored_ones_become_a_new_batch(stored):
    old = await half_failed(stored)
    new = await rerun(stored, old)
    assert new["id"].startswith("msgbatch_")
    assert (new["kind"], new["api"], new["rerun_of"]) == ("message_batches", "message_batches", old["id"])
    assert new["counts"]["total"] == 2
    # What its own check refused is refused again, and errored by itself.
    assert (new["counts"]["failed"], new["counts"]["queued"], new["models"]) == (1, 1, ["claude"])
    assert (await get(stored, new))["request_counts"]["processing"] == 2
    await stored.run(new["id"], ANSWER)
    assert {line["custom_id"]: line["result"]["type"] for line in await lines(stored, new)} == {
        "late": "succeeded",
        "check": "errored",
    }


async def test_its_requests_show_tokens_as_that_api_tells_them(api):
    old = await half_failed(api)
    rows = (await api.call("GET", f"/v1/account/batches/{old['id']}/requests")).json()["data"]
    assert [(row["model"], row["tokens"]) for row in rows] == [
        ("claude", {"input": 3, "output": 4, "total": 7}),
        ("claude", None),
        (None, None),
    ]


async def test_all_of_its_management_is_there(api):
    """What a page does with a Message Batch: cancel, download, delete, by its own routes."""
    batch = await create(api)
    assert (await api.call("POST", f"{BATCHES}/{batch['id']}/cancel")).status_code == 200
    assert (await api.call("GET", f"/v1/account/batches/{batch['id']}")).json()["status"] == "cancelled"
    assert len(await lines(api, batch)) == 2
    assert (await api.call("DELETE", f"{BATCHES}/{batch['id']}")).status_code == 200


async def test_the_switch_closes_it(api):
    old = await half_failed(api)
    switch(api, on=False)
    assert (await rerun(api, old, 403))["error"]["code"] == "message_batches_disabled"


async def test_what_it_holds_counts_with_the_bodies_of_create_calls(stored):
    old = await half_failed(stored)
    config = stored.context.config
    stored.context.config = replace(config, server=replace(config.server, max_buffered_body_bytes=100))
    assert "too many large requests" in str(await rerun(stored, old, 503))
    stored.context.config = config
    assert (await rerun(stored, old))["counts"]["total"] == 2
