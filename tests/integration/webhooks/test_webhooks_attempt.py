"""One attempt: which address is called, by which name, and what is made of every kind of answer."""

import ssl

import pytest
import standardwebhooks
import trio
import trustme
from fibatchd_plugins.webhooks import delivery, outbox
from fibatchd_plugins.webhooks.registry import Webhook
from fibatchd_plugins.webhooks.settings import Settings
from fibatchd_plugins.webhooks.signing import new_secret
from internet import OTHER, PUBLIC, PUBLIC_V6, Names, internet
from site_webhooks import answers, hang, receiving

HOST = "hooks.example.com"
URL = f"https://{HOST}:8443/path?x=1"


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def trust(authority):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.fixture
def server_names():
    """What clients named in SNI."""
    return []


@pytest.fixture
def tls(authority, server_names):
    def build(*names):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*names).configure_cert(context)
        context.sni_callback = lambda _, name, __: server_names.append(name)
        return context

    return build


@pytest.fixture
async def net():
    return internet()


def webhook(url=URL):
    return Webhook("acct_1", url, (new_secret(),), 0, 0, None, None, False)


def event():
    return outbox.Event("evt_1", "acct_1", "batch.completed", 1793016000.7, '{"id":"batch_1"}', "pending", 0, 0, 0)


async def attempt(to, names, trust=None, **settings):
    return await delivery.attempt(to, event(), Settings(**settings), names, trust)


async def test_the_judged_address_is_called_by_the_name_of_the_host(net, tls, trust, server_names):
    async with receiving(tls=tls(HOST)) as receiver:
        net.routes[PUBLIC] = receiver.port
        to, names = webhook(), Names([PUBLIC])
        done = await attempt(to, names, trust)
    assert (done.status_code, done.error, done.delivered) == (204, None, True)
    assert net.connects == [(PUBLIC, 8443)]
    assert server_names == [HOST]
    (post,) = receiver.posts
    assert (post.path, post.headers["host"]) == ("/path?x=1", f"{HOST}:8443")
    assert standardwebhooks.Webhook(to.ring[0].text).verify(post.body, post.headers)["created_at"] == 1793016000


async def test_a_resolver_that_changes_its_answer(net, tls, trust):
    """DNS rebinding: public where it is judged, private where it would be connected to."""
    async with receiving(tls=tls(HOST)) as honest, receiving(tls=tls(HOST)) as inner:
        net.routes |= {PUBLIC: honest.port, "127.0.0.1": inner.port}
        names = Names([PUBLIC], ["127.0.0.1"])
        first = await attempt(webhook(), names, trust)
        second = await attempt(webhook(), names, trust)
    assert (first.delivered, second.error) == (True, delivery.NOT_PUBLIC)
    assert (len(honest.posts), len(inner.posts)) == (1, 0)
    assert names.asked == 2  # once an attempt
    assert net.lookups == []
    assert net.connects == [(PUBLIC, 8443)]


@pytest.mark.parametrize(
    "found", [["10.0.0.1"], [PUBLIC, "127.0.0.1"], ["::ffff:127.0.0.1"], [PUBLIC_V6, "fe80::1%eth0"]]
)
async def test_one_address_that_is_not_public_is_enough(net, found):
    done = await attempt(webhook(), Names(found))
    assert (done.status_code, done.error) == (None, delivery.NOT_PUBLIC)
    assert net.connects == []


async def test_proxies_of_the_environment_are_not_used(net, tls, trust, monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:3128")
    async with receiving(tls=tls(HOST)) as receiver:
        net.routes[PUBLIC] = receiver.port
        assert (await attempt(webhook(), Names([PUBLIC]), trust)).delivered
    assert net.connects == [(PUBLIC, 8443)]


async def test_the_next_address_where_one_cannot_be_connected_to(net, tls, trust):
    async with receiving(tls=tls(HOST)) as receiver:
        net.routes[OTHER] = receiver.port
        assert (await attempt(webhook(), Names([PUBLIC, OTHER]), trust)).delivered
    assert net.connects == [(PUBLIC, 8443), (OTHER, 8443)]


async def test_an_address_as_host(net, tls, trust, server_names):
    async with receiving(tls=tls(PUBLIC, PUBLIC_V6)) as receiver:
        net.routes |= {PUBLIC: receiver.port, PUBLIC_V6: receiver.port}
        assert (await attempt(webhook(f"https://{PUBLIC}/"), Names(), trust)).delivered
        assert (await attempt(webhook(f"https://[{PUBLIC_V6}]/"), Names(), trust)).delivered
    assert server_names == [None, None]
    assert [post.headers["host"] for post in receiver.posts] == [PUBLIC, f"[{PUBLIC_V6}]"]


@pytest.mark.parametrize(("name", "trusted"), [("other.example.com", True), (PUBLIC, True), (HOST, False)])
async def test_a_certificate_that_does_not_fit(net, tls, trust, name, trusted):
    """One for the address is not one for the name."""
    async with receiving(tls=tls(name)) as receiver:
        net.routes[PUBLIC] = receiver.port
        done = await attempt(webhook(), Names([PUBLIC]), trust if trusted else ssl.create_default_context())
    assert (done.status_code, done.error) == (None, delivery.TLS_FAILED)
    assert receiver.posts == []


async def test_nothing_there(net):
    assert (await attempt(webhook(), Names([PUBLIC]))).error == delivery.NOT_CONNECTED


@pytest.mark.parametrize("answer", [OSError("no such name"), []])
async def test_a_name_that_does_not_resolve(answer):
    assert (await attempt(webhook(), Names(answer))).error == delivery.NOT_RESOLVED


async def test_rules_that_changed_since_it_was_set(net):
    assert (await attempt(webhook("http://127.0.0.1:80/"), Names())).error == delivery.URL_REFUSED
    assert net.connects == []


async def to_local(behaviour, **settings):
    """The attempt at a local receiver, and the receiver."""
    async with receiving(behaviour) as receiver:
        done = await attempt(webhook(receiver.url), Names(), allow_private_addresses=True, **settings)
    return done, receiver


@pytest.mark.parametrize(
    ("status", "delivered"),
    [
        (200, True),
        (201, True),
        (204, True),
        (299, True),
        (300, False),
        (304, False),
        (400, False),
        (404, False),
        (410, False),
        (500, False),
        (503, False),
    ],
)
async def test_2xx_alone_is_success(status, delivered):
    done, _ = await to_local(answers(status))
    assert (done.status_code, done.error, done.delivered, done.gone) == (status, None, delivered, status == 410)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(status):
    async with receiving() as other:
        done, receiver = await to_local(answers((status, f"location: {other.url}")))
    assert (done.status_code, done.delivered) == (status, False)
    assert (len(receiver.posts), len(other.posts)) == (1, 0)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("120", 120), ("0", 0), ("soon", None), ("Thu, 01 Jan 1970 00:00:00 GMT", 0)],
)
async def test_retry_after(header, seconds):
    done, _ = await to_local(answers((503, f"retry-after: {header}")))
    assert done.retry_after == seconds


async def test_no_cookie_is_kept():
    done, receiver = await to_local(answers((200, "set-cookie: a=b")))
    assert done.delivered
    assert "cookie" not in receiver.posts[0].headers


async def test_a_resolver_that_hangs(autojump_clock):
    async def slow(host):
        await trio.sleep(20)
        raise AssertionError("the time was up before")

    done = await attempt(webhook(), slow)
    assert (done.error, done.duration_ms) == (delivery.TIMED_OUT, 15_000)


async def test_a_receiver_that_does_not_answer():
    done, receiver = await to_local(hang, timeout_s=0.2)
    assert (done.status_code, done.error, len(receiver.posts)) == (None, delivery.TIMED_OUT, 1)


async def test_an_endless_body_is_read_to_4_kib():
    sent = 0

    async def endless(post):
        nonlocal sent
        await post.stream.send_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            await post.stream.send_all(b"400\r\n" + b"x" * 1024 + b"\r\n")
            sent += 1024

    done, _ = await to_local(endless)
    assert done.delivered
    # What the receiver could send before it learned that nobody listens is what the kernel's buffers took.
    assert sent < 32 * 2**20


async def test_a_body_that_never_comes():
    """The status says all: what does not come after it holds up the next delivery for a moment at most."""

    async def stall(post):
        await post.stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n")
        await trio.sleep_forever()

    done, _ = await to_local(stall)
    assert (done.status_code, done.error) == (200, None)


async def test_a_status_that_comes_late_counts():
    async def late(post):
        await post.stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n")
        await trio.sleep_forever()

    done, _ = await to_local(late, timeout_s=0.5)
    assert (done.status_code, done.error) == (200, None)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"HTTP/1.1 abc\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nbroken\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000,
    ],
)
async def test_an_answer_that_is_not_http(text):
    async def say(post):
        await post.stream.send_all(text)

    done, _ = await to_local(say)
    assert (done.status_code, done.error) == (None, delivery.BROKEN)


async def test_a_bomb_is_not_unpacked():
    async def bomb(post):
        await post.reply(200, "content-encoding: gzip", body=b"\x1f\x8bnot gzip at all")

    done, _ = await to_local(bomb)
    assert done.delivered


async def test_a_fault_of_our_own_is_this_attempts_alone():
    async def broken(host):
        raise KeyError(host)

    assert (await attempt(webhook(), broken)).error == delivery.INTERNAL
