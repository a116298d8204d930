"""Several daemons on one PostgreSQL, killed, stopped, restarted, and the database with them: exact counts, one result each,
and never more requests at the model than it may have."""

import random
import signal
import time

import databases
import httpx2
import pytest
from daemons import DaemonProcess, chat, until
from fleet import LEASE_S, start


def create_four(fleet, requests):
    """Four batches of two accounts, on different daemons."""
    one, two = fleet.new_key(), fleet.new_key()
    for number, key in enumerate((one, one, two, two)):
        fleet.create(number % len(fleet.daemons), key, requests // 4)


def asked(fleet):
    return fleet.upstream.stats()["asked"]


def until_asked(fleet, count):
    until(lambda: asked(fleet) >= count, within=120)


def ran_once(fleet):
    """All batches are finished, and no request was asked a second time."""
    assert sum(batch["cost_unknown_attempts"] for batch in fleet.finish()) == 0
    assert asked(fleet) == sum(len(batch.prompts) for batch in fleet.batches)


# kill -9


def kill_around(fleet, *, seconds, every=2.0):
    """kill -9 of a random daemon every so often; each is started again at once. Returns how many were killed."""
    end = time.monotonic() + seconds
    kills = 0
    while time.monotonic() < end:
        time.sleep(every * random.uniform(0.8, 1.2))  # the moment of the kill is what varies
        index = random.randrange(len(fleet.daemons))
        fleet[index].signal(signal.SIGKILL)
        fleet.replace(index, wait=False)
        kills += 1
    for daemon in fleet.daemons:
        daemon.wait_ready()
    return kills


@pytest.mark.slow
def test_killed_at_random(tmp_path, processes, empty_postgres):
    fleet = start(tmp_path, processes, empty_postgres, concurrency=96)
    create_four(fleet, 20_000)
    assert kill_around(fleet, seconds=10) >= 4
    fleet.finish()


@pytest.mark.torture
@pytest.mark.parametrize("round_", range(3))
def test_killed_at_random_for_a_minute(tmp_path, processes, empty_postgres, round_):
    fleet = start(tmp_path, processes, empty_postgres, concurrency=48, kind=DaemonProcess)
    create_four(fleet, 20_000)
    assert kill_around(fleet, seconds=60) >= 25
    fleet.finish(timeout=300)


# The database


def restart_in_mid_run(fleet, server, *, requests, modes):
    create_four(fleet, requests)
    for count, mode in enumerate(modes, 1):
        until_asked(fleet, requests * count // (len(modes) + 1))
        databases.control(server, "-m", mode, "restart")
    ran_once(fleet)


@pytest.mark.slow
def test_the_database_restarts(tmp_path, processes):
    """Nothing is asked twice: what was running when it went is recorded when it is back."""
    with databases.own_server() as server:
        fleet = start(tmp_path, processes, server.get_uri())
        restart_in_mid_run(fleet, server, requests=3000, modes=["fast", "immediate"])


@pytest.mark.torture
def test_the_database_restarts_again_and_again(tmp_path, processes):
    with databases.own_server() as server:
        fleet = start(tmp_path, processes, server.get_uri(), kind=DaemonProcess)
        restart_in_mid_run(fleet, server, requests=20_000, modes=["fast", "immediate"] * 10)


@pytest.mark.slow
def test_the_database_is_away_for_longer_than_leases_last(tmp_path, processes):
    """The daemons say so, do not end, finish what runs, and record it when the database is back."""
    with databases.own_server() as server:
        fleet = start(tmp_path, processes, server.get_uri(), count=2, concurrency=40, delay=2.0)
        key = fleet.new_key()
        fleet.create(0, key, 100)
        until_asked(fleet, 40)
        databases.control(server, "-m", "immediate", "stop")
        gone_at = time.monotonic()
        for daemon in fleet.daemons:
            says_so(daemon, key)
        time.sleep(max(0.0, gone_at + LEASE_S + 2 - time.monotonic()))
        assert [daemon.process.poll() for daemon in fleet.daemons] == [None, None]
        databases.control(server, "restart")  # with the options it had
        for daemon in fleet.daemons:
            daemon.wait_ready()
        ran_once(fleet)


def says_so(daemon, key):
    assert httpx2.get(f"{daemon.base}/healthz").status_code == 200
    assert httpx2.get(f"{daemon.base}/readyz").status_code == 503
    with daemon.client(key) as client:
        answers = [
            client.post("/v1/batches", json={"requests": [chat("q", "say")]}),
            client.get("/v1/batches"),
            client.post("/v1/chat/completions", json=chat("", "say")["body"]),
        ]
    for answer in answers:
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "storage_unavailable")
        assert answer.headers["retry-after"] == "1"


# Daemons that stop


def until_logged(daemons, event):
    """Wait until one of the daemons has logged an event."""
    until(lambda: any(line["event"] == event for daemon in daemons for line in daemon.log_lines()))


def stop_one(fleet, *, requests, seconds):
    """SIGSTOP a daemon in mid-run, for so long, and until others have taken over; then let it go on."""
    create_four(fleet, requests)
    until_asked(fleet, requests // 10)
    fleet[1].signal(signal.SIGSTOP)
    time.sleep(seconds)  # the daemon is to miss this very time
    until_logged([fleet[0], fleet[2]], "took over from a daemon that is gone")
    fleet[1].signal(signal.SIGCONT)
    said = fleet.finish(timeout=300)
    until_logged([fleet[1]], "leases were lost to another daemon")
    until_logged([fleet[1]], "results refused: their leases were lost")
    assert sum(batch["cost_unknown_attempts"] for batch in said) >= 1


@pytest.mark.slow
def test_a_daemon_that_was_stopped_has_its_late_results_refused(tmp_path, processes, empty_postgres):
    fleet = start(tmp_path, processes, empty_postgres)
    stop_one(fleet, requests=4000, seconds=1.4 * LEASE_S)


@pytest.mark.torture
def test_a_daemon_that_was_stopped_for_a_minute_has_its_late_results_refused(tmp_path, processes, empty_postgres):
    fleet = start(tmp_path, processes, empty_postgres, kind=DaemonProcess)
    stop_one(fleet, requests=20_000, seconds=60)


@pytest.mark.slow
def test_a_rolling_restart_under_load_loses_nothing(tmp_path, processes, empty_postgres):
    fleet = start(tmp_path, processes, empty_postgres, delay=0.5)
    key = fleet.new_key()
    for index in range(3):
        fleet.create(index - 1, key, 400)
        until_asked(fleet, 400 * index + 100)
        assert fleet[index].terminate() == 0
        fleet.replace(index)
    ran_once(fleet)
