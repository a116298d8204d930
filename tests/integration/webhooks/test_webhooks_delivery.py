"""From a batch's end to a receiver, whatever the receiver does, on both stores."""

import standardwebhooks
from site_webhooks import answers


async def test_a_completed_batch_is_announced(each_site, receiver):
    secret = (await each_site.set(receiver.url))["secret"]
    async with each_site.sending():
        batch_id = await each_site.ended()
        (post,) = await receiver.count(1)
        event = await each_site.event("delivered")
    body = standardwebhooks.Webhook(secret).verify(post.body, post.headers)
    assert body == {
        "id": event["id"],
        "object": "event",
        "type": "batch.completed",
        "created_at": event["created_at"],
        "data": {"id": batch_id},
    }
    assert post.headers["webhook-id"] == event["id"]
    assert post.headers["content-type"] == "application/json"
    assert post.path == "/hook?of=ada"
    (attempt,) = event["attempts"]
    assert (attempt["status_code"], attempt["error"], event["next_attempt_at"]) == (204, None, None)


async def test_an_error_and_then_success(each_site, receiver):
    receiver.behaviour = answers(500, 204)
    await each_site.set(receiver.url)
    async with each_site.sending():
        await each_site.ended()
        await each_site.attempted(1)
        first, second = await receiver.count(2)
        event = await each_site.event("delivered")
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == event["id"]
    assert first.body == second.body
    assert [attempt["status_code"] for attempt in event["attempts"]] == [500, 204]
