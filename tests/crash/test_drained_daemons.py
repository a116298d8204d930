"""Two real daemons on one PostgreSQL: a model drained at one of them is out of service at both, restarts included."""

from daemons import chat, finished, until
from fleet import start

REFUSED_WITHIN_S = 10


def create(daemon, key):
    """The status of an attempt to create a batch."""
    with daemon.client(key) as client:
        return client.post("/v1/batches", json={"requests": [chat("q", "say it")]}).status_code


def until_answered(daemon, key, status):
    until(lambda: create(daemon, key) == status, within=REFUSED_WITHIN_S)


def test_drained_at_one_is_drained_at_all(tmp_path, processes, empty_postgres):
    fleet = start(tmp_path, processes, empty_postgres, count=2, concurrency=2, delay=0.2)
    key, admin = fleet.new_key(), fleet[0].new_key("admin")
    with fleet[0].client(admin) as root:
        batch_id = fleet.create(1, key, 200)
        model = root.post("/v1/admin/models/m/drain").raise_for_status().json()
        assert model["drained"]["by"] == "operator"
        this, other = root.get("/v1/admin/daemons").json()["data"]
        assert [this["is_alive"], other["is_alive"]] == [True, True]
        assert this["is_this"] != other["is_this"]
    for daemon in fleet.daemons:
        until_answered(daemon, key, 400)
    assert fleet[1].terminate() == 0
    fleet.replace(1)
    assert create(fleet[1], key) == 400
    with fleet[1].client(admin) as root:
        counts = root.get("/v1/admin/models/m").json()["batch"]
        assert counts["queued"] > 100
        assert counts["running"] == 0
        with fleet[0].client(key) as client:
            shown = client.get(f"/v1/account/batches/{batch_id}").json()
            assert shown["waiting"] == {"reason": "drained", "until": None}
        assert fleet[0].run("model", "list", "--json").count('"operator"') == 1
        fleet.upstream.control(delay=0.0)
        assert root.delete("/v1/admin/models/m/drain").json()["drained"] is None
    until_answered(fleet[0], key, 200)
    with fleet[0].client(key) as client:
        assert finished(client, batch_id)["request_counts"] == {"total": 200, "completed": 200, "failed": 0}
