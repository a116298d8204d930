"""The judge of histories is judged: a good history passes, and one for each way to be bad is found to be bad, and for the
reason that it is."""

import copy
import json
from itertools import chain

import pytest
from history import checker
from history.stand import LIMITS

A = "acct_a"


def answer(who, n):
    message = {"role": "assistant", "content": f"{who} #{n}"}
    return json.dumps({"model": "up-fast", "choices": [{"message": message}]})


def asked(n, who, at, *, ended=None, **end):
    end = end or {"outcome": "answered", "answer": answer(who, n), "usage": [10, 5]}
    return [
        {"kind": "attempt", "at": at, "n": n, "who": who, "model": "up-fast"},
        {"kind": "attempt_ended", "at": at + 0.1 if ended is None else ended, "n": n, **end},
    ]


def call(op, at, **told):
    return {"kind": "call", "at": at, "ended": at + 0.1, "op": op, "status": 200, "account": A, "key": "key_1"} | told


def create(batch, tag, count, at, **told):
    names = [f"{tag}-{number}" for number in range(count)]
    return call("create", at, batch=batch, tag=tag, names=names, form="inline", idempotency=None) | told


def done(who, n):
    body = json.loads(answer(who, n).replace("up-fast", "fast"))
    return {"who": who, "status": "completed", "body": body, "code": None}


def final(batch, results, *, unknown=0, **told):
    completed = sum(result["status"] == "completed" for result in results)
    failed = sum(result["status"] in ("failed", "expired") for result in results)
    whole = {
        "status": "completed",
        "expires_at": 2000,
        "request_counts": {"total": len(results), "completed": completed, "failed": failed},
        "usage": {"input_tokens": 10 * completed, "output_tokens": 5 * completed},
        "cost_usd": f"0.{completed * 55:06d}",
        "cost_unknown_attempts": unknown,
    }
    entry = {"kind": "final", "at": 60.0, "batch": batch, "account": A, "form": "inline", "object": whole}
    return entry | {"results": results} | told


def row(table, **columns):
    return {"kind": "row", "at": 70.0, "table": table, **columns}


def spending(way, **sums):
    return row("spending", account=A, way=way, input_tokens=0, output_tokens=0, cost_unknown=0, **sums)


def event(batch, id_="evt_1", type_="batch.completed"):
    return {"kind": "event", "at": 40.0, "id": id_, "type": type_, "batch": batch}


def good():
    """A batch of two, one of which was tried twice; an interactive call; a batch that was deleted."""
    return [
        {"kind": "begun", "at": 0.0, "seed": 1, "limits": LIMITS, "wall": 1000.0},
        create("batch_1", "ta1", 2, 1.0, idempotency="ta1"),
        create("batch_1", "ta1", 2, 1.2, idempotency="ta1"),
        *asked(0, "ta1-0", 2.0),
        *asked(1, "ta1-1", 2.0, outcome="lost"),
        *asked(2, "ta1-1", 3.0),
        call("read", 2.5, batch="batch_1", state="in_progress"),
        create("batch_2", "ta2", 1, 4.0, account="acct_b"),
        call("cancel", 4.2, batch="batch_2", account="acct_b"),
        call("delete", 4.5, batch="batch_2", account="acct_b"),
        call("ask", 5.0, who="ta3-0", said=answer("ta3-0", 3)),
        *asked(3, "ta3-0", 5.0),
        event("batch_1"),
        final("batch_1", [done("ta1-0", 0), done("ta1-1", 2)], unknown=1),
        row("requests", batch="batch_1", who="ta1-0", attempts=1, status="completed"),
        row("requests", batch="batch_1", who="ta1-1", attempts=2, status="completed"),
        row("batches", batch="batch_1", status="completed", deleted=0, running=0, queued=0),
        spending("batch", attempts=3, cost=110_000_000),
        spending("interactive", attempts=1, cost=55_000_000),
        call("delete_file", 6.0, file="file-2"),
        row("files", file="file-3"),
        row("orphans", of="results", count=0),
    ]


def changed(kind, change, **which):
    """A mutation: `change` is done to the first entry of a kind that matches."""

    def mutate(entries):
        found = next(e for e in entries if e["kind"] == kind and which.items() <= e.items())
        change(found)

    return mutate


def without(kind, **which):
    def mutate(entries):
        entries[:] = [e for e in entries if e["kind"] != kind or not which.items() <= e.items()]

    return mutate


def plus(*more):
    def mutate(entries):
        entries += copy.deepcopy(more)

    return mutate


def put(**values):
    return lambda entry: entry.update(values)


def first_result(**values):
    return lambda entry: entry["results"][0].update(values)


def in_object(**values):
    return lambda entry: entry["object"].update(values)


def crowd(count, **told):
    """So many requests of one batch at once."""
    names = [f"tx-{number}" for number in range(count)]
    attempts = [asked(100 + n, who, 20.0, ended=21.0) for n, who in enumerate(names)]
    return plus(create("batch_9", "tx", count, 19.0, **told) | {"status": None}, *chain.from_iterable(attempts))


def crowds():
    """Fewer at once of each account than it may have, and more of all together than the model takes."""

    def mutate(entries):
        for number, account in enumerate(("a1", "a2", "a3")):
            names = [f"tx{number}-{n}" for n in range(8)]
            entries.append(create(f"batch_{account}", f"tx{number}", 8, 19.0, account=account) | {"status": None})
            for n, who in enumerate(names):
                entries.extend(asked(100 + 10 * number + n, who, 20.0, ended=21.0))

    return mutate


def many_batches(entries):
    for number in range(6):
        entries.append(create(f"batch_m{number}", f"tm{number}", 1, 30.0))
        entries.append(call("read", 31.0, batch=f"batch_m{number}", state="in_progress"))
        entries.append(call("delete", 32.0, batch=f"batch_m{number}", status=None))


LATE = asked(50, "ta1-0", 45.0, outcome="lost")
BAD = {
    "acknowledged_batches_exist": [
        plus(create("batch_3", "ta9", 1, 8.0)),
        without("final", batch="batch_1"),
    ],
    "batches_are_whole": [
        changed("final", lambda e: e["results"].pop()),
        changed("final", lambda e: e["results"].reverse()),
        changed("final", put(results=[])),
        without("call", tag="ta1"),
    ],
    "idempotent_creates_make_one_batch": [
        plus(create("batch_3", "ta1", 2, 8.0, idempotency="ta1")),
        plus(final("batch_3", [done("ta1-0", 0), done("ta1-1", 2)])),
    ],
    "results_are_the_upstreams": [
        changed("final", first_result(body=json.loads(answer("ta1-0", 7)))),
        changed("final", first_result(body=json.loads(answer("ta1-1", 2)))),
        changed("final", first_result(body={"choices": []})),
        changed("final", lambda e: e["results"][0]["body"].update(extra=1)),
        changed("final", first_result(status="queued")),
        changed("final", first_result(status="failed", code="invalid_request")),
        changed("attempt_ended", put(outcome="left", answer=None), n=0),
    ],
    "attempts_are_counted_and_limited": [
        plus(*chain.from_iterable(asked(200 + n, "ta1-0", 10.0 + n, outcome="lost") for n in range(8))),
        changed("row", put(attempts=1), who="ta1-1"),
        changed("row", put(attempts=9), who="ta1-1"),
    ],
    "counts_are_those_of_the_results": [
        changed("final", in_object(request_counts={"total": 2, "completed": 1, "failed": 1})),
        changed(
            "final", lambda e: e.update(form="file") or e["object"].update(output_file_id=["ta1-0"], error_file_id=None)
        ),
    ],
    "sums_are_those_of_the_attempts": [
        changed("final", in_object(usage={"input_tokens": 21, "output_tokens": 10})),
        changed("final", in_object(cost_usd="0.000111")),
        changed("final", in_object(cost_unknown_attempts=0)),
        changed("final", in_object(cost_unknown_attempts=2)),
    ],
    "books_are_balanced": [
        changed("row", put(cost=110_000_001), way="batch"),
        changed("row", put(cost=0), way="batch"),
        changed("row", put(attempts=4), way="batch"),
        changed("row", put(attempts=2), way="batch"),
    ],
    "direct_calls_are_booked_once": [
        changed("row", put(attempts=2), way="interactive"),
        changed("row", put(attempts=0), way="interactive"),
        changed("row", put(cost=110_000_000), way="interactive"),
        changed("call", put(said="something else"), op="ask"),
    ],
    "nothing_starts_after_the_end": [
        plus(call("cancel", 40.0, batch="batch_1"), *LATE),
        plus(call("revoke", 40.0, key="key_1"), *LATE, *asked(51, "ta2-0", 45.0)),
        plus(call("suspend", 40.0), *LATE),
        plus(call("suspend", 40.0), call("resume", 46.0), *LATE),
        plus(call("no_access", 40.0), call("access", 50.0), *LATE),
        plus(*asked(50, "ta2-0", 45.0)),
        changed("final", in_object(expires_at=990)),
    ],
    "models_are_not_overrun": [crowds()],
    "accounts_are_not_overrun": [crowd(11)],
    "unfinished_batches_are_limited": [many_batches],
    "every_ended_batch_has_one_event": [
        without("event"),
        plus(event("batch_1", "evt_2")),
        changed("event", put(type="batch.failed")),
        plus(event("batch_2", "evt_3"), event("batch_2", "evt_4")),
    ],
    "what_was_deleted_is_gone": [
        plus(call("delete_file", 6.0, file="file-1"), row("files", file="file-1")),
        plus(row("batches", batch="batch_2", status="cancelled", deleted=1, running=0, queued=0)),
        plus(call("read", 6.0, batch="batch_2", state="cancelled")),
        plus(row("orphans", of="results", count=3)),
    ],
    "nothing_breaks": [plus(call("read", 6.0, batch="batch_1", state=None, status=500))],
    "refusals_say_when_to_come_again": [plus(create(None, "ta4", 1, 6.0, status=503, retry_after=None))],
}
CASES = [(name, number) for name, mutations in BAD.items() for number in range(len(mutations))]


def test_a_good_history_is_good():
    assert checker.check(good()) == []


def test_every_invariant_is_seen_to_fail():
    assert [invariant.__name__ for invariant in checker.INVARIANTS] == list(BAD)


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_bad_history_is_found_bad(name, number):
    entries = good()
    BAD[name][number](entries)
    assert name in {problem.partition(":")[0] for problem in checker.check(entries)}


INNOCENT = {
    "without an answer it may have been done": plus(create("batch_3", "ta9", 1, 8.0) | {"status": None, "batch": None}),
    "a deletion without an answer may have been done": lambda entries: (
        without("final", batch="batch_1")(entries),
        without("row", batch="batch_1")(entries),
        plus(call("delete", 50.0, batch="batch_1", status=None))(entries),
    ),
    "what was claimed may still start": plus(call("cancel", 44.0, batch="batch_1"), *asked(50, "ta2-0", 5.0)),
    "given back, access is there": plus(
        call("no_access", 1.3), call("access", 1.5), call("suspend", 1.6), call("resume", 1.8)
    ),
    "a crash may take what an interactive call spent": lambda entries: (
        changed("row", put(attempts=0, cost=0), way="interactive")(entries),
        plus({"kind": "fault", "name": "kill", "at": 6.0, "ended": 7.0})(entries),
    ),
    "time stood still": plus({"kind": "fault", "name": "stop", "at": 4.0, "ended": 9.0}, *asked(50, "ta2-0", 9.5)),
}


@pytest.mark.parametrize("what", INNOCENT)
def test_what_cannot_be_known_is_not_held_against_it(what):
    entries = good()
    INNOCENT[what](entries)
    assert checker.check(entries) == []
