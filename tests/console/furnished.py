"""An account as it is after some weeks: batches of every kind and state, days of spending, deliveries, problems.

What takes weeks is written into the store; all else comes by the API, as it does in life.
"""

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

from daemons import chat, finished
from stands import GLM, PHI, QWEN, Account, Stand, chats, line, lines, message

from fibatchd.cli.opening import run
from fibatchd.store.interface import Insert, Script
from fibatchd.store.spending import utc_day

DAY = 86_400
USD = 10**12  # in pico-USD, as the store keeps money
FAR = 10_000_000  # numbers that the daemon, which counts from 1, does not come by
AMOUNT = 1_200
QUESTIONS = ("Summarise the third chapter", "Name the capital of Peru", "Translate “good morning” into Finnish")


@dataclass(frozen=True)
class Furnished:
    stand: Stand
    ada: Account
    grace: Account
    """An account that has nothing yet."""
    batches: dict[str, str]
    """Ids: `ended`, `running`, `problems`, `waiting`, `mixed`."""


def furnish(stand: Stand) -> Furnished:
    ada, grace = stand.account("Ada Lovelace", "pro"), stand.account("Grace Hopper")
    write(stand, history, ada, time.time())
    ada.api.put("/v1/batch_webhook", json={"url": stand.receiver.url}).raise_for_status()
    mixed = ada.submit_file(
        lines(40, "Classify this review") + lines(3, "please fail").replace('"q-', '"r-'),
        "reviews-november.jsonl",
        metadata={"description": "Sentiment of the November reviews"},
    )
    finished(ada.api, mixed)
    finished(ada.api, ada.submit(chats(12, "Describe the picture"), metadata={"project": "captions", "run": "17"}))
    cancelled = ada.submit(chats(30, "please hold"), metadata={"project": "captions", "run": "18"})
    ada.api.post(f"/v1/batches/{cancelled}/cancel").raise_for_status()
    stand.rules({"match": "please hold", "action": {}})
    problems = ada.submit_file(
        lines(4) + "{broken\n" + line("q-1", "again") + line("q-9", "x", "gpt-unknown"), "broken.jsonl"
    )
    ada.submit_messages([message(f"m-{number}", "Write a haiku") for number in range(20)])
    stand.rules({"match": PHI, "action": {"status": 429, "headers": {"retry-after": "600"}}})
    waiting = ada.submit(chats(25, "Extract the dates", PHI), metadata={"project": "archive"})
    running = ada.submit_file(
        lines(1_500, "please wait", QWEN), "nightly-evaluation-2026-11-30.jsonl", metadata={"suite": "nightly"}
    )
    stand.admin.api.post(f"/v1/admin/models/{PHI}/drain").raise_for_status()
    ids = {"mixed": mixed, "problems": problems, "waiting": waiting, "running": running}
    (ended,) = [each["id"] for each in batches(ada) if each["label"] == "nightly-evaluation-2026-11-29.jsonl"]
    return Furnished(stand, ada, grace, ids | {"ended": ended})


def batches(account: Account) -> list[dict[str, str]]:
    found: list[dict[str, str]] = account.api.get("/v1/account/batches?limit=100").raise_for_status().json()["data"]
    return found


def write(stand: Stand, script, *args) -> None:
    """Run a script on the store, beside the daemon."""
    run(stand.daemon.config, lambda opened: opened.store.write(script, *args))


def history(owner: Account, now: float) -> Script[None]:
    """A month of spending, and a large batch that ended yesterday."""
    chance = random.Random(7)
    yield Insert("spending", SPENDING, list(spending(owner, now, chance)))
    began, ended = now - DAY - 4_000, now - DAY
    batch_id = id_of(began)
    failed = sum(1 for number in range(AMOUNT) if fails(number))
    yield Insert("batches", BATCHES, [(
        batch_id, "batches", "inline", owner.id, owner.key_id, "/v1/chat/completions", "completed", 1, began - 3, began + DAY,
        began, ended, ended, now + 6 * DAY, AMOUNT, AMOUNT - failed, failed, AMOUNT * 180, AMOUNT * 95, 6 * USD // 10, 3,
        FAR, AMOUNT, GLM, json.dumps({"suite": "nightly"}), "nightly-evaluation-2026-11-29.jsonl",
    )])  # fmt: skip
    yield Insert("lanes", ("id", "batch_id", "account_id", "model", "queued"), [(FAR, batch_id, owner.id, GLM, 0)])
    yield Insert("requests", REQUESTS, [request(number, began, chance) for number in range(AMOUNT)])
    bodies = [(FAR + number, f"case-{number:04}", body(number)) for number in range(AMOUNT)]
    yield Insert("request_bodies", ("number", "custom_id", "body"), bodies)
    answers = [(FAR + number, 200, answer(number)) for number in range(AMOUNT) if not fails(number)]
    yield Insert("results", ("number", "status_code", "body"), answers)


SPENDING = (
    "account_id", "day", "model", "way", "attempts", "input_tokens", "cached_tokens", "output_tokens", "cost", "cost_unknown",
)  # fmt: skip
BATCHES = (
    "id", "api", "source", "account_id", "key_id", "endpoint", "status", "prepared", "created_at", "expires_at",
    "in_progress_at", "completed_at", "ended_at", "delete_at", "total", "completed", "failed", "input_tokens",
    "output_tokens", "cost", "cost_unknown", "first_number", "reserved", "model", "metadata", "label",
)  # fmt: skip
REQUESTS = (
    "number", "lane", "status", "attempts", "started_at", "ended_at", "error_code", "error_message", "error_status",
)  # fmt: skip


def spending(owner: Account, now: float, chance: random.Random) -> Iterator[tuple[object, ...]]:
    for ago in range(30):
        day = time.gmtime(now - ago * DAY)
        share = (0.15 if day.tm_wday >= 5 else 1) * chance.uniform(0.5, 1.1)
        for model, way, dollars in ((GLM, "batch", 6.1), (QWEN, "batch", 4.4), (GLM, "interactive", 1.2)):
            cost = int(dollars * share * USD)
            yield (
                owner.id,
                utc_day(now - ago * DAY),
                model,
                way,
                cost // 10**9,
                cost // 150_000,
                0,
                cost // 400_000,
                cost,
                0,
            )


def id_of(at: float) -> str:
    """An id as one made at that time would be (UUIDv7)."""
    return f"batch_{int(at * 1000) << 80 | 0x7 << 76 | 0x2 << 62:032x}"


def fails(number: int) -> bool:
    return number % 61 == 5


def request(number: int, began: float, chance: random.Random) -> tuple[object, ...]:
    """One row: the load rises and falls over the hour, and so does the time that a request takes."""
    at = began + 4_000 * (number / AMOUNT) ** 0.8
    took = 1.5 + 2.5 * (number / AMOUNT) + chance.expovariate(0.8)
    error = (
        ("failed", 8, "timeout", "The model did not answer within 600 seconds", None)
        if fails(number)
        else ("completed", 1, None, None, None)
    )
    status, attempts, code, text, http = error
    return FAR + number, FAR, status, attempts, at, min(at + took, began + 4_000), code, text, http


def body(number: int) -> bytes:
    return json.dumps(chat("", QUESTIONS[number % 3], GLM, temperature=0.2, max_tokens=400)["body"]).encode()


def answer(number: int) -> bytes:
    text = "Lima is the capital of Peru. It lies on the Pacific coast, in the valleys of the Chillón, Rímac and Lurín rivers."
    return json.dumps({
        "id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": GLM,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 180, "completion_tokens": 95, "total_tokens": 275},
    }).encode()  # fmt: skip
