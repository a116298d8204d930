"""Plugins that tell whose a call without a key is: asked only then, in turn, and believed only as far as the key is good."""

import pytest
from api import serving

from fibatchd.domain.accounts import SUSPENDED
from fibatchd.errors import ApiError
from fibatchd.hookspecs import hookimpl
from fibatchd.store import accounts

MISSING = "missing_api_key"


class Door:
    """Knows callers by a name that the test gives it; counts how often it is asked."""

    def __init__(self, header):
        self.header = header
        self.known = {}
        self.asked = 0

    @hookimpl
    def fibatchd_identify(self, context):
        from quart import request

        async def identify():
            self.asked += 1
            name = request.headers.get(self.header)
            if name == "nobody":
                raise ApiError(403, "not you", code="not_you")
            return self.known.get(name)

        return identify


@pytest.fixture
def doors():
    return [Door("x-front"), Door("x-back")]


@pytest.fixture
async def api(tmp_path, each_url, doors):
    plugins = {f"door-{index}": door for index, door in enumerate(doors)}
    async with serving(tmp_path, store_url=each_url, plugins=plugins) as served:
        yield served


async def listed(api, **headers):
    answer = await api.http.get("/v1/batches", headers={name.replace("_", "-"): text for name, text in headers.items()})
    return answer.status_code, answer.json()["error"]["code"] if answer.status_code >= 400 else None


async def test_who_is_known_needs_no_key(api, doors):
    for door, header in zip(doors, ("x_front", "x_back"), strict=True):
        door.known["ada"] = api.ada.key.id
        assert await listed(api, **{header: "ada"}) == (200, None)
        assert await listed(api, **{header: "eve"}) == (401, MISSING)
    assert await listed(api) == (401, MISSING)


async def test_nobody_is_asked_where_a_key_is_sent(api, doors):
    doors[0].known["ada"] = api.ada.key.id
    bob = await api.owner("bob")
    await api.create()
    answer = await api.http.get("/v1/batches", headers=bob.headers | {"x-front": "ada"})
    assert answer.json()["data"] == []
    assert await listed(api, x_front="ada", x_api_key="hyi-wrong") == (401, "invalid_api_key")
    assert [door.asked for door in doors] == [0, 0]


async def test_nobody_is_asked_where_nobody_need_be_known(api, doors):
    for path in ("/healthz", "/no/such/path"):
        await api.http.get(path, headers={"x-front": "nobody"})
    assert [door.asked for door in doors] == [0, 0]


async def test_one_that_refuses(api):
    assert await listed(api, x_front="nobody") == (403, "not_you")


async def test_the_key_behind_it_is_checked(api, doors):
    bob = await api.owner("bob", expires_in=60)
    doors[0].known = {"bob": bob.key.id, "gone": "key_" + "0" * 32}
    assert await listed(api, x_front="bob") == (200, None)
    assert await listed(api, x_front="gone") == (401, "invalid_api_key")
    await api.context.store.write(accounts.set_account_status, bob.account.id, SUSPENDED)
    assert await listed(api, x_front="bob") == (403, "account_suspended")
    api.clock.advance(60)
    assert await listed(api, x_front="bob") == (401, "expired_api_key")
    await api.context.store.write(accounts.revoke_key, bob.key.id)
    assert await listed(api, x_front="bob") == (401, "revoked_api_key")
    await api.context.store.write(accounts.delete_account, bob.account.id)
    assert await listed(api, x_front="bob") == (401, "invalid_api_key")
