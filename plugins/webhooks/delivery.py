"""One attempt at a delivery: resolve the name, judge every address, connect to one of those, send, read the status.

The request is addressed to the IP address that was judged, and the name goes along for TLS (SNI and certificate) and the
`Host` header; nothing resolves the name a second time, which is what DNS rebinding lives on. Every attempt has a
connection of its own. Below httpx2's client there are no redirects, no cookies and no proxies from the environment.
"""

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import httpx2
import structlog
import trio

from fibatchd.plugin_api import retry_after

from . import addresses, signing
from .outbox import Attempt, Event
from .registry import Webhook
from .resolving import Resolve
from .settings import Settings
from .target import Target, UrlRefused, read_url

CONNECT_S = 5.0
"""One address may take so long before the next is tried."""
MOST_ADDRESSES = 4
MOST_ANSWER_BYTES = 4096
ANSWER_S = 1.0
"""The status says all; an answer's body is taken in for as long as this, so that an honest receiver is not cut off."""

URL_REFUSED = "url_refused"
NOT_RESOLVED = "name_not_resolved"
NOT_PUBLIC = "address_not_public"
NOT_CONNECTED = "connection_failed"
TLS_FAILED = "tls_failed"
BROKEN = "connection_lost"
TIMED_OUT = "timeout"
INTERNAL = "internal_error"

log = structlog.get_logger(__name__)


class AttemptFailed(Exception):
    """There was no answer; `error` is the class that the event's attempts show. It does not leave this module."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


class NotPublic(Exception):
    """A name has an address that is not public; `kind` is what it is, such as "a private address"."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


@cache
def system_trust() -> ssl.SSLContext:
    """Return the TLS settings of deliveries: the system's certificates, names checked. Loading them takes some time."""
    return ssl.create_default_context()


@dataclass(slots=True)
class Answer:
    """What is known of an answer so far. Once it has a status, nothing that happens later matters."""

    status_code: int | None = None
    retry_after: float | None = None


async def attempt(
    webhook: Webhook, event: Event, settings: Settings, resolve: Resolve, trust: ssl.SSLContext | None = None
) -> Attempt:
    """Send an event to a webhook once, signed for this moment, and return what came of it. Raises nothing.

    `trust` are the certificates that count; None: the system's.
    """
    at, began = time.time(), trio.current_time()
    answer, error = Answer(), None
    body = event.body()
    headers = signing.headers(webhook.ring, event.id, body, at)
    try:
        with trio.fail_after(settings.timeout_s):
            target, found = await _judged(webhook.url, settings, resolve)
            await _send(target, found, headers, body, trust or system_trust(), answer)
    except trio.TooSlowError:
        error = TIMED_OUT
    except AttemptFailed as failure:
        error = failure.error
    except Exception:
        # Whatever it was, it is this event's alone: the others must go on, and this one has its attempts.
        log.exception("webhook attempt broke", event_id=event.id)
        error = INTERNAL
    if answer.status_code is not None:
        error = None
    return Attempt(at, answer.status_code, error, round((trio.current_time() - began) * 1000), answer.retry_after)


async def public_addresses(target: Target, resolve: Resolve, *, allow_private: bool) -> list[str]:
    """Return the addresses of a target's host. OSError: it has none; NotPublic: one of them is not public."""
    found = [target.host] if target.is_address else await resolve(target.host)
    if not found:
        raise OSError("the name has no address")
    if not allow_private:
        for address in found:
            if (kind := addresses.refusal(address)) is not None:
                raise NotPublic(kind)
    return found


async def _judged(url: str, settings: Settings, resolve: Resolve) -> tuple[Target, list[str]]:
    """Return where a webhook's URL leads to, and its addresses, all of which may be called. Raises AttemptFailed."""
    allow_private = settings.allow_private_addresses
    try:
        target = read_url(url, allow_private=allow_private)
        return target, await public_addresses(target, resolve, allow_private=allow_private)
    except UrlRefused:  # the rules may have changed since it was set
        raise AttemptFailed(URL_REFUSED) from None
    except OSError:
        raise AttemptFailed(NOT_RESOLVED) from None
    except NotPublic:
        raise AttemptFailed(NOT_PUBLIC) from None


async def _send(
    target: Target, found: list[str], headers: Mapping[str, str], body: bytes, trust: ssl.SSLContext, answer: Answer
) -> None:
    """Send the request to the first of the addresses that can be connected to. Raises AttemptFailed."""
    failure = NOT_CONNECTED
    for address in found[:MOST_ADDRESSES]:
        try:
            await _post(_request(target, address, headers, body), trust, answer)
            return
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            failure = TLS_FAILED if _is_of_tls(error) else NOT_CONNECTED
        except httpx2.TransportError:
            raise AttemptFailed(BROKEN) from None
    raise AttemptFailed(failure)


def _request(target: Target, address: str, headers: Mapping[str, str], body: bytes) -> httpx2.Request:
    """Return a request to an address by the name of the host."""
    scheme = "https" if target.tls else "http"
    return httpx2.Request(
        "POST",
        httpx2.URL(scheme=scheme, host=address, port=target.port, raw_path=target.path.encode()),
        headers={
            "host": target.authority,
            "user-agent": "fibatchd-webhooks/1",
            "content-type": "application/json",
            "connection": "close",
            **headers,
        },
        content=body,
        extensions={"timeout": {"connect": CONNECT_S}, "sni_hostname": target.host},
    )


async def _post(request: httpx2.Request, trust: ssl.SSLContext, answer: Answer) -> None:
    async with httpx2.AsyncHTTPTransport(verify=trust, trust_env=False, http2=False) as transport:
        response = await transport.handle_async_request(request)
        answer.status_code = response.status_code
        if (asked := response.headers.get("retry-after")) is not None:
            answer.retry_after = retry_after(asked.encode(), time.time())
        try:
            await _take_in(response)
        finally:
            await response.aclose()


async def _take_in(response: httpx2.Response) -> None:
    """Read an answer's body, up to a bound in size and time; how it ends makes no difference."""
    received = 0
    with trio.move_on_after(ANSWER_S) as scope:
        try:
            async for part in response.aiter_raw():
                received += len(part)
                if received >= MOST_ANSWER_BYTES:
                    # Not a return: the generators below are closed only by what they wait for being over.
                    scope.cancel()
        except httpx2.TransportError:
            return


def _is_of_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False
