"""`/v1/batch_webhook`: set, show, remove; its events; a test. Only setting asks for the extension's switch, and none asks
for batch access: whose account had it once may still be told of its batches."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import structlog
import trio
from quart import Blueprint, Response, request

from fibatchd.plugin_api import ApiError, caller, front, is_id, list_object, paging, rawjson, read_body, read_fields

from . import outbox, registry
from .delivery import NotPublic, attempt, public_addresses
from .outbox import Attempt, Event
from .registry import Webhook
from .resolving import Resolve, Resolver
from .settings import TABLE, Settings
from .target import UrlRefused, read_url

LONGEST_BODY = 16384
RESOLVE_S = 5.0
MEMBERS = frozenset({"url", "rotate_secret"})

log = structlog.get_logger(__name__)


def blueprint(resolve: Resolve | None = None) -> Blueprint:
    """Return the routes. `resolve` stands in for the system's resolver."""
    routes = Blueprint("batch_webhook", __name__)
    views = Views(resolve or Resolver())
    routes.put("/v1/batch_webhook")(views.put)
    routes.get("/v1/batch_webhook")(views.show)
    routes.delete("/v1/batch_webhook")(views.delete)
    routes.get("/v1/batch_webhook/events")(views.events)
    routes.post("/v1/batch_webhook/events/<event_id>/redeliver")(views.redeliver)
    routes.post("/v1/batch_webhook/test")(views.test)
    return routes


class Views:
    """The views, and the resolver that they share."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._testing: set[str] = set()

    async def put(self) -> Response:
        """Set the account's webhook, change its URL, rotate its secret."""
        context = front().context
        if not context.config.is_on(TABLE):
            raise ApiError(400, "Batch webhooks are not enabled", code="batch_webhooks_disabled")
        url, rotate = read_call(await read_body(request, LONGEST_BODY))
        await self._check(url, Settings.of(context.config))
        account_id = caller().account.id
        webhook, secret = await context.store.write(registry.put, account_id, url, rotate=rotate)
        log.info("webhook set", account=account_id, rotated=rotate)
        return answer(webhook_object(webhook) | ({"secret": secret} if secret is not None else {}))

    async def show(self) -> Response:
        """Return the account's webhook."""
        return answer(webhook_object(await find_webhook()))

    async def delete(self) -> Response:
        """Remove the account's webhook."""
        account_id = caller().account.id
        if not await front().context.store.write(registry.delete, account_id):
            raise no_webhook()
        log.info("webhook removed", account=account_id)
        return answer({"object": "batch_webhook.deleted", "deleted": True})

    async def events(self) -> Response:
        """Return a page of the account's events, newest first."""
        limit = paging.limit(20, 100)
        after = paging.id_cursor("after", outbox.PREFIX)
        found, attempts, has_more = await front().context.store.read(
            outbox.page, caller().account.id, after=after, limit=limit
        )
        items = [msgspec.json.encode(event_object(event, attempts[event.id])) for event in found]
        page = list_object(items, [event.id for event in found], has_more=has_more)
        return Response(page, content_type="application/json")

    async def redeliver(self, event_id: str) -> Response:
        """Have an event delivered again, and return it as it is now."""
        store = front().context.store
        if (await find_webhook()).disabled_at is not None:
            message = "The webhook is disabled; enable it by setting it again"
            raise ApiError(409, message, code="batch_webhook_disabled", retry=False)
        event = None
        if is_id(event_id, outbox.PREFIX):
            event = await store.write(outbox.redeliver, caller().account.id, event_id)
        if event is None:
            raise ApiError(404, "There is no event with this ID", code="event_not_found")
        attempts = await store.read(outbox.attempts_of, [event_id])
        return answer(event_object(event, attempts[event_id]))

    async def test(self) -> Response:
        """Send an event made up for the purpose, once, and return it with what came of it."""
        webhook = await find_webhook()
        if webhook.account_id in self._testing:
            message = "A test of this webhook is running already; wait for its answer"
            raise ApiError(429, message, code="concurrency_limit_exceeded", retry_after=1)
        self._testing.add(webhook.account_id)
        try:
            context = front().context
            event = outbox.test_event(webhook.account_id, time.time())
            done = await attempt(webhook, event, Settings.of(context.config), self._resolve)
            event = await context.store.write(outbox.record_test, webhook, event, done)
        finally:
            self._testing.discard(webhook.account_id)
        return answer(event_object(event, [done]))

    async def _check(self, url: str, settings: Settings) -> None:
        """ApiError 400 for a URL that webhooks must not go to. One whose name does not resolve may do so later."""
        allow_private = settings.allow_private_addresses
        try:
            target = read_url(url, allow_private=allow_private)
            with trio.move_on_after(RESOLVE_S):
                await public_addresses(target, self._resolve, allow_private=allow_private)
        except UrlRefused as refused:
            raise bad_url(str(refused)) from None
        except NotPublic as found:
            raise bad_url(f"the host resolves to {found.kind}; webhooks go to public addresses only") from None
        except OSError:
            return


def read_call(body: bytes) -> tuple[str, bool]:
    """Return the URL, and whether the secret is to be rotated. Raises ApiError 400, InvalidJson."""
    values = {name: rawjson.decode(raw) for name, raw in read_fields(body, MEMBERS).items()}
    url, rotate = values.get("url"), values.get("rotate_secret")
    if url is None:
        message = "url: missing, a webhook needs an address to call"
        raise ApiError(400, message, code="missing_required_parameter", param="url")
    if not isinstance(url, str):
        raise ApiError(400, "url: expected a string", code="invalid_type", param="url")
    if rotate is not None and not isinstance(rotate, bool):
        raise ApiError(400, "rotate_secret: expected true or false", code="invalid_type", param="rotate_secret")
    return url, bool(rotate)


async def find_webhook() -> Webhook:
    """Return the caller's webhook. ApiError 404 where none is set."""
    webhook = await front().context.store.read(registry.get, caller().account.id)
    if webhook is None:
        raise no_webhook()
    return webhook


def no_webhook() -> ApiError:
    """Return the answer where no webhook is set."""
    return ApiError(404, "No batch webhook is set", code="batch_webhook_not_found")


def bad_url(why: str) -> ApiError:
    """Return the refusal of a URL."""
    return ApiError(400, f"url: {why}", code="invalid_webhook_url", param="url")


def answer(value: Mapping[str, Any]) -> Response:
    """Answer with an object."""
    return Response(msgspec.json.encode(value), content_type="application/json")


def webhook_object(webhook: Webhook) -> dict[str, Any]:
    """Return a webhook as the API shows it, without its secrets."""
    return {
        "object": "batch_webhook",
        "url": webhook.url,
        "created_at": int(webhook.created_at),
        "updated_at": int(webhook.updated_at),
        "disabled_at": _seconds(webhook.disabled_at),
        "disabled_reason": webhook.disabled_reason,
    }


def event_object(event: Event, attempts: Sequence[Attempt]) -> dict[str, Any]:
    """Return an event as the API lists it: what is sent, and what came of it so far."""
    return {
        "id": event.id,
        "object": "event",
        "type": event.type,
        "created_at": int(event.created_at),
        "data": msgspec.Raw(event.data.encode()),
        "status": event.status,
        "attempts": [
            {"at": int(a.at), "status_code": a.status_code, "error": a.error, "duration_ms": a.duration_ms}
            for a in attempts
        ],
        "next_attempt_at": _seconds(event.due_at),
    }


def _seconds(moment: float | None) -> int | None:
    return None if moment is None else int(moment)
