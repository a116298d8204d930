"""From one machine to several: a daemon on SQLite is killed in mid-run, its store moved by `fibatchd migrate-store`, and
two daemons go on with it on PostgreSQL."""

import signal

import pytest
from daemons import ModelServerProcess, finished, results, until
from fleet import CONFIG, Fleet, ShortLeased


def settings(storage, upstream):
    return CONFIG.format(
        storage=storage, upstream=upstream.url, concurrency=32, model="", max_batches=100, max_requests=10_000
    )


@pytest.mark.slow
def test_a_store_is_moved_in_mid_run_and_two_daemons_go_on(tmp_path, processes, empty_postgres):
    upstream = ModelServerProcess(delay=0.1)
    processes.append(upstream)
    (tmp_path / "one").mkdir()
    one = ShortLeased(tmp_path / "one", settings("sqlite:fibatchd.db", upstream))
    processes.append(one)
    fleet = Fleet(empty_postgres, upstream, [one], 32, processes)
    key = one.new_key()
    with one.client(key) as client:
        finished(client, fleet.create(0, key, 100))
        done = results(client, fleet.batches[0].id)
        fleet.create(0, key, 1000)
        until(lambda: upstream.stats()["asked"] >= 300)
    one.signal(signal.SIGKILL)
    one.wait()
    moved = one.run("migrate-store", "--from", "sqlite:fibatchd.db", "--to", empty_postgres)
    rows = {line.split()[0]: int(line.split()[1]) for line in moved.splitlines()[1:]}
    assert (rows["batches"], rows["requests"], rows["request_bodies"]) == (2, 1100, 1100)
    for index, name in enumerate(("one", "two")):
        (tmp_path / name).mkdir(exist_ok=True)
        fleet.daemons[index:] = [ShortLeased(tmp_path / name, settings(empty_postgres, upstream))]
        processes.append(fleet[index])
    fleet.create(1, key, 100)
    assert fleet.finish()[1]["cost_unknown_attempts"] >= 1, "what was running when it was killed"
    with fleet[1].client(key) as client:
        assert results(client, fleet.batches[0].id) == done
