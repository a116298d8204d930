"""`/v1/batch_webhook`: set, show, remove, rotate; what is refused; its events and tests."""

import json
import re

import hostile
import pytest
import standardwebhooks
import trio
from fibatchd_plugins.webhooks.housekeeping import Housekeeping
from fibatchd_plugins.webhooks.resolving import Resolver
from site_webhooks import answers, hang, receiving

from fibatchd.inference.schema import load_schema
from fibatchd.store import accounts

SECRET = re.compile(r"whsec_[A-Za-z0-9+/]{32}")
FIELDS = {"object", "url", "created_at", "updated_at", "disabled_at", "disabled_reason"}


def resolving_to(monkeypatch, answer):
    """Have all names resolve so."""

    async def resolve(self, host):
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(Resolver, "__call__", resolve)


def refused(answer, status, code, message, param=None):
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (status, code, param)
    assert message in error["message"]


class TestSetting:
    async def test_the_secret_is_shown_once(self, each_site):
        first = await each_site.set("http://127.0.0.1:9/a")
        assert set(first) == FIELDS | {"secret"}
        assert SECRET.fullmatch(first["secret"])
        assert first["object"] == "batch_webhook"
        assert first["created_at"] == first["updated_at"] == int(each_site.clock.now)
        assert (first["disabled_at"], first["disabled_reason"]) == (None, None)
        del first["secret"]
        assert await each_site.show() == first

    async def test_changing_the_url_keeps_the_secret(self, each_site):
        first = await each_site.set("http://127.0.0.1:9/a")
        created = int(each_site.clock.now)
        each_site.clock.advance(10)
        second = await each_site.set("http://127.0.0.1:9/b", rotate_secret=False)
        assert (second["url"], second["created_at"], second["updated_at"]) == (
            "http://127.0.0.1:9/b",
            created,
            created + 10,
        )
        assert "secret" not in second
        third = await each_site.set("http://127.0.0.1:9/b", rotate_secret=True)
        assert SECRET.fullmatch(third["secret"])
        assert third["secret"] != first["secret"]

    async def test_removed_and_set_again_it_has_a_new_secret(self, each_site):
        first = await each_site.set("http://127.0.0.1:9/")
        answer = await each_site.call("DELETE", "/v1/batch_webhook")
        assert (answer.status_code, answer.json()) == (200, {"object": "batch_webhook.deleted", "deleted": True})
        for method in ("GET", "DELETE"):
            refused(
                await each_site.call(method, "/v1/batch_webhook"),
                404,
                "batch_webhook_not_found",
                "No batch webhook is set",
            )
        assert (await each_site.set("http://127.0.0.1:9/"))["secret"] != first["secret"]

    async def test_two_that_are_set_at_once_share_one_secret(self, each_site):
        made = []

        async def put():
            made.append(await each_site.set("http://127.0.0.1:9/"))

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(put)
        assert len([one for one in made if "secret" in one]) == 1

    async def test_accounts_have_their_own(self, each_site):
        bob = await each_site.owner("bob", "free")
        await each_site.set("http://127.0.0.1:9/ada")
        await each_site.set("http://127.0.0.1:9/bob", by=bob)
        assert (await each_site.show())["url"] == "http://127.0.0.1:9/ada"
        await each_site.call("DELETE", "/v1/batch_webhook", by=bob)
        assert (await each_site.show())["url"] == "http://127.0.0.1:9/ada"

    async def test_null_is_absent(self, site):
        assert "secret" in await site.set("http://127.0.0.1:9/", rotate_secret=None)

    async def test_the_extension_is_off(self, site, receiver):
        await site.set(receiver.url)
        site.switch(False)
        refused(await site.put(receiver.url), 400, "batch_webhooks_disabled", "Batch webhooks are not enabled")
        assert (await site.show())["url"] == receiver.url
        async with site.sending():
            await site.ended()
            await receiver.count(1)
            event = await site.event("delivered")
            path = f"/v1/batch_webhook/events/{event['id']}/redeliver"
            assert (await site.call("POST", path)).status_code == 200
            await receiver.count(2)
        assert (await site.call("POST", "/v1/batch_webhook/test")).json()["status"] == "delivered"
        assert (await site.call("DELETE", "/v1/batch_webhook")).status_code == 200


@pytest.fixture
async def strict(site):
    """Where private addresses are refused, as they are by default."""
    site.settings(allow_private_addresses=False)
    return site


class TestRefused:
    @pytest.mark.parametrize(
        ("body", "code", "param"),
        [
            ({}, "missing_required_parameter", "url"),
            ({"url": None}, "missing_required_parameter", "url"),
            ({"url": 7}, "invalid_type", "url"),
            ({"url": ["https://example.com/"]}, "invalid_type", "url"),
            ({"url": "https://example.com/", "rotate_secret": "yes"}, "invalid_type", "rotate_secret"),
            ({"url": "https://example.com/", "rotate_secret": 1}, "invalid_type", "rotate_secret"),
            ({"url": "https://example.com/", "events": []}, "unknown_parameter", "events"),
        ],
    )
    async def test_a_body_of_another_form(self, strict, body, code, param):
        refused(await strict.call("PUT", "/v1/batch_webhook", json=body), 400, code, param, param)

    @pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"url": "\xff"}', b'"https://example.com/"'])
    async def test_no_json_object(self, strict, content):
        refused(
            await strict.call("PUT", "/v1/batch_webhook", content=content), 400, "invalid_json", "The body is refused"
        )

    async def test_a_member_twice(self, strict):
        content = b'{"url": "https://example.com/", "url": "https://127.0.0.1/"}'
        refused(
            await strict.call("PUT", "/v1/batch_webhook", content=content), 400, "invalid_value", "occurs twice", "url"
        )

    async def test_a_body_too_large(self, strict):
        answer = await strict.call("PUT", "/v1/batch_webhook", content=b" " * 20_000 + b"{}")
        assert answer.status_code == 413

    @pytest.mark.parametrize(("url", "why"), hostile.EXAMPLES)
    async def test_a_url_that_leads_elsewhere(self, strict, url, why):
        refused(
            await strict.call("PUT", "/v1/batch_webhook", content=json.dumps({"url": url})),
            400,
            "invalid_webhook_url",
            why,
            "url",
        )
        assert (await strict.call("GET", "/v1/batch_webhook")).status_code == 404

    @pytest.mark.parametrize(
        ("found", "kind"),
        [
            (["10.0.0.5"], "a private address"),
            (["127.0.0.1"], "a loopback address"),
            (["169.254.169.254"], "a link-local address"),
            (["93.184.215.14", "::1"], "a loopback address"),
            (["100.64.0.1"], "carrier-grade NAT"),
        ],
    )
    async def test_a_name_that_resolves_to_something_not_public(self, strict, monkeypatch, found, kind):
        resolving_to(monkeypatch, found)
        answer = await strict.put("https://hooks.example.com/")
        refused(answer, 400, "invalid_webhook_url", f"resolves to {kind}" if "NAT" not in kind else kind, "url")
        assert not any(address in answer.text for address in found)  # what our resolver knows is not for everyone

    @pytest.mark.parametrize("answer", [["93.184.215.14"], OSError("no such name"), []])
    async def test_a_public_name_and_one_that_does_not_resolve_are_taken(self, strict, monkeypatch, answer):
        resolving_to(monkeypatch, answer)
        await strict.set("https://hooks.example.com/")


class TestEvents:
    async def test_newest_first_page_by_page(self, each_site):
        await each_site.set("http://127.0.0.1:9/")
        ids = [await each_site.ended() for _ in range(5)]
        page = (await each_site.call("GET", "/v1/batch_webhook/events", params={"limit": 2})).json()
        assert [event["data"]["id"] for event in page["data"]] == [ids[4], ids[3]]
        assert (page["object"], page["has_more"]) == ("list", True)
        assert (page["first_id"], page["last_id"]) == (page["data"][0]["id"], page["data"][1]["id"])
        rest = (await each_site.call("GET", "/v1/batch_webhook/events", params={"after": page["last_id"]})).json()
        assert [event["data"]["id"] for event in rest["data"]] == ids[2::-1]
        assert rest["has_more"] is False

    async def test_one_that_waits(self, each_site):
        await each_site.set("http://127.0.0.1:9/")
        batch_id = await each_site.ended()
        (event,) = await each_site.events()
        now = int(each_site.clock.now)
        assert event == {
            "id": event["id"], "object": "event", "type": "batch.completed", "created_at": now, "data": {"id": batch_id},
            "status": "pending", "attempts": [], "next_attempt_at": now,
        }  # fmt: skip
        assert re.fullmatch(r"evt_[0-9a-f]{32}", event["id"])

    async def test_without_a_webhook_there_are_none(self, each_site):
        await each_site.ended()
        assert await each_site.events() == []

    async def test_another_accounts_are_not_shown(self, site):
        await site.set("http://127.0.0.1:9/")
        await site.ended()
        (event,) = await site.events()
        bob = await site.owner("bob")
        await site.set("http://127.0.0.1:9/", by=bob)
        assert (await site.call("GET", "/v1/batch_webhook/events", by=bob)).json()["data"] == []
        path = f"/v1/batch_webhook/events/{event['id']}/redeliver"
        refused(await site.call("POST", path, by=bob), 404, "event_not_found", "There is no event")

    @pytest.mark.parametrize(
        ("query", "param"),
        [
            ({"limit": 0}, "limit"),
            ({"limit": 101}, "limit"),
            ({"after": "batch_1"}, "after"),
            ({"after": "evt_"}, "after"),
        ],
    )
    async def test_a_query_of_another_form(self, site, query, param):
        answer = await site.call("GET", "/v1/batch_webhook/events", params=query)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)

    async def test_a_cursor_is_compared_not_looked_up(self, site):
        await site.set("http://127.0.0.1:9/")
        await site.ended()
        assert len(await site.events(after="evt_" + "f" * 32)) == 1
        assert await site.events(after="evt_" + "0" * 32) == []


class TestRedelivery:
    async def test_once_more_by_the_same_id(self, each_site, receiver):
        await each_site.set(receiver.url)
        async with each_site.sending():
            await each_site.ended()
            event = await each_site.event("delivered")
            answer = await each_site.call("POST", f"/v1/batch_webhook/events/{event['id']}/redeliver")
            assert answer.json()["status"] == "pending"
            await receiver.count(2)
            again = await each_site.attempted(2)
        assert [post.headers["webhook-id"] for post in receiver.posts] == [event["id"]] * 2
        assert (again["id"], again["status"], len(again["attempts"])) == (event["id"], "delivered", 2)

    async def test_one_that_failed_has_all_its_attempts_again(self, each_site, receiver):
        each_site.settings(max_attempts=2, retry_base_s=0.001)
        receiver.behaviour = answers(500)
        await each_site.set(receiver.url)
        async with each_site.sending():
            await each_site.ended()
            await each_site.attempted(1)
            event = await each_site.event("failed")
            await each_site.call("POST", f"/v1/batch_webhook/events/{event['id']}/redeliver")
            await each_site.attempted(3)
            event = await each_site.event("failed")
        assert [attempt["status_code"] for attempt in event["attempts"]] == [500] * 4

    async def test_refused(self, site):
        path = "/v1/batch_webhook/events/evt_" + "0" * 32 + "/redeliver"
        refused(await site.call("POST", path), 404, "batch_webhook_not_found", "No batch webhook is set")
        await site.set("http://127.0.0.1:9/")
        for event_id in ("evt_" + "0" * 32, "evt_1", "x"):
            answer = await site.call("POST", f"/v1/batch_webhook/events/{event_id}/redeliver")
            refused(answer, 404, "event_not_found", "There is no event with this ID")


class TestTest:
    async def test_it_is_sent_at_once_and_tells_what_happened(self, each_site, receiver):
        secret = (await each_site.set(receiver.url))["secret"]
        answer = await each_site.call("POST", "/v1/batch_webhook/test")
        event = answer.json()
        assert (answer.status_code, event["type"], event["status"], event["next_attempt_at"]) == (
            200,
            "batch_webhook.test",
            "delivered",
            None,
        )
        (attempt,) = event["attempts"]
        assert (attempt["status_code"], attempt["error"]) == (204, None)
        (post,) = receiver.posts
        body = standardwebhooks.Webhook(secret).verify(post.body, post.headers)
        assert body == {
            "id": event["id"],
            "object": "event",
            "type": "batch_webhook.test",
            "created_at": event["created_at"],
            "data": {},
        }
        assert load_schema("webhook_event").problem(body) is None
        assert await each_site.events() == [event]

    @pytest.mark.parametrize(("status", "error"), [(500, None), (302, None), (None, "connection_failed")])
    async def test_a_failure_is_told_and_not_tried_again(self, site, receiver, status, error):
        receiver.behaviour = answers(status or 204)
        await site.set(receiver.url if status else "http://127.0.0.1:1/")
        event = (await site.call("POST", "/v1/batch_webhook/test")).json()
        assert (event["status"], event["next_attempt_at"]) == ("failed", None)
        assert [(attempt["status_code"], attempt["error"]) for attempt in event["attempts"]] == [(status, error)]
        async with site.sending():
            assert [one["status"] for one in await site.events()] == ["failed"]

    async def test_410_disables(self, site, receiver):
        receiver.behaviour = answers(410)
        await site.set(receiver.url)
        await site.call("POST", "/v1/batch_webhook/test")
        assert (await site.show())["disabled_reason"] == "The endpoint answered 410 Gone"

    async def test_one_at_a_time(self, site):
        async with receiving(hang) as receiver:
            site.settings(timeout_s=600)
            await site.set(receiver.url)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(site.call, "POST", "/v1/batch_webhook/test")
                await receiver.count(1)
                answer = await site.call("POST", "/v1/batch_webhook/test")
                refused(answer, 429, "concurrency_limit_exceeded", "A test of this webhook is running already")
                assert answer.headers["retry-after"] == "1"
                await receiver.posts[0].reply()
        assert len(await site.events()) == 1

    async def test_there_is_none(self, site):
        refused(
            await site.call("POST", "/v1/batch_webhook/test"), 404, "batch_webhook_not_found", "No batch webhook is set"
        )


class TestAccounts:
    async def test_a_deleted_accounts_webhook_and_events_are_erased(self, each_site):
        bob = await each_site.owner("bob")
        for who in (bob, each_site.ada):
            await each_site.set("http://127.0.0.1:9/", by=who)
            await each_site.run((await each_site.create(by=who))["id"])
        await each_site.call("POST", "/v1/batch_webhook/test", by=bob)
        await each_site.context.store.write(accounts.delete_account, bob.account.id)
        await Housekeeping(each_site.context).sweep()
        left = await each_site.rows(
            "SELECT account_id FROM webhooks UNION ALL SELECT account_id FROM webhook_events UNION ALL "
            "SELECT 'an attempt' FROM webhook_attempts"
        )
        assert left == [(each_site.ada.account.id,)] * 2
