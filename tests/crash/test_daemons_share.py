"""What several daemons on one PostgreSQL share while nothing goes wrong: limits, idempotency keys, places, turns, and the
way they give to interactive calls."""

import json
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import daemons
import fleet as fleets
import pytest
from daemons import chat, finished, until

CONCURRENCY = 24
CAPACITY = 30
BATCHES = 5
REQUESTS = 10_000


@pytest.fixture(scope="module")
def fleet(postgres_server, tmp_path_factory):
    """Three daemons, for all tests of this file; each test has accounts of its own."""
    import databases

    with databases.new_database(postgres_server) as url, daemons.closing_all() as processes:
        yield fleets.start(
            tmp_path_factory.mktemp("fleet"),
            processes,
            url,
            concurrency=CONCURRENCY,
            model=f"capacity = {CAPACITY}",
            max_batches=BATCHES,
            max_requests=REQUESTS,
        )


@pytest.fixture(autouse=True)
def undisturbed(fleet):
    """The model server answers in 50 ms unless a test says otherwise, and nothing is left for the next test to meet."""
    fleet.batches.clear()
    fleet.upstream.control(delay=0.05, rules=[])
    yield
    for batch in fleet.batches:
        with fleet[0].client(batch.key) as client:
            client.post(f"/v1/batches/{batch.id}/cancel")
    for batch in fleet.batches:
        with fleet[0].client(batch.key) as client:
            finished(client, batch.id)


def at_once(fleet, calls):
    """Make (daemon, key, body, headers) create calls side by side; return the answers in order."""

    def call(index, key, body, headers):
        with fleet[index].client(key) as client:
            return client.post("/v1/batches", content=body, headers=headers)

    with ThreadPoolExecutor(len(calls)) as pool:
        answers = list(pool.map(lambda one: call(*one), calls))
    for answer, (_, key, *_) in zip(answers, calls, strict=True):
        if answer.status_code == 200:
            fleet.batches.append(fleets.Batch(answer.json()["id"], key, []))
    return answers


def body_of(count, content="say"):
    return json.dumps({"requests": [chat(f"q{n}", f"{content} {n}") for n in range(count)]}).encode()


@pytest.mark.slow
@pytest.mark.parametrize(("count", "fit", "code"), [(200, BATCHES, "batches"), (3000, 3, "requests")])
def test_creates_on_different_daemons_never_pass_a_limit(fleet, count, fit, code):
    fleet.upstream.control(delay=2)
    key, other = fleet.new_key(), fleet.new_key()
    calls = [(n % 3, key, body_of(count), {}) for n in range(9)] + [(1, other, body_of(1), {})]
    *answers, undisturbed = at_once(fleet, calls)
    assert Counter(answer.status_code for answer in answers) == {200: fit, 429: 9 - fit}
    assert {a.json()["error"]["code"] for a in answers if a.status_code == 429} == {f"too_many_unfinished_{code}"}
    assert undisturbed.status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2500], ids=["in one transaction", "in pieces"])
def test_idempotent_creates_that_race_on_different_daemons_make_one_batch(fleet, count):
    key = fleet.new_key()
    calls = [(n % 3, key, body_of(count), {"Idempotency-Key": "once"}) for n in range(9)]
    answers = at_once(fleet, calls)
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["id"] for answer in answers}) == 1
    with fleet[1].client(key) as client:
        assert len(client.get("/v1/batches").json()["data"]) == 1
        (refused,) = at_once(fleet, [(2, key, body_of(3, "else"), {"Idempotency-Key": "once"})])
        assert refused.status_code == 409


def in_flight(fleet):
    return fleet.upstream.stats()["in_flight"].get("up", 0)


def seconds_until(what, *, within=60.0):
    begun = time.monotonic()
    until(what, within=within)
    return time.monotonic() - begun


def seen_for(seconds, what):
    end = time.monotonic() + seconds
    seen = []
    while time.monotonic() < end:
        seen.append(what())
    return seen


@pytest.mark.slow
def test_all_daemons_yield_to_the_interactive_calls_of_one(fleet):
    """20 calls on one daemon leave room for 10 batch requests on all three together; and for all 24 when they are over."""
    fleet.upstream.control(delay=0.3, rules=[{"match": "patient", "action": {"delay": 8}}])
    key = fleet.new_key()
    fleet.create(1, key, REQUESTS)
    seconds_until(lambda: in_flight(fleet) >= CONCURRENCY - 2)

    def call(_):
        with fleet[0].client(key) as client:
            return client.post("/v1/chat/completions", json=chat("", "patient")["body"]).status_code

    with ThreadPoolExecutor(20) as pool:
        calls = pool.map(call, range(20))
        seconds_until(lambda: CAPACITY - 5 <= in_flight(fleet) <= CAPACITY)
        time.sleep(2)  # in which the daemons tell each other, and share the room there is
        seen = seen_for(1.5, lambda: in_flight(fleet))
        assert max(seen) <= CAPACITY
        assert sum(seen) / len(seen) > 20 + 5, "batch work does not stop altogether"
        assert set(calls) == {200}
    seconds_until(lambda: in_flight(fleet) >= CONCURRENCY - 2)


def starts_of(fleet, begun=0):
    """How many requests of each batch have been started, from a line of the model server's log on."""
    return Counter(entry["content"][:3] for entry in fleet.upstream.log_entries()[begun:])


@pytest.mark.slow
def test_turns_are_fair_across_daemons(fleet):
    """An account with three batches gains nothing on one with a single batch, wherever they were created."""
    fleet.upstream.control(delay=0.3)
    many, one = fleet.new_key(), fleet.new_key()
    for index, key in enumerate([many, many, many, one]):
        fleet.create(index % 3, key, 2000)
    fleet.upstream.control(delay=0.05)
    # What was claimed for the first batches while there was no other comes first.
    seconds_until(lambda: starts_of(fleet)["b3 "] >= 100, within=60)
    begun = len(fleet.upstream.log_entries())
    seconds_until(lambda: fleet.upstream.stats()["asked"] >= begun + 1500, within=60)
    starts = starts_of(fleet, begun)
    b0, b1, b2, b3 = (starts[f"b{n} "] for n in range(4))
    assert 0.8 < (b0 + b1 + b2) / b3 < 1.25, starts
    assert max(b0, b1, b2) < 1.5 * min(b0, b1, b2), starts


@pytest.mark.slow
def test_places_that_others_do_not_use_are_there_at_once(fleet):
    """A batch made on one daemon fills all places right away, and so does the next one made on another: sooner than by the
    look that an idle pool takes every five seconds, though the machine may be busy with something else for once."""
    fleet.upstream.control(delay=1.0)
    key = fleet.new_key()
    seconds = []
    for index in (0, 1, 0, 1):
        fleet.create(index, key, 100)
        seconds.append(seconds_until(lambda: in_flight(fleet) == CONCURRENCY))
        with fleet[2].client(key) as client:
            client.post(f"/v1/batches/{fleet.batches[-1].id}/cancel").raise_for_status()
            finished(client, fleet.batches[-1].id)
    assert sorted(seconds)[-2] < 3, seconds


@pytest.mark.slow
def test_a_model_that_one_daemon_has_is_not_gone_for_the_others(fleet):
    """A model comes and goes by configurations that are read anew one after another."""
    more = f'\n[[models]]\nid = "new"\nconcurrency = 4\n[[models.upstreams]]\nurl = "{fleet.upstream.url}/v1"\n'
    before = fleet[1].config.read_text()
    fleet[1].config.write_text(before + more)
    fleet[1].signal(signal.SIGHUP)
    key = fleet.new_key()
    fleet.upstream.control(delay=0.5)
    with fleet[1].client(key) as client:
        seconds_until(lambda: "new" in [model["id"] for model in client.get("/v1/models").json()["data"]])
        requests = [chat(f"q{n}", f"say {n}", "new") for n in range(100)]
        first, second = [
            client.post("/v1/batches", json={"requests": some}).raise_for_status().json()["id"]
            for some in (requests[:20], requests)
        ]
        assert finished(client, first)["request_counts"] == {"total": 20, "completed": 20, "failed": 0}
        fleet[1].config.write_text(before)
        fleet[1].signal(signal.SIGHUP)
        batch = finished(client, second)
        assert batch["request_counts"]["failed"] > 0, "now it is gone for all"
        assert sum(batch["request_counts"][how] for how in ("completed", "failed")) == 100
