"""Failed attempts in the log: one line each, capped, and never what was asked or answered."""

import structlog
import trio

from fibatchd.domain.requests import Claimed, Failure, Outcome
from fibatchd.scheduler.failures import MOST, PERIOD_S, Failures

CLAIMED = Claimed(7, 2, 1, 1, "batch_1", "acct_1", "key_1", "m", "/v1/chat/completions", None, b"prompt")


def failed(**more):
    return Outcome(CLAIMED, "req_1", failure=Failure("invalid_request", "it said: prompt", 400), **more)


def test_a_line():
    with structlog.testing.capture_logs() as lines:
        Failures().note(failed(retry_in=1.234))
    assert lines == [
        {
            "event": "attempt failed", "log_level": "warning", "batch": "batch_1", "request": "batch_req_7", "request_id": "req_1",
            "attempt": 2, "model": "m", "code": "invalid_request", "status": 400, "retry_in": 1.2,
        }
    ]  # fmt: skip


def test_what_is_no_failed_attempt():
    with structlog.testing.capture_logs() as lines:
        Failures().note(Outcome(CLAIMED, "req_1", answer=(200, b"{}")))
        Failures().note(Outcome(CLAIMED, "", sent=False))
    assert lines == []


async def test_no_more_than_so_many_a_minute(autojump_clock):
    failures = Failures()
    with structlog.testing.capture_logs() as lines:
        async with trio.open_nursery() as nursery:
            await nursery.start(failures.run)
            for _ in range(1000):
                failures.note(failed())
            await trio.sleep(PERIOD_S + 1)
            for _ in range(5):
                failures.note(failed())
            await trio.sleep(PERIOD_S)
            for _ in range(MOST + 3):
                failures.note(failed())
            nursery.cancel_scope.cancel()
    shown = [line["event"] == "attempt failed" for line in lines]
    told = [line["left_out"] for line in lines if "left_out" in line]
    assert shown == [True] * MOST + [False] + [True] * 5 + [True] * MOST + [False]
    assert told == [1000 - MOST, 3], "the last number also when it stops"
