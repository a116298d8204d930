"""The admin API on models: queues, upstreams, daemons, and draining."""

import json
from functools import partial

import pytest
import trio
from api import chat, serving, success
from structlog.testing import capture_logs

from fibatchd.scheduler.drains import Drains
from fibatchd.store import leases

EXTRA = """
[[models]]
id = "org/drained"
drain = true
upstreams = [{ url = "http://127.0.0.1:9/v1", headers = { x-token = "a secret of ours" } }]
"""
MODEL = "glm-5.3-flash"


@pytest.fixture
async def api(tmp_path, each_url):
    async with serving(tmp_path, store_url=each_url, extra=EXTRA) as served:
        served.root = await served.owner("root", "admin")
        yield served


async def admin(api, method, path, status=200):
    answer = await api.call(method, f"/v1/admin/{path}", by=api.root)
    assert answer.status_code == status, answer.text
    return answer.json() if status == 200 else answer.json()["error"]


async def test_what_waits_and_what_runs(api):
    batch = await api.create([chat(f"q-{n}") for n in range(5)], metadata={"secret": "of a user"})
    api.clock.advance(60)
    one, *_ = await api.claim(batch["id"], 3)
    await api.end(success(one))
    api.context.daemon = lambda: one.lease
    page = await admin(api, "GET", "models")
    assert page["daemon"] == {"id": one.lease, "name": "test"}
    assert [model["id"] for model in page["data"]] == [MODEL, "qwen3.6-35b", "internal-only", "org/drained"]
    model = page["data"][0]
    assert model == await admin(api, "GET", f"models/{MODEL}")
    assert model["batch"] == {"queued": 2, "running": 2, "oldest_queued_at": batch["created_at"]}
    assert (model["here"]["batch_running"], model["drained"]) == (2, None)
    assert (model["today"]["attempts"], model["today"]["total_tokens"]) == (1, 136)
    assert "of a user" not in json.dumps(page)


async def test_upstreams_and_how_they_do(api):
    (model, *_, drained) = (await admin(api, "GET", "models"))["data"]
    assert drained["here"]["upstreams"][0]["url"] == "http://127.0.0.1:9/v1"
    assert "secret" not in json.dumps(drained)
    (member,) = api.context.executor.fleet.of(MODEL)
    states = [model["here"]["upstreams"][0]["state"]]
    for change in (
        partial(member.replica.pause, trio.current_time() + 30),
        partial(member.replica.failed, trio.current_time(), at_once=True),
        partial(member.replica.begin, 1, trio.current_time()),
    ):
        change()
        (shown,) = (await admin(api, "GET", f"models/{MODEL}"))["here"]["upstreams"]
        states.append(shown["state"])
        assert (shown["retry_in_s"] is None) == (shown["state"] == "probing")
    assert states == ["up", "paused", "down", "probing"]
    assert shown["in_flight"] == 1


async def test_interactive_calls_of_all_daemons_are_counted(api):
    daemon = await api.context.store.write(leases.register, "host:1", [MODEL])
    api.context.daemon = lambda: daemon
    other = await api.context.store.write(leases.register, "host:2", [MODEL])
    await api.context.store.write(leases.renew, other, {MODEL: 4}, [MODEL])
    with api.context.load.enter(MODEL):
        model = await admin(api, "GET", f"models/{MODEL}")
    assert (model["interactive"]["running"], model["here"]["interactive_running"]) == (5, 1)
    first, second = (await admin(api, "GET", "daemons"))["data"]
    assert (first["name"], first["is_this"], first["is_alive"], first["models"]) == ("host:1", True, True, [MODEL])
    assert (second["is_this"], second["interactive_running"]) == (False, {MODEL: 4})
    api.clock.advance(60)
    assert [one["is_alive"] for one in (await admin(api, "GET", "daemons"))["data"]] == [False, False]


async def test_draining_refuses_what_is_new_until_it_is_undone(api):
    changed = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(Drains(api.context, lambda: changed.set()).run)
        with capture_logs() as lines:
            shown = await admin(api, "POST", f"models/{MODEL}/drain")
            again = await admin(api, "POST", f"models/{MODEL}/drain")
        assert shown["drained"] == again["drained"] == {"by": "operator", "since": int(shown["drained"]["since"])}
        noted = [(line["action"], line["model"]) for line in lines if line["event"] == "admin action"]
        assert noted == [("model.drain", MODEL)] * 2
        with trio.fail_after(10):
            await changed.wait()
        refused = await api.call("POST", "/v1/batches", json={"requests": [chat()]})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "model_unavailable")
        body = chat()["body"]
        refused = await api.call("POST", "/v1/chat/completions", json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "model_unavailable")
        changed = trio.Event()
        assert (await admin(api, "DELETE", f"models/{MODEL}/drain"))["drained"] is None
        with trio.fail_after(10):
            await changed.wait()
        await api.create()
        nursery.cancel_scope.cancel()


async def test_what_cannot_be_drained_or_undrained(api):
    assert (await admin(api, "GET", "models/org/drained"))["drained"] == {"by": "configuration", "since": None}
    assert (await admin(api, "DELETE", "models/org/drained/drain", 409))["code"] == "drained_by_configuration"
    for path in ("models/nothing", "models/glm-flash"):  # an alias is not the model
        assert (await admin(api, "GET", path, 404))["code"] == "model_not_found"
        assert (await admin(api, "POST", f"{path}/drain", 404))["code"] == "model_not_found"
    assert (await admin(api, "DELETE", f"models/{MODEL}/drain"))["drained"] is None
