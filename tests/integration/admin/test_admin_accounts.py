"""The admin API on accounts, keys, tiers and usage: what the command line does, by HTTP."""

import json

import pytest
from api import chat
from structlog.testing import capture_logs

from fibatchd.errors import StoreUnavailable
from fibatchd.ids import new_id
from fibatchd.store import operations

ADMIN = "/v1/admin"


@pytest.fixture
async def admin(api):
    """A function that calls the admin API as an administrator, and returns the answer's JSON."""
    root = await api.owner("root", "admin")

    async def call(method, path, body=None, status=200, **options):
        content = b"" if body is None else json.dumps(body).encode()
        answer = await api.call(method, f"{ADMIN}/{path}", content=content, **{"by": root} | options)
        assert answer.status_code == status, answer.text
        return answer.json() if status == 200 else answer.json()["error"]

    call.root = root
    return call


async def test_administrators_only(api, admin):
    for path in ("models", "daemons", "accounts", "tiers", "usage", f"accounts/{api.ada.account.id}/keys"):
        answer = await api.call("GET", f"{ADMIN}/{path}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "admin_required"), path
    for method, path in (("POST", "accounts"), ("POST", "models/glm-5.3-flash/drain"), ("DELETE", "keys/key_1")):
        assert (await api.call(method, f"{ADMIN}/{path}")).status_code == 403
    assert (await api.http.get(f"{ADMIN}/models")).status_code == 401
    assert (await api.call("GET", "/v1/account")).json()["is_admin"] is False
    assert (await api.call("GET", "/v1/account", by=admin.root)).json()["is_admin"] is True


async def test_a_key_for_some_models_makes_none_for_all(api, admin):
    limited = await api.owner("root", "admin", models=["glm-5.3-flash"])
    for method, path in (("GET", "models"), ("POST", f"accounts/{limited.account.id}/keys")):
        assert (await admin(method, path, by=limited, status=403))["code"] == "admin_required"
    assert (await api.call("GET", "/v1/account", by=limited)).json()["is_admin"] is False


async def test_what_is_created_is_told_even_if_the_store_is_lost_then(api, admin, monkeypatch):
    def lost(_account_id):
        raise StoreUnavailable("gone")
        yield

    monkeypatch.setattr(operations, "account", lost)
    made = await admin("POST", "accounts", {"name": "ada", "tier": "pro"})
    monkeypatch.undo()
    assert await admin("GET", f"accounts/{made['id']}") == made


async def test_an_accounts_life(api, admin):
    made = await admin("POST", "accounts", {"name": "Åke", "tier": "pro"})
    account_id = made["id"]
    assert (made["name"], made["tier"], made["status"], made["daily_quota_usd"]) == ("Åke", "pro", "active", None)
    key = await admin(
        "POST", f"accounts/{account_id}/keys", {"expires_in_s": 60, "models": ["glm-flash", "glm-5.3-flash"]}
    )
    assert (key["models"], key["expires_at"] - key["created_at"]) == (["glm-5.3-flash"], 60)
    bearer = {"authorization": f"Bearer {key['secret']}"}
    assert (await api.http.get("/v1/account", headers=bearer)).json()["id"] == account_id
    assert (await admin("POST", f"accounts/{account_id}/suspend"))["status"] == "suspended"
    assert (await api.http.get("/v1/account", headers=bearer)).json()["error"]["code"] == "account_suspended"
    assert (await admin("POST", f"accounts/{account_id}/resume"))["status"] == "active"
    assert (await admin("PUT", f"accounts/{account_id}/tier", {"tier": "free"}))["daily_quota_usd"] == 1.0
    changed = await admin("PUT", f"accounts/{account_id}/quota", {"daily_quota_usd": "20.05"})
    assert (changed["daily_quota_usd"], changed["has_own_quota"]) == (20.05, True)
    assert (await admin("PUT", f"accounts/{account_id}/quota", {"daily_quota_usd": 0.1}))["daily_quota_usd"] == 0.1
    assert (await admin("PUT", f"accounts/{account_id}/quota", {"daily_quota_usd": None}))["daily_quota_usd"] is None
    assert (await admin("DELETE", f"keys/{key['id']}"))["revoked_at"] is not None
    (listed,) = (await admin("GET", f"accounts/{account_id}/keys"))["data"]
    assert (listed["id"], listed["prefix"]) == (key["id"], key["secret"][:12])
    assert "secret" not in listed
    assert (await api.http.get("/v1/account", headers=bearer)).json()["error"]["code"] == "revoked_api_key"
    assert (await admin("DELETE", f"accounts/{account_id}"))["deleted"] is True
    gone = await admin("GET", f"accounts/{account_id}")
    assert (gone["status"], gone["name"]) == ("deleted", "")
    assert (await admin("POST", f"accounts/{account_id}/resume", status=404))["code"] == "account_not_found"


async def test_accounts_are_listed_newest_first(api, admin):
    for number in range(3):
        await api.owner(f"eve-{number}", "free")
    page = await admin("GET", "accounts?limit=2&q=EVE")
    assert [item["name"] for item in page["data"]] == ["eve-2", "eve-1"]
    assert page["has_more"]
    rest = await admin("GET", f"accounts?limit=2&q=eve&after={page['last_id']}")
    assert [item["name"] for item in rest["data"]] == ["eve-0"]
    await admin("POST", f"accounts/{rest['data'][0]['id']}/suspend")
    assert len((await admin("GET", "accounts?status=suspended"))["data"]) == 1
    assert len((await admin("GET", f"accounts?q={api.ada.account.id}"))["data"]) == 1
    for query in ("status=gone", "limit=0", "after=x", "q=%00"):
        await admin("GET", f"accounts?{query}", status=400)


async def test_what_is_wrong_is_refused_by_name(api, admin):
    ada = f"accounts/{api.ada.account.id}"
    calls = [
        ("POST", "accounts", {"tier": "pro"}, "missing_required_parameter", "name"),
        ("POST", "accounts", {"name": "x", "tier": "none"}, "unknown_tier", "tier"),
        ("POST", "accounts", {"name": " ", "tier": "pro"}, "invalid_value", "name"),
        ("POST", "accounts", {"name": "x" * 201, "tier": "pro"}, "invalid_value", "name"),
        ("POST", "accounts", {"name": "x", "tier": "pro", "quota": 1}, "unknown_parameter", "quota"),
        ("PUT", f"{ada}/tier", {"tier": 1}, "invalid_type", "tier"),
        ("PUT", f"{ada}/quota", {}, "missing_required_parameter", "daily_quota_usd"),
        ("PUT", f"{ada}/quota", {"daily_quota_usd": -1}, "invalid_value", "daily_quota_usd"),
        ("PUT", f"{ada}/quota", {"daily_quota_usd": "1e3"}, "invalid_value", "daily_quota_usd"),
        ("PUT", f"{ada}/quota", {"daily_quota_usd": [1]}, "invalid_value", "daily_quota_usd"),
        ("POST", f"{ada}/keys", {"expires_in_s": 0}, "invalid_value", "expires_in_s"),
        ("POST", f"{ada}/keys", {"expires_in_s": True}, "invalid_value", "expires_in_s"),
        ("POST", f"{ada}/keys", {"models": ["nothing"]}, "model_not_found", "models"),
        ("POST", f"{ada}/keys", {"models": []}, "invalid_type", "models"),
    ]
    for method, path, body, code, param in calls:
        error = await admin(method, path, body, status=400)
        assert (error["code"], error["param"]) == (code, param), body
    for path in (f"accounts/{new_id('acct_')}", "accounts/x", "accounts/x/keys", "accounts/x/usage"):
        assert (await admin("GET", path, status=404))["code"] == "account_not_found"
    assert (await admin("DELETE", f"keys/{new_id('key_')}", status=404))["code"] == "key_not_found"
    assert len((await admin("GET", "accounts"))["data"]) == 2


async def test_a_name_that_is_no_text_is_shown_as_one_that_is(api, admin):
    body = rb'{"\ud800": 1, "\ud800": 2}'
    answer = await api.call("POST", f"{ADMIN}/accounts", content=body, by=admin.root)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "invalid_value", r"\ud800")


async def test_nobody_shuts_out_the_account_that_makes_the_call(admin):
    mine = f"accounts/{admin.root.account.id}"
    for method, path, body in (
        ("POST", f"{mine}/suspend", None), ("DELETE", mine, None), ("PUT", f"{mine}/tier", {"tier": "free"}),
    ):  # fmt: skip
        assert (await admin(method, path, body, status=409))["code"] == "own_account"
    assert (await admin("GET", mine))["status"] == "active"


async def test_every_change_is_in_the_log_and_no_secret(api, admin):
    with capture_logs() as lines:
        made = await admin("POST", "accounts", {"name": "eve", "tier": "pro"})
        key = await admin("POST", f"accounts/{made['id']}/keys", {})
        await admin("PUT", f"accounts/{made['id']}/tier", {"tier": "free"})
        await admin("PUT", f"accounts/{made['id']}/quota", {"daily_quota_usd": "1"})
        await admin("DELETE", f"keys/{key['id']}")
        await admin("POST", f"accounts/{made['id']}/suspend")
        await admin("POST", f"accounts/{made['id']}/resume")
        await admin("DELETE", f"accounts/{made['id']}")
        await admin("GET", "accounts")
        await admin("POST", f"accounts/{made['id']}/suspend", status=404)
    noted = [line for line in lines if line["event"] == "admin action"]
    assert [(line["action"], line["target"]) for line in noted] == [
        ("account.create", made["id"]), ("key.create", key["id"]), ("account.set_tier", made["id"]),
        ("account.set_quota", made["id"]), ("key.revoke", key["id"]), ("account.suspend", made["id"]),
        ("account.resume", made["id"]), ("account.delete", made["id"]),
    ]  # fmt: skip
    assert {(line["account"], line["key_id"]) for line in noted} == {(admin.root.account.id, admin.root.key.id)}
    assert key["secret"] not in repr(lines)
    assert admin.root.secret not in repr(lines)


async def test_usage(api, admin):
    batch = await api.create([chat("a"), chat("b"), chat("c", model="qwen3.6-35b")])
    await api.run(batch["id"])
    api.clock.advance(86_400)
    batch = await api.create([chat("a")])
    await api.run(batch["id"])
    mine = (await api.call("GET", "/v1/usage?days=3")).json()
    assert [(day["day"], day["attempts"], day["cost_usd"]) for day in mine["days"]] == [
        ("2026-11-19", 1, 0.0000496), ("2026-11-18", 3, 0.0001488), ("2026-11-17", 0, 0.0),
    ]  # fmt: skip
    assert [(part["model"], part["total_tokens"]) for part in mine["today"]["models"]] == [("glm-5.3-flash", 136)]
    assert [(part["way"], part["attempts"]) for part in mine["today"]["ways"]] == [("batch", 1), ("interactive", 0)]
    assert mine["quota"] == {
        "limit_usd": None, "used_usd": 0.0000496, "remaining_usd": None, "resets_at": 1_795_132_800,
    }  # fmt: skip
    assert await admin("GET", f"accounts/{api.ada.account.id}/usage?days=3") == mine
    everybody = await admin("GET", "usage?days=3")
    assert everybody == {name: value for name, value in mine.items() if name != "quota"}
    (row,) = (await admin("GET", "usage/2026-11-18"))["data"]
    assert (row["account_id"], row["name"], row["attempts"]) == (api.ada.account.id, "ada", 3)
    assert (await admin("GET", f"usage/2026-11-18?after={row['account_id']}"))["data"] == []
    for no_day in ("2026-13-01", "2026-1-5", "20261118", "2026-W47-3", "%D9%A2026-11-18"):
        assert (await admin("GET", f"usage/{no_day}", status=400))["param"] == "day"
    for path in ("/v1/usage?days=0", "/v1/usage?days=93"):
        assert (await api.call("GET", path)).status_code == 400


async def test_a_quota_as_its_account_sees_it(api):
    bob = await api.owner("bob", "free")
    quota = (await api.call("GET", "/v1/usage", by=bob)).json()["quota"]
    assert quota == {"limit_usd": 1.0, "used_usd": 0.0, "remaining_usd": 1.0, "resets_at": 1_795_046_400}
