"""Stores batches past the daemon, as if they had been created and run: what would take hours by calls."""

import json
import time

from fibatchd.domain.accounts import secret_hash
from fibatchd.ids import new_id
from frame import database
from frame.stand import Stand

MODEL = "m"
ENDPOINT = "/v1/chat/completions"
TO_COME_S = 86_400
AT_ONCE = 1000

_COLUMNS = (
    "id, api, source, account_id, key_id, endpoint, status, prepared, created_at, expires_at, in_progress_at, "
    "completed_at, ended_at, delete_at, total, queued, completed, first_number, reserved"
)


def ended(stand: Stand, batches: int, *, requests: int = 0, answer: bytes = b"{}") -> str:
    """Store batches that are completed, each with so many requests, all answered so; return the id of the last."""
    return _store(stand, batches, requests, "completed", answer)


def queued(stand: Stand, requests: int) -> str:
    """Store a batch none of whose requests has begun; return its id."""
    return _store(stand, 1, requests, "in_progress", None)


def answer_of(size: int) -> bytes:
    """Return a chat completion of so many bytes."""
    answer = {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 200},
    }
    text = json.dumps(answer)
    return text.replace('"content": ""', '"content": "' + "x" * (size - len(text)) + '"').encode()


def _store(stand: Stand, batches: int, requests: int, status: str, answer: bytes | None) -> str:
    account_id, key_id = _owner(stand)
    number, lane = (int(_next(stand, name)) for name in ("requests", "lanes"))
    now = time.time()
    over, left = (now, 0) if answer is not None else ("NULL", requests)
    ids = [new_id("batch_") for _ in range(batches)]
    rows = [
        f"('{batch_id}', 'batches', 'inline', '{account_id}', '{key_id}', '{ENDPOINT}', '{status}', 1, {now}, "
        f"{now + TO_COME_S}, {now}, {over}, {over}, {now + TO_COME_S}, {requests}, {left}, {requests - left}, "
        f"{number + index * requests}, {requests})"
        for index, batch_id in enumerate(ids)
    ]
    lanes = [f"({lane + index}, '{batch_id}', '{account_id}', '{MODEL}', {left})" for index, batch_id in enumerate(ids)]
    database.execute(
        stand,
        *_inserts("batches", _COLUMNS, rows),
        *_inserts("lanes", "id, batch_id, account_id, model, queued", lanes),
        *_requests(stand, batches, requests, number, lane, answer),
        f"UPDATE sequences SET next = next + {batches * requests} WHERE name = 'requests'",
        f"UPDATE sequences SET next = next + {batches} WHERE name = 'lanes'",
    )
    return ids[-1]


def _requests(stand: Stand, batches: int, requests: int, number: int, lane: int, answer: bytes | None) -> list[str]:
    if not requests:
        return []
    status = "queued" if answer is None else "completed"
    numbers = f"WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {batches * requests})"
    body = _bytes(stand, json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}))
    statements = [
        f"INSERT INTO requests (number, lane, status) {numbers} "
        f"SELECT i + {number}, i / {requests} + {lane}, '{status}' FROM n",
        f"INSERT INTO request_bodies (number, custom_id, body) {numbers} SELECT i + {number}, 'q-' || i, {body} FROM n",
    ]
    if answer is not None:
        text = _bytes(stand, answer.decode())
        statements.append(
            f"INSERT INTO results (number, status_code, body) {numbers} SELECT i + {number}, 200, {text} FROM n"
        )
    return statements


def _inserts(table: str, columns: str, rows: list[str]) -> list[str]:
    return [
        f"INSERT INTO {table} ({columns}) VALUES {', '.join(rows[start : start + AT_ONCE])}"
        for start in range(0, len(rows), AT_ONCE)
    ]


def _bytes(stand: Stand, text: str) -> str:
    return f"CAST('{text}' AS {'BLOB' if stand.server is None else 'BYTEA'})"


def _owner(stand: Stand) -> list[str]:
    hashed = secret_hash(stand.key).hex()
    literal = f"X'{hashed}'" if stand.server is None else f"'\\x{hashed}'"
    return database.row(stand, f"SELECT account_id, id FROM keys WHERE hash = {literal}")


def _next(stand: Stand, name: str) -> str:
    (value,) = database.row(stand, f"SELECT next FROM sequences WHERE name = '{name}'")
    return str(value)
