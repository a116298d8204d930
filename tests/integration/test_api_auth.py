"""Who may call what: every route of the app, with every kind of key."""

import re

import pytest
from api import serving

from fibatchd.domain.accounts import new_secret
from fibatchd.store import accounts
from fibatchd.web.failed_keys import FailedKeys

BATCH = "batch_" + "0" * 32


def is_public(app, rule):
    return getattr(app.view_functions[rule.endpoint], "is_public", False)


def routes(app):
    """(method, path) of every route that is not public, the variable parts filled in."""
    for rule in app.url_map.iter_rules():
        if is_public(app, rule):
            continue
        path = re.sub(r"<(?:\w+:)?\w+>", BATCH, rule.rule)
        for method in sorted(rule.methods - {"HEAD"}):
            yield method, path


async def no_key(api):
    return {}, 401, "No API key was sent"


async def empty_key(api):
    return {"x-api-key": ""}, 401, "No API key was sent"


async def not_bearer(api):
    return {"authorization": f"Basic {api.ada.secret}"}, 401, "No API key was sent"


async def malformed(api):
    return {"authorization": "Bearer sk-123"}, 401, "The API key is not valid"


async def beyond_ascii(api):
    return {"x-api-key": b"hyi-\xff"}, 401, "The API key is not valid"


async def unknown(api):
    return {"authorization": f"Bearer {new_secret()}"}, 401, "The API key is not valid"


async def revoked(api):
    bob = await api.owner()
    await api.context.store.write(accounts.revoke_key, bob.key.id)
    return bob.headers, 401, "has been revoked"


async def expired(api):
    bob = await api.owner(expires_in=10)
    api.clock.advance(10)
    return bob.headers, 401, "has expired"


async def suspended(api):
    bob = await api.owner()
    await api.context.store.write(accounts.set_account_status, bob.account.id, "suspended")
    return bob.headers, 403, "is suspended"


async def deleted(api):
    bob = await api.owner()
    await api.context.store.write(accounts.delete_account, bob.account.id)
    return bob.headers, 401, "The API key is not valid"


KEYS = [no_key, empty_key, not_bearer, malformed, beyond_ascii, unknown, revoked, expired, suspended, deleted]


@pytest.mark.parametrize("kind", KEYS, ids=lambda kind: kind.__name__)
async def test_no_route_answers_without_a_good_key(api, kind):
    api.app.extensions["fibatchd"].failed_keys = FailedKeys(0)
    headers, status, message = await kind(api)
    seen = 0
    for method, path in routes(api.app):
        answer = await api.http.request(method, path, headers=headers)
        assert answer.status_code == status, (method, path, answer.text)
        assert message in answer.text
        assert ("www-authenticate" in answer.headers) == (status == 401)
        seen += 1
    assert seen >= 10


async def test_both_headers_carry_a_key(api):
    for headers in ({"x-api-key": api.ada.secret}, {"authorization": f"bearer  {api.ada.secret}"}, api.ada.headers):
        assert (await api.http.get("/v1/batches", headers=headers)).status_code == 200


async def test_x_api_key_wins_over_authorization(api):
    bad = new_secret()
    good_first = {"x-api-key": api.ada.secret, "authorization": f"Bearer {bad}"}
    assert (await api.http.get("/v1/batches", headers=good_first)).status_code == 200
    bad_first = {"x-api-key": bad, "authorization": f"Bearer {api.ada.secret}"}
    assert (await api.http.get("/v1/batches", headers=bad_first)).status_code == 401


async def test_anothers_batch_reads_as_not_found(api):
    batch = await api.create()
    bob = await api.owner()
    for method, rest in [
        ("GET", ""),
        ("GET", "/results"),
        ("GET", "/output.jsonl"),
        ("POST", "/cancel"),
        ("DELETE", ""),
    ]:
        answer = await api.call(method, f"/v1/batches/{batch['id']}{rest}", by=bob)
        assert answer.status_code == 404, (method, rest)
        nothing = await api.call(method, f"/v1/batches/{BATCH}{rest}", by=bob)
        assert answer.json() == nothing.json()
    assert (await api.call("GET", "/v1/batches", by=bob)).json()["data"] == []
    assert (await api.get(batch["id"]))["status"] == "validating"


async def test_any_key_of_the_account_manages_its_batches(api):
    batch = await api.create()
    other = await api.key_of(api.ada.account)
    assert (await api.call("POST", f"/v1/batches/{batch['id']}/cancel", by=other)).json()["status"] == "cancelled"


async def test_no_route_of_an_api_is_public(api):
    paths = {rule.rule for rule in api.app.url_map.iter_rules() if is_public(api.app, rule)}
    assert paths >= {"/healthz", "/readyz"}
    assert not [path for path in paths if re.match(r"/v\d|.*/v\d", path)]


async def test_health_needs_no_key(api):
    assert (await api.http.get("/healthz")).status_code == 200
    assert (await api.http.get("/readyz")).status_code == 200
    api.ready = False
    assert (await api.http.get("/readyz")).status_code == 503
    assert (await api.http.get("/healthz")).status_code == 200


async def test_a_reload_that_takes_batches_away_hides_their_routes_from_good_keys_only(tmp_path):
    async with serving(tmp_path) as api:
        api.configure(enabled=False)
        for method, path in routes(api.app):
            if not path.startswith("/v1/batches"):
                continue
            assert (await api.http.request(method, path)).status_code == 401
            answer = await api.call(method, path)
            assert answer.status_code == 404, (method, path)
            assert "Batch inference is unavailable" in answer.text
        assert (await api.call("GET", "/v1/models")).status_code == 200


async def test_who_tries_many_keys_is_sent_away(tmp_path):
    async with serving(tmp_path, extra="[server]\nmax_failed_keys_per_minute = 3\n") as api:

        async def call(key):
            return await api.http.get("/v1/models", headers={"x-api-key": key})

        assert (await call(api.ada.secret)).status_code == 200
        bob = await api.owner("bob")
        wrong = [f"hyi-{number:043}" for number in range(5)]
        assert [(await call(key)).status_code for key in wrong] == [401, 401, 401, 429, 429]
        refused = await call(wrong[0])
        assert refused.json()["error"]["code"] == "too_many_failed_keys"
        assert 0 < int(refused.headers["retry-after"]) <= 20
        assert (await call(bob.secret)).status_code == 429, "nobody learns whether a key is good"
        assert (await call(api.ada.secret)).status_code == 200, "who was known goes on"
        assert (await api.http.get("/v1/models")).status_code == 401
        assert (await api.http.get("/healthz")).status_code == 200


async def test_slashes_in_front_make_another_path(api):
    for path in ("//v1/models", "///v1/batches", "//healthz"):
        answer = await api.call("GET", f"http://127.0.0.1:{api.port}{path}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, None), path
