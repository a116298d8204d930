"""The invariants: pure functions of a history. Each yields what is wrong, in words; nothing where all is well.

What cannot be known is not demanded: a call without an answer may have been done or not, an attempt that was cut counts and
its cost is unknown. What was promised is demanded to the last digit.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from math import inf

from fibatchd.money import parse_usd
from history import answers
from history.record import Entry
from history.story import Attempt, Story, index

SLACK_S = 2.0
"""What was claimed when a batch was closed, or its owner's rights ended, may still be started: a claim, its stock of half a
second, and a process that was not given the processor meanwhile. See docs/reliability.md."""

FATAL = {"invalid_request": 400, "model_not_found": 404, "invalid_request_error": 400, "not_found_error": 404}
"""Codes of results that only the upstream's own refusal gives, in a world where every request is good."""

Found = Iterator[str]


def check(entries: list[Entry]) -> list[str]:
    """All that is wrong with a history."""
    story = index(entries)
    return [f"{invariant.__name__}: {problem}" for invariant in INVARIANTS for problem in invariant(story)]


def acknowledged_batches_exist(story: Story) -> Found:
    gone = story.deletions(acknowledged=False)
    for call in story.created():
        if call["batch"] not in story.finals and call["batch"] not in gone:
            yield f"{call['batch']} ({call['tag']}) was acknowledged and is not there"


def batches_are_whole(story: Story) -> Found:
    tags = story.tags()
    for batch, final in story.finals.items():
        if not final["results"]:
            if final["form"] != "file":
                yield f"{batch} has no requests"
            continue
        tag = story.tag(batch)
        if tag not in tags:
            yield f"{batch} is of {tag}, which nobody asked for"
        elif story.names(batch) != tags[tag]["names"]:
            yield f"{batch} has {len(story.names(batch))} requests, not the {len(tags[tag]['names'])} of {tag} in their order"


def idempotent_creates_make_one_batch(story: Story) -> Found:
    by_key: dict[tuple[str, str], set[str]] = defaultdict(set)
    for call in story.created():
        if call["idempotency"]:
            by_key[call["account"], call["idempotency"]].add(call["batch"])
    for (_, key), batches in by_key.items():
        if len(batches) > 1:
            yield f"key {key} made {sorted(batches)}"
    tagged = Counter(story.tag(batch) for batch, final in story.finals.items() if final["results"])
    sent = Counter(call["tag"] for call in story.calls["create"] if not call["idempotency"])
    for tag, count in tagged.items():
        if count > max(1, sent[tag]):
            yield f"{count} batches of {tag}"


def results_are_the_upstreams(story: Story) -> Found:
    for batch, final in story.finals.items():
        for result in final["results"]:
            if result["status"] not in ("completed", "failed", "cancelled", "expired"):
                yield f"{batch}: {result['who']} is {result['status']} in the end"
            elif result["status"] == "completed":
                yield from _one_answer(story, batch, final["form"], result)
            elif expected := FATAL.get(result["code"] or ""):
                given = [attempt.status for attempt in story.by_who[result["who"]]]
                if expected not in given:
                    yield f"{batch}: {result['who']} failed by {result['code']}, the upstream said {given}"


def _one_answer(story: Story, batch: str, form: str, result: Entry) -> Found:
    number = answers.number_of(form, result["body"])
    if number is None:
        yield f"{batch}: {result['who']} has a result that is no answer: {str(result['body'])[:200]}"
        return
    attempt = story.attempts.get(number)
    if attempt is None or attempt.who != result["who"]:
        yield f"{batch}: {result['who']} has the answer of attempt {number}, which was for {attempt and attempt.who}"
    elif not answers.is_answer(form, result["body"], attempt):
        yield f"{batch}: {result['who']} has not what the upstream answered to attempt {number}"


def attempts_are_counted_and_limited(story: Story) -> Found:
    rows = {row["who"]: row["attempts"] for row in story.rows["requests"]}
    limit = story.limits["attempts"]
    for who, seen in story.by_who.items():
        if len(seen) > limit:
            yield f"{who} was asked {len(seen)} times"
        if who in rows and len(seen) > rows[who]:
            yield f"{who} was asked {len(seen)} times, and {rows[who]} were counted"
    for who, counted in rows.items():
        if counted > limit:
            yield f"{who} has {counted} attempts"


def counts_are_those_of_the_results(story: Story) -> Found:
    for batch, final in story.finals.items():
        counts = Counter(result["status"] for result in final["results"])
        whole, given = final["object"], final["object"]["request_counts"]
        failed = counts["failed"] + counts["expired"]
        if final["form"] == "message":
            wanted = {
                "processing": 0,
                "succeeded": counts["completed"],
                "errored": counts["failed"],
                "canceled": counts["cancelled"],
                "expired": counts["expired"],
            }
        else:
            wanted = {"total": counts.total(), "completed": counts["completed"], "failed": failed}
        if given != wanted:
            yield f"{batch} counts {given}, its results {wanted}"
        if final["form"] == "file" and counts.total():
            done, bad = len(whole["output_file_id"] or ()), len(whole["error_file_id"] or ())
            if (done, bad) != (counts["completed"], counts.total() - counts["completed"]):
                yield f"{batch} has {done} lines in its output file and {bad} in its error file, its results are {counts}"


def sums_are_those_of_the_attempts(story: Story) -> Found:
    """Usage and cost to the last digit; unknown costs between what the upstream saw and what was counted."""
    counted: Counter[str] = Counter()
    for row in story.rows["requests"]:
        counted[row["batch"]] += row["attempts"]
    for batch, final in story.finals.items():
        if final["form"] == "message":  # its object has no sums; its account's books have
            continue
        used = _used(story, final)
        given = final["object"]["usage"]
        if (given["input_tokens"], given["output_tokens"]) != used:
            yield f"{batch} used {given}, its results {used}"
        if parse_usd(final["object"]["cost_usd"]) != _price(story, used):
            yield f"{batch} cost {final['object']['cost_usd']}, its results {_price(story, used)} pico-USD"
        unknown, done = final["object"]["cost_unknown_attempts"], _done(final)
        seen = [attempt for who in story.names(batch) for attempt in story.by_who[who]]
        least = len(seen) - done - sum(attempt.costs_nothing for attempt in seen)
        most = counted[batch] - done
        if batch in counted and not least <= unknown <= most:
            yield f"{batch} has {unknown} attempts of unknown cost, there were {least} to {most}"


def _used(story: Story, final: Entry) -> tuple[int, int]:
    given = out = 0
    for result in final["results"]:
        if result["status"] == "completed":
            attempt = story.attempts.get(answers.number_of(final["form"], result["body"]))  # type: ignore[arg-type]
            usage = (attempt and attempt.usage) or (0, 0)
            given += usage[0]
            out += 0 if final["form"] == "embeddings" else usage[1]
    return given, out


def _price(story: Story, used: tuple[int, int]) -> int:
    price = story.limits["price"]
    return int(used[0] * price["input"] + used[1] * price["output"])


def _done(final: Entry) -> int:
    return sum(result["status"] == "completed" for result in final["results"])


def books_are_balanced(story: Story) -> Found:
    """An account's books of batches hold what its batches do, and no more than that where none was deleted."""
    lost = story.deletions(acknowledged=False)
    loose = {call["account"] for call in story.calls["delete"] if call["batch"] in lost}
    for row in story.rows["spending"]:
        if row["way"] != "batch":
            continue
        mine = {batch: final for batch, final in story.finals.items() if final["account"] == row["account"]}
        tries = sum(r["attempts"] for r in story.rows["requests"] if r["batch"] in mine)
        cost = sum(_price(story, _used(story, final)) for final in mine.values())
        exact = row["account"] not in loose
        if row["cost"] < cost or (exact and row["cost"] != cost):
            yield f"{row['account']} is booked {row['cost']} pico-USD, its batches cost {cost}"
        if row["attempts"] < tries or (exact and row["attempts"] != tries):
            yield f"{row['account']} is booked {row['attempts']} attempts, its batches had {tries}"


def direct_calls_are_booked_once(story: Story) -> Found:
    """What interactive calls spent is booked at most once, and but for what a crash may take, at least once."""
    for row in story.rows["spending"]:
        if row["way"] != "interactive":
            continue
        asked = [call for call in story.calls["ask"] if call["account"] == row["account"]]
        seen = [attempt for call in asked for attempt in story.by_who[call["who"]]]
        most = sum(_price(story, attempt.usage) for attempt in seen if attempt.usage)
        sure = [call for call in asked if call["status"] == 200 and not _may_be_lost(story, call)]
        tries = len(sure)
        if row["attempts"] > len(seen) or row["cost"] > most:
            yield f"{row['account']}: {row['attempts']} calls booked for {row['cost']}, {len(seen)} were made for {most}"
        if row["attempts"] < tries:
            yield f"{row['account']}: {row['attempts']} calls booked, {tries} were answered with nothing amiss"
    for call in story.calls["ask"]:
        if call["said"] is not None:
            answer = next((a for a in story.by_who[call["who"]] if a.answer and f"#{a.n}" in call["said"]), None)
            if answer is None:
                yield f"{call['who']} was answered what the upstream did not say"


BOOKED_WITHIN_S = 10.0


def _may_be_lost(story: Story, call: Entry) -> bool:
    """Whether anything was wrong from the call on until it must have been booked."""
    return story.fault_time(call["at"], call["ended"] + BOOKED_WITHIN_S) > 0 or any(
        call["at"] <= fault["at"] <= call["ended"] + BOOKED_WITHIN_S for fault in story.faults
    )


def nothing_starts_after_the_end(story: Story) -> Found:
    """After a batch was cancelled, deleted or expired, its key revoked, its account suspended or without access."""
    for names, since, until in (*_closings(story), *_withdrawals(story)):
        for who in names:
            for attempt in story.by_who[who]:
                late = attempt.at - since - story.fault_time(since, attempt.at)
                if late > SLACK_S and attempt.at < until:
                    yield f"{who} was started {late:.2f} s after its end"


Stop = tuple[list[str], float, float]
"""Requests, from when on none of them may start, and until when; at the latest."""


def _closings(story: Story) -> Iterator[Stop]:
    names = {call["batch"]: call["names"] for call in story.created()}
    for call in (*story.calls["cancel"], *story.calls["delete"]):
        if call["status"] == 200 and call["batch"] in names:
            yield names[call["batch"]], call["ended"], inf
    if story.clock_was_stepped():
        return  # what is over when is then another's to say
    for final in story.finals.values():
        if final["form"] != "message":
            closed_at = final["object"]["expires_at"] + 1 - story.begun["wall"]  # it is told in whole seconds
            yield [result["who"] for result in final["results"]], closed_at, inf


def _withdrawals(story: Story) -> Iterator[Stop]:
    for create in story.created():
        for call in story.calls["revoke"]:
            # A batch that two calls asked for runs under the key of either.
            if call["status"] == 200 and call["key"] == create["key"] and not create["idempotency"]:
                yield create["names"], call["ended"], inf
        for taken, given in (("suspend", "resume"), ("no_access", "access")):
            for span in _spans(story, create["account"], taken, given):
                yield create["names"], *span


def _spans(story: Story, account: str, taken: str, given: str) -> Iterator[tuple[float, float]]:
    """When an account was without something: from the acknowledgement until the first attempt to give it back."""
    for call in story.calls[taken]:
        if call["account"] == account and call["status"] == 200:
            backs = [back["at"] for back in story.calls[given] if back["account"] == account]
            yield call["ended"], min((at for at in backs if at > call["ended"]), default=inf)


def models_are_not_overrun(story: Story) -> Found:
    for model, limit in story.limits["concurrency"].items():
        batched = [a for a in story.attempts.values() if a.model == model and not _is_direct(story, a)]
        most = _most_at_once(_span(attempt) for attempt in batched)
        if most > limit:
            yield f"{most} requests at once at {model}, which takes {limit}"


def accounts_are_not_overrun(story: Story) -> Found:
    owner = {name: call["account"] for call in story.calls["create"] for name in call["names"]}
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for attempt in story.attempts.values():
        if attempt.who in owner:
            spans[owner[attempt.who]].append(_span(attempt))
    for account, found in spans.items():
        if (most := _most_at_once(found)) > story.limits["account_concurrency"]:
            yield f"{most} requests of {account} at once"


def unfinished_batches_are_limited(story: Story) -> Found:
    """A batch is surely unfinished from its create's answer until the beginning of the last call that saw it so."""
    seen: dict[str, float] = {}
    for call in story.calls["read"]:
        if call["state"] not in (None, "completed", "failed", "expired", "cancelled", "ended", "finalizing"):
            seen[call["batch"]] = max(seen.get(call["batch"], 0.0), call["at"])
    spans: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    for call in story.created():
        if seen.get(call["batch"], 0.0) > call["ended"]:
            spans[call["account"]].setdefault(call["batch"], (call["ended"], seen[call["batch"]]))
    for account, found in spans.items():
        if (most := _most_at_once(found.values())) > story.limits["unfinished_batches"]:
            yield f"{account} had {most} unfinished batches at once"


NOTICED_S = 1.0
"""The upstream sees this much later, at most, that its client has gone."""


def _span(attempt: Attempt) -> tuple[float, float]:
    left = attempt.outcome == "left"
    return attempt.at, max(attempt.at, attempt.ended - NOTICED_S) if left else attempt.ended


def _is_direct(story: Story, attempt: Attempt) -> bool:
    return any(call["who"] == attempt.who for call in story.calls["ask"])


def _most_at_once(spans: Iterable[tuple[float, float]]) -> int:
    moments = sorted(moment for begin, end in spans for moment in ((begin, 1), (end, -1)))
    most = now = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most


def every_ended_batch_has_one_event(story: Story) -> Found:
    ids: dict[str, set[str]] = defaultdict(set)
    for event in story.events:
        if event["batch"] is not None:
            ids[event["batch"]].add(event["id"])
    for batch, final in story.finals.items():
        status = final["object"].get("status")
        wanted = "message_batch.ended" if final["form"] == "message" else f"batch.{status}"
        types = {event["type"] for event in story.events if event["batch"] == batch}
        if len(ids[batch]) != 1 or types != {wanted}:
            yield f"{batch} ended {status} and told {sorted(types)} under {len(ids[batch])} ids"
    for batch, found in ids.items():
        if len(found) > 1 and batch not in story.finals:
            yield f"{batch}, since deleted, told {len(found)} events"


def what_was_deleted_is_gone(story: Story) -> Found:
    files = {row["file"] for row in story.rows["files"]}
    for call in story.calls["delete_file"]:
        if call["status"] == 200 and call["file"] in files:
            yield f"{call['file']} was deleted and is there"
    for batch in story.deletions(acknowledged=True):
        if batch in story.finals or any(row["batch"] == batch for row in story.rows["batches"]):
            yield f"{batch} was deleted and is there"
        deleted_at = min(c["ended"] for c in story.calls["delete"] if c["batch"] == batch and c["status"] == 200)
        for call in story.calls["read"]:
            if call["batch"] == batch and call["at"] > deleted_at and call["status"] == 200:
                yield f"{batch} was read after it had been deleted"
    for row in story.rows["orphans"]:
        if row["count"]:
            yield f"{row['count']} rows are left in {row['of']}"


def nothing_breaks(story: Story) -> Found:
    for calls in story.calls.values():
        for call in calls:
            passed_on = any(attempt.status == 500 for attempt in story.by_who[call.get("who") or ""])
            if call["status"] == 500 and not passed_on:
                yield f"{call['op']} was answered 500: {call.get('text')}"


def refusals_say_when_to_come_again(story: Story) -> Found:
    for call in (*story.calls["create"], *story.calls["upload"]):
        if call["status"] == 503 and not call.get("retry_after"):
            yield f"{call['op']} of {call['tag']} was refused without a time to come again"


INVARIANTS: list[Callable[[Story], Found]] = [
    acknowledged_batches_exist,
    batches_are_whole,
    idempotent_creates_make_one_batch,
    results_are_the_upstreams,
    attempts_are_counted_and_limited,
    counts_are_those_of_the_results,
    sums_are_those_of_the_attempts,
    books_are_balanced,
    direct_calls_are_booked_once,
    nothing_starts_after_the_end,
    models_are_not_overrun,
    accounts_are_not_overrun,
    unfinished_batches_are_limited,
    every_ended_batch_has_one_event,
    what_was_deleted_is_gone,
    nothing_breaks,
    refusals_say_when_to_come_again,
]
