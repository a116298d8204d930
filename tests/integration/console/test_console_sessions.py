"""Signing in to the console, what its cookie opens, and how a session ends."""

import re

import pytest
from api import chat
from site_console import ON, OWN_PAGE, SESSION, open_site

from fibatchd.domain.accounts import SUSPENDED, new_secret
from fibatchd.errors import StoreUnavailable
from fibatchd.store import accounts
from fibatchd.store.interface import Query

COOKIE = "fibatchd"
IDLE_S, MAX_S = 28800, 604800
BEHIND_A_PROXY = '[server]\ntrusted_proxies = ["127.0.0.1"]\n[extensions]\nconsole = true\n'


def rows(table):
    def script():
        return (yield Query(f"SELECT * FROM {table}"))

    return script


async def listed(site, **how):
    return (await site.browser.get("/v1/batches", **how)).status_code


async def test_a_key_is_exchanged_for_a_cookie(each_site):
    answer = await each_site.sign_in()
    assert answer.status_code == 200
    session = answer.json()
    assert session["signed_in"] is True
    assert session["account"] == {"id": each_site.api.ada.account.id, "name": "ada"}
    assert await listed(each_site) == 200
    assert (await each_site.browser.get(SESSION)).json()["account"] == session["account"]


async def test_the_cookie_is_out_of_reach(site):
    answer = await site.sign_in()
    parts = {part.strip() for part in answer.headers["set-cookie"].split(";")[1:]}
    assert parts >= {"HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={MAX_S}"}
    assert "Secure" not in parts
    assert not [part for part in parts if part.startswith("Domain")]
    assert answer.headers["cache-control"] == "no-store"


async def test_behind_tls_the_cookie_is_secure(tmp_path):
    async with open_site(tmp_path, extra=BEHIND_A_PROXY) as site:
        forwarded = {"x-forwarded-for": "192.0.2.1", "x-forwarded-proto": "https"}
        sent = (await site.sign_in(headers=forwarded)).headers["set-cookie"]
        assert sent.startswith("__Host-fibatchd=")
        assert "Secure" in sent


async def test_neither_key_nor_token_is_stored(each_site):
    token = (await each_site.sign_in()).cookies[COOKIE]
    found = await each_site.api.context.store.read(rows("console_sessions"))
    assert len(found) == 1
    assert token not in repr(found)
    assert each_site.api.ada.secret not in repr(found)


async def test_without_a_session(site):
    assert (await site.browser.get(SESSION)).json() == {"object": "console.session", "signed_in": False}
    assert await listed(site) == 401
    site.browser.cookies.set(COOKIE, "made-up")
    assert await listed(site) == 401


async def test_signing_out_ends_the_session(each_site):
    token = (await each_site.sign_in()).cookies[COOKIE]
    answer = await each_site.browser.delete(SESSION)
    assert answer.json()["signed_in"] is False
    assert COOKIE not in each_site.browser.cookies
    assert await listed(each_site, headers={"cookie": f"{COOKIE}={token}"}) == 401


async def test_a_revoked_key_ends_its_sessions(each_site):
    await each_site.sign_in()
    await each_site.api.context.store.write(accounts.revoke_key, each_site.api.ada.key.id)
    assert await listed(each_site) == 401
    assert (await each_site.browser.get(SESSION)).json()["signed_in"] is False


async def test_an_expired_key_ends_its_sessions(site):
    await site.sign_in(await site.api.owner(expires_in=10))
    site.api.clock.advance(10)
    assert await listed(site) == 401


async def test_a_suspended_account_is_told(site):
    await site.sign_in()
    await site.api.context.store.write(accounts.set_account_status, site.api.ada.account.id, SUSPENDED)
    assert await listed(site) == 403
    assert (await site.browser.get(SESSION)).json()["signed_in"] is False


@pytest.mark.parametrize("step", [IDLE_S])
async def test_an_idle_session_ends(each_site, step):
    await each_site.sign_in()
    each_site.api.clock.advance(step - 1)
    assert await listed(each_site) == 200
    each_site.api.clock.advance(step - 1)
    assert await listed(each_site) == 200
    each_site.api.clock.advance(step)
    assert await listed(each_site) == 401


async def test_a_short_session_lasts_while_it_is_used(site):
    from fibatchd_plugins.console import sessions

    def find():
        return sessions.find(digest, 60)

    digest = sessions.token_hash((await site.sign_in()).cookies[COOKIE])
    store = site.api.context.store
    for _ in range(5):
        site.api.clock.advance(20)
        assert (await store.read(find)).is_stale
        await store.write(sessions.touch, digest)
    site.api.clock.advance(60)
    assert await store.read(find) is None


async def test_no_session_is_for_ever(site):
    await site.sign_in()
    for _ in range(MAX_S // (IDLE_S // 2) - 1):
        site.api.clock.advance(IDLE_S // 2)
        assert await listed(site) == 200
    site.api.clock.advance(IDLE_S // 2)
    assert await listed(site) == 401


async def test_polling_does_not_write(site):
    await site.sign_in()
    site.api.store.writes.clear()
    for _ in range(3):
        assert await listed(site) == 200
    assert site.api.store.writes == []


async def test_what_is_there_is_shown_while_nothing_can_be_written(site, monkeypatch):
    async def full(*_args, **_options):
        raise StoreUnavailable("no space is left")

    await site.sign_in()
    site.api.clock.advance(100)
    monkeypatch.setattr(site.api.store, "write", full)
    assert await listed(site) == 200


async def test_a_key_that_is_sent_counts_before_the_cookie(site):
    await site.sign_in()
    bob = await site.api.owner("bob")
    await site.api.create()
    assert len((await site.browser.get("/v1/batches")).json()["data"]) == 1
    assert (await site.browser.get("/v1/batches", headers=bob.headers)).json()["data"] == []


async def test_answers_to_the_cookie_are_not_kept(site):
    await site.sign_in()
    answer = await site.browser.get("/v1/batches")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "Cookie" in answer.headers["vary"]


@pytest.mark.parametrize(
    "headers",
    [
        {"x-fibatchd-console": ""},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "", "origin": "https://evil.example"},
        {"sec-fetch-site": "", "origin": "null"},
        {"sec-fetch-site": "", "origin": "http://["},
    ],
)
async def test_another_page_changes_nothing(site, headers):
    await site.sign_in()
    wanted = OWN_PAGE | headers
    sent = {name: value for name, value in wanted.items() if value}
    own = {name: value for name, value in site.browser.headers.items() if name not in OWN_PAGE}
    site.browser.headers = own | sent
    for method, path in [("POST", "/v1/batches"), ("DELETE", SESSION), ("POST", SESSION)]:
        answer = await site.browser.request(method, path, content=b"{}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_site_request")


@pytest.mark.parametrize("more", [{}, {"origin": "same"}])
async def test_a_browser_on_plain_http_may(site, more):
    await site.sign_in()
    del site.browser.headers["sec-fetch-site"]
    headers = {"origin": f"http://127.0.0.1:{site.api.port}"} if more else {}
    body = {"requests": [chat()]}
    assert (await site.browser.post("/v1/batches", json=body, headers=headers)).status_code == 200


async def revoked(api):
    bob = await api.owner()
    await api.context.store.write(accounts.revoke_key, bob.key.id)
    return bob.secret


async def expired(api):
    bob = await api.owner(expires_in=1)
    api.clock.advance(1)
    return bob.secret


async def suspended(api):
    bob = await api.owner()
    await api.context.store.write(accounts.set_account_status, bob.account.id, SUSPENDED)
    return bob.secret


async def unknown(api):
    return new_secret()


async def unwritable(_api):
    return "hyi-\ud800"


async def malformed(api):
    return "sk-1"


async def test_whatever_is_wrong_with_a_key_is_answered_alike(each_site):
    answers = set()
    for bad in (revoked, expired, suspended, unknown, unwritable, malformed):
        answer = await each_site.try_key(await bad(each_site.api))
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
        answers.add(answer.text)
    assert len(answers) == 1


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"api_key": 5}', b'{"api_key": "x"'])
async def test_a_malformed_call(site, body):
    assert (await site.browser.post(SESSION, content=body)).status_code == 400


async def test_failed_attempts_are_limited(site):
    for _ in range(10):
        assert (await site.try_key(new_secret())).status_code == 401
    refused = await site.sign_in()
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_sign_ins")
    assert 1 <= int(refused.headers["retry-after"]) <= 6


async def test_sessions_that_nobody_has_are_limited(tmp_path):
    async with open_site(tmp_path, extra=f"{ON}[server]\nmax_failed_keys_per_minute = 3\n") as site:
        assert (await site.sign_in()).status_code == 200
        assert (await site.browser.get(SESSION)).json()["signed_in"]
        for status in (200, 200, 200, 429):
            answer = await site.api.http.get(SESSION, headers={"cookie": "fibatchd=nobodys"})
            assert answer.status_code == status
        assert answer.json()["error"]["code"] == "too_many_failed_keys"
        assert (await site.browser.get(SESSION)).json()["signed_in"], "who was known goes on"


async def test_a_few_addresses_do_not_shut_out_the_others(tmp_path):
    async with open_site(tmp_path, extra=BEHIND_A_PROXY) as site:
        for client in range(11):
            sent = {"x-forwarded-for": f"192.0.2.{client}"}
            answers = [await site.try_key("sk-1", headers=sent) for _ in range(10)]
            assert {answer.status_code for answer in answers} == {401}
        assert (await site.sign_in(headers={"x-forwarded-for": "198.51.100.1"})).status_code == 200


async def test_who_has_a_key_is_not_limited(site):
    for _ in range(15):
        assert (await site.sign_in()).status_code == 200


async def test_a_browser_has_one_session(each_site):
    first = (await each_site.sign_in()).cookies[COOKIE]
    await each_site.sign_in(await each_site.api.owner("bob"))
    assert len(await each_site.api.context.store.read(rows("console_sessions"))) == 1
    assert await listed(each_site) == 200
    assert await listed(each_site, headers={"cookie": f"{COOKIE}={first}"}) == 401


async def test_a_key_has_a_bounded_number_of_sessions(each_site):
    first = (await each_site.sign_in()).cookies[COOKIE]
    for _ in range(50):
        each_site.api.clock.advance(1)
        each_site.browser.cookies.clear()
        token = (await each_site.sign_in()).cookies[COOKIE]
    found = await each_site.api.context.store.read(rows("console_sessions"))
    assert len(found) == 50
    each_site.browser.cookies.clear()
    assert await listed(each_site, headers={"cookie": f"{COOKIE}={first}"}) == 401
    assert await listed(each_site, headers={"cookie": f"{COOKIE}={token}"}) == 200


async def test_the_sweep_ends_for_good(each_site):
    from fibatchd_plugins.console import sessions

    store = each_site.api.context.store
    bob = await each_site.api.owner("bob")
    await each_site.sign_in(bob)
    each_site.browser.cookies.clear()
    await each_site.sign_in()
    assert await store.write(sessions.sweep, IDLE_S) == 0
    await store.write(accounts.set_account_status, bob.account.id, SUSPENDED)
    assert await store.write(sessions.sweep, IDLE_S) == 1
    await store.write(accounts.revoke_key, each_site.api.ada.key.id)
    assert await store.write(sessions.sweep, IDLE_S) == 1
    await each_site.sign_in(await each_site.api.owner("eve"))
    each_site.api.clock.advance(IDLE_S)
    assert await store.write(sessions.sweep, IDLE_S) == 1
    assert await store.read(rows("console_sessions")) == []


def test_addresses_of_one_client():
    from fibatchd.web.attempts import network_of

    assert network_of("192.0.2.7") == network_of("::ffff:192.0.2.7") != network_of("192.0.2.8")
    assert network_of("2001:db8:0:1::5") == network_of("2001:db8:0:1:9::7") != network_of("2001:db8:0:2::5")
    assert re.fullmatch("unix:|", network_of("unix:"))
