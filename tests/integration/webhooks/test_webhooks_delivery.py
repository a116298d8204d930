"""From a batch's end to a receiver, whatever the receiver does, on both stores."""

import copy
import json

import pytest
import standardwebhooks
import structlog.testing
import trio
from fibatchd_plugins.webhooks import reporter
from fibatchd_plugins.webhooks.sender import Sender
from site_webhooks import accept, answers, hang, receiving

from fibatchd.errors import StoreError
from fibatchd.inference.schema import load_schema
from fibatchd.store import ending

EVENT = load_schema("webhook_event")


async def test_a_completed_batch_is_announced(each_site, receiver):
    secret = (await each_site.set(receiver.url))["secret"]
    async with each_site.sending():
        batch_id = await each_site.ended()
        (post,) = await receiver.count(1)
        event = await each_site.event("delivered")
    body = standardwebhooks.Webhook(secret).verify(post.body, post.headers)
    assert body == {
        "id": event["id"], "object": "event", "type": "batch.completed", "created_at": event["created_at"], "data": {"id": batch_id},
    }  # fmt: skip
    assert post.headers["webhook-id"] == event["id"]
    assert post.headers["content-type"] == "application/json"
    assert post.path == "/hook?of=ada"
    (attempt,) = event["attempts"]
    assert (attempt["status_code"], attempt["error"], event["next_attempt_at"]) == (204, None, None)


async def cancelled(site):
    batch = await site.create()
    await site.call("POST", f"/v1/batches/{batch['id']}/cancel")
    return batch["id"]


async def expired(site):
    batch = await site.create()
    site.clock.advance(86400)
    await site.context.store.write(ending.expire, batch["id"], site.context.policy)
    await site.become()
    return batch["id"]


async def failed(site):
    batch = await site.create()
    await site.context.store.write(
        ending.fail, batch["id"], "owner_unauthorized", "The key was revoked", site.context.policy
    )
    return batch["id"]


@pytest.mark.parametrize("end", [cancelled, expired, failed])
async def test_every_way_to_end(each_site, receiver, end):
    await each_site.set(receiver.url)
    batch_id = await end(each_site)
    async with each_site.sending():
        (post,) = await receiver.count(1)
    assert (post.event["type"], post.event["data"]) == (f"batch.{end.__name__}", {"id": batch_id})
    assert EVENT.problem(post.event) is None


async def test_an_api_may_have_its_own_name_for_it(site, receiver):
    site.context.event_names["batches"] = "job.{status}"
    await site.set(receiver.url)
    async with site.sending():
        await site.ended()
        assert (await receiver.count(1))[0].event["type"] == "job.completed"


async def test_the_results_can_be_read_when_the_event_comes(each_site):
    seen = []

    async def fetch(post):
        batch_id = post.event["data"]["id"]
        seen.append((await each_site.get(batch_id))["status"])
        seen.append(len((await each_site.call("GET", f"/v1/batches/{batch_id}/results")).json()["data"]))
        await post.reply()

    async with receiving(fetch) as receiver:
        await each_site.set(receiver.url)
        async with each_site.sending():
            await each_site.ended()
            await each_site.event("delivered")
    assert seen == ["completed", 2]


async def test_the_end_and_its_event_are_stored_together_or_not_at_all(each_site):
    def broken(batch):
        yield from ()
        raise StoreError("the other plugin failed")

    await each_site.set("http://127.0.0.1:9/")
    batch = await each_site.create()
    each_site.context.on_end.append(broken)
    with pytest.raises(StoreError):
        await each_site.run(batch["id"])
    assert (await each_site.get(batch["id"]))["status"] != "completed"
    assert await each_site.events() == []


async def test_nothing_of_the_batch_but_its_id_is_sent(site, receiver):
    await site.set(receiver.url)
    async with site.sending():
        batch = await site.create(metadata={"project": "secret-plan"})
        await site.run(batch["id"], b'{"choices":[{"message":{"content":"the answer"}}]}')
        (post,) = await receiver.count(1)
    assert set(post.event) == {"id", "object", "type", "created_at", "data"}
    assert post.event["data"] == {"id": batch["id"]}
    for word in ("secret-plan", "primes", "the answer", site.ada.secret):
        assert word not in str(post.headers) + post.body.decode()


async def test_an_error_and_then_success(each_site, receiver):
    receiver.behaviour = answers(500, 204)
    secret = (await each_site.set(receiver.url))["secret"]
    async with each_site.sending():
        await each_site.ended()
        await each_site.attempted(1)
        first, second = await receiver.count(2)
        event = await each_site.event("delivered")
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == event["id"]
    assert first.body == second.body
    for post in (first, second):
        standardwebhooks.Webhook(secret).verify(post.body, post.headers)
    assert [attempt["status_code"] for attempt in event["attempts"]] == [500, 204]


async def test_a_receiver_that_is_down_and_comes_up(site):
    async with receiving() as gone:
        port = gone.port
    await site.set(f"http://127.0.0.1:{port}/")
    async with site.sending():
        await site.ended()
        event = await site.attempted(1)
        assert (event["status"], event["attempts"][0]["error"]) == ("pending", "connection_failed")
        assert event["next_attempt_at"] is not None
        async with receiving(port=port) as up:
            await up.count(1)
            await site.event("delivered")


async def test_eight_attempts_in_all(site, receiver):
    receiver.behaviour = answers(500)
    await site.set(receiver.url)
    async with site.sending():
        await site.ended()
        for number in range(1, 9):
            await site.attempted(number)
        event = await site.event("failed")
    assert (len(event["attempts"]), event["next_attempt_at"], len(receiver.posts)) == (8, None, 8)


async def test_retry_after_is_waited_for(site, receiver):
    receiver.behaviour = answers((503, "retry-after: 7"), 204)
    await site.set(receiver.url)
    async with site.sending():
        await site.ended()
        now = site.clock.now
        event = await site.attempted(1)
        assert event["next_attempt_at"] == int(now + 7)
        site.clock.advance(5)
        assert len(receiver.posts) == 1
        site.clock.advance(1)
        await receiver.count(2)


async def test_410_disables_and_setting_it_again_enables(site, receiver):
    receiver.behaviour = answers(410)
    await site.set(receiver.url)
    async with site.sending():
        await site.ended()
        event = await site.event("abandoned")
        shown = await site.show()
        assert (shown["disabled_at"], shown["disabled_reason"]) == (
            int(site.clock.now),
            "The endpoint answered 410 Gone",
        )
        path = f"/v1/batch_webhook/events/{event['id']}/redeliver"
        answer = await site.call("POST", path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "batch_webhook_disabled")
        await site.ended()
        assert (await site.events())[0]["status"] == "abandoned"
        receiver.behaviour = accept
        assert (await site.set(receiver.url))["disabled_at"] is None
        await site.ended()
        await site.event("delivered")
        assert len(receiver.posts) == 2
        assert (await site.call("POST", path)).status_code == 200
        await receiver.count(3)


async def test_after_a_rotation_the_old_secret_verifies_for_a_day(site, receiver):
    old = (await site.set(receiver.url))["secret"]
    new = (await site.set(receiver.url, rotate_secret=True))["secret"]
    async with site.sending():
        await site.ended()
        (post,) = await receiver.count(1)
    for secret in (old, new):
        standardwebhooks.Webhook(secret).verify(post.body, post.headers)


async def test_one_that_hangs_holds_up_nobody(each_site):
    """Nothing is ever answered by it, and yet all others have theirs."""
    others = [await each_site.owner(f"o{number}") for number in range(10)]
    async with receiving(hang) as dead, receiving() as alive:
        await each_site.set(dead.url)
        for _ in range(20):
            await each_site.ended()
        each_site.settings(concurrency=8, endpoint_concurrency=4, timeout_s=600)
        async with each_site.sending():
            await dead.count(4)
            for other in others:
                await each_site.set(alive.url, by=other)
                await each_site.run((await each_site.create(by=other))["id"])
            await alive.count(10)
            assert len(dead.posts) == 4
            await alive.count(10)


async def test_several_daemons_share_the_work(each_site, receiver):
    """Each event is sent once, although all of them look all the time."""
    each_site.settings(endpoint_concurrency=50)
    await each_site.set(receiver.url)
    ids = [await each_site.ended() for _ in range(40)]
    async with trio.open_nursery() as nursery:
        for _ in range(4):
            context = copy.copy(each_site.context)
            daemon = await each_site.become()
            context.daemon = lambda daemon=daemon: daemon
            await nursery.start(Sender(context).run)
        await receiver.count(40)
        await each_site.event("delivered")
        nursery.cancel_scope.cancel()
    assert sorted(post.event["data"]["id"] for post in receiver.posts) == sorted(ids)


async def test_a_delivery_that_is_cut_is_made_again(each_site, receiver):
    receiver.behaviour = hang
    await each_site.set(receiver.url)
    await each_site.ended()
    async with each_site.sending():
        await receiver.count(1)
    receiver.behaviour = accept
    async with each_site.sending():
        first, second = await receiver.count(2)
        event = await each_site.event("delivered")
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert len(event["attempts"]) == 1


class Complaints:
    """A log that counts its warnings; `enough` is set at the third."""

    def __init__(self):
        self.warnings = []
        self.enough = trio.Event()

    def warning(self, what, **_):
        self.warnings.append(what)
        if len(self.warnings) == 3:
            self.enough.set()

    def info(self, what, **_):
        pass


async def test_the_store_goes_away_meanwhile(site, monkeypatch):
    """What was sent is recorded once the store is back, and not sent again."""

    async def cut(post):
        site.store.down = True
        await post.reply()

    async with receiving(cut) as receiver:
        await site.set(receiver.url)
        await site.ended()
        async with site.sending():
            complaints = Complaints()
            monkeypatch.setattr(reporter, "log", complaints)
            monkeypatch.setattr(reporter, "AGAIN_S", 0.01)
            await complaints.enough.wait()
            site.store.down = False
            event = await site.event("delivered")
    assert set(complaints.warnings) == {"webhook attempts cannot be recorded"}
    assert (len(receiver.posts), len(event["attempts"])) == (1, 1)


async def test_the_log_says_what_happened_and_holds_no_secret(site, receiver):
    receiver.behaviour = answers(500, 410)
    secret = (await site.set(f"{receiver.url}&token=s3cret"))["secret"]
    with structlog.testing.capture_logs() as logs:
        async with site.sending():
            await site.ended()
            await site.attempted(1)
            await site.event("abandoned")
            await receiver.count(2)
    said = [entry["event"] for entry in logs if entry["event"].startswith("webhook")]
    assert said == ["webhook attempt failed", "webhook not delivered"]
    for word in ("s3cret", secret, site.ada.secret, receiver.url):
        assert word not in json.dumps(logs, default=str)


@pytest.mark.parametrize("allowed", [True, False])
async def test_private_addresses_are_warned_of_at_start(site, allowed):
    site.settings(allow_private_addresses=allowed)
    with structlog.testing.capture_logs() as logs:
        async with site.sending():
            pass
    loud = [entry for entry in logs if entry["log_level"] == "warning" and "PRIVATE ADDRESSES" in entry["event"]]
    assert len(loud) == allowed
