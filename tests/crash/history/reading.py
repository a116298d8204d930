"""What is there in the end: every batch and result by the API, and the rows of the database."""

import json
import time
from decimal import Decimal
from typing import Any

import apsw
import databases
import trio

from history.client import Client, path_of
from history.driver import FINAL, Account
from history.stand import Stand

SETTLE_S = 120
"""All batches are final, and all events delivered, within this time after the last fault."""

ROWS = {
    "requests": """
        SELECT b.id, q.custom_id, r.attempts, r.status FROM requests r
        JOIN lanes l ON l.id = r.lane JOIN batches b ON b.id = l.batch_id
        JOIN request_bodies q ON q.number = r.number WHERE b.deleted_at IS NULL""",
    "spending": """
        SELECT account_id, way, CAST(SUM(attempts) AS BIGINT), CAST(SUM(input_tokens) AS BIGINT),
            CAST(SUM(output_tokens) AS BIGINT), CAST(SUM(cost) AS BIGINT), CAST(SUM(cost_unknown) AS BIGINT)
        FROM spending GROUP BY account_id, way""",
    "batches": "SELECT id, status, deleted_at IS NOT NULL, running, queued FROM batches",
    "files": "SELECT id FROM files",
}
COLUMNS = {
    "requests": ("batch", "who", "attempts", "status"),
    "spending": ("account", "way", "attempts", "input_tokens", "output_tokens", "cost", "cost_unknown"),
    "batches": ("batch", "status", "deleted", "running", "queued"),
    "files": ("file",),
}
ORPHANS = {
    "requests": "SELECT COUNT(*) FROM requests WHERE lane NOT IN (SELECT l.id FROM lanes l JOIN batches b ON b.id = l.batch_id)",
    "request_bodies": "SELECT COUNT(*) FROM request_bodies WHERE number NOT IN (SELECT number FROM requests)",
    "results": "SELECT COUNT(*) FROM results WHERE number NOT IN (SELECT number FROM requests)",
    "lanes": "SELECT COUNT(*) FROM lanes WHERE batch_id NOT IN (SELECT id FROM batches)",
    "unended requests": """
        SELECT COUNT(*) FROM requests r JOIN lanes l ON l.id = r.lane JOIN batches b ON b.id = l.batch_id
        WHERE (r.lease IS NOT NULL OR r.status = 'running' OR (r.status = 'queued' AND b.closed_as IS NULL))
        AND b.status <> 'staging'""",
    "file_chunks": "SELECT COUNT(*) FROM file_chunks WHERE file_id NOT IN (SELECT id FROM files)",
    "batch files": "SELECT COUNT(*) FROM files WHERE batch_id IS NOT NULL AND batch_id NOT IN (SELECT id FROM batches)",
}
"""Rows that belong to nothing any more, or to nothing that is over: there must be none."""


async def read_all(found: list[Account]) -> None:
    """Wait until everything is over, then write down every batch of every account with its results."""
    end = trio.current_time() + SETTLE_S
    for account in found:
        assert account.stand.upstream.process.poll() is None, "the upstream is to outlive everything"
        for batch, form in await _batches(account.main):
            await _until_final(account.main, batch, end)
            await _read(account, batch, form)
        await _until_delivered(account.main, end)


async def _batches(client: Client) -> list[tuple[str, str]]:
    listed: list[tuple[str, str]] = []
    for path, cursor in (("/v1/batches", "after"), ("/v1/messages/batches", "after_id")):
        after: dict[str, str] = {}
        while True:
            page = _json(await client.call("GET", path, params={"limit": "100"} | after))
            listed += [(item["id"], _form(item)) for item in page["data"]]
            if not page["has_more"]:
                break
            after = {cursor: page["last_id"]}
    return listed


def _form(item: dict[str, Any]) -> str:
    if item.get("type") == "message_batch":
        return "message"
    if item["input_file_id"]:
        return "file"
    return {"/v1/embeddings": "embeddings", "/v1/responses": "responses"}.get(item["endpoint"], "inline")


async def _until_final(client: Client, batch: str, end: float) -> None:
    while await client.look(batch) not in FINAL:
        assert trio.current_time() < end, f"{batch} does not end: {(await client.call('GET', path_of(batch))).text}"  # type: ignore[union-attr]
        await trio.sleep(0.2)


async def _until_delivered(client: Client, end: float) -> None:
    while True:
        page = _json(await client.call("GET", "/v1/batch_webhook/events", params={"limit": "100"}))
        pending = [event for event in page["data"] if event["status"] == "pending"]
        if not pending:
            return
        assert trio.current_time() < end, f"events are not delivered: {pending}"
        await trio.sleep(0.2)


async def _read(account: Account, batch: str, form: str) -> None:
    client = account.main
    began = time.monotonic()
    whole = _json(await client.call("GET", path_of(batch)))
    if form == "message":
        results = [_message(item) for item in _lines(await _body(client, f"{path_of(batch)}/results"))]
    else:
        results = await _pages(client, f"{path_of(batch)}/results")
    for name in ("output_file_id", "error_file_id"):
        if whole.get(name):
            lines = _lines(await _body(client, f"/v1/files/{whole[name]}/content"))
            whole[name] = [line["custom_id"] for line in lines]
    if whole.get("cost_usd") is not None:
        whole["cost_usd"] = str(whole["cost_usd"])
    told = {"batch": batch, "account": account.id, "form": form, "object": whole, "results": results}
    account.stand.history.note("final", at=began, **told)


async def _pages(client: Client, path: str) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    after: dict[str, str] = {}
    while True:
        page = _json(await client.call("GET", path, params={"limit": "1000"} | after))
        results += [
            {
                "who": item["custom_id"],
                "status": item["status"],
                "body": item["response"] and item["response"]["body"],
                "code": item["error"] and item["error"]["code"],
            }
            for item in page["data"]
        ]
        if not page["has_more"]:
            return results
        after = {"after": page["last_id"]}


def _message(item: dict[str, Any]) -> dict[str, Any]:
    result = item["result"]
    statuses = {"succeeded": "completed", "canceled": "cancelled", "errored": "failed", "expired": "expired"}
    code = result["error"]["error"]["type"] if result["type"] == "errored" else None
    return {
        "who": item["custom_id"],
        "status": statuses[result["type"]],
        "body": result.get("message"),
        "code": code,
    }


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.split("\n") if line]


def _json(answer: Any) -> Any:
    assert answer is not None, "no answer, and nothing is wrong any more"
    assert answer.status_code == 200, answer.text
    return answer.json(parse_float=_number)


def _number(text: str) -> float | Decimal:
    # What the upstream wrote is compared as it is; money must keep its last digit.
    number = float(text)
    return number if repr(number) == text else Decimal(text)


async def _body(client: Client, path: str) -> str:
    answer = await client.call("GET", path)
    assert answer is not None
    assert answer.status_code == 200, answer.text
    return str(answer.text)


DELETED = """
SELECT id FROM batches WHERE deleted_at IS NOT NULL UNION ALL SELECT id FROM files WHERE state = 'deleted'
"""


async def until_purged(stand: Stand) -> None:
    """Wait until nothing of what was deleted is left."""
    end = trio.current_time() + SETTLE_S
    while left := await _query(stand, DELETED):
        assert trio.current_time() < end, f"not purged: {left}"
        await trio.sleep(0.2)


async def read_rows(stand: Stand) -> None:
    """Write down the rows of the database, whose daemon has ended."""
    for table, sql in ROWS.items():
        for row in await _query(stand, sql):
            stand.history.note("row", table=table, **dict(zip(COLUMNS[table], row, strict=True)))
    for table, sql in ORPHANS.items():
        ((count,),) = await _query(stand, sql)
        stand.history.note("row", table="orphans", of=table, count=count)


async def _query(stand: Stand, sql: str) -> list[tuple[Any, ...]]:
    if stand.storage.startswith("sqlite:"):
        connection = apsw.Connection(str(stand.folder / "fibatchd.db"), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            return list(connection.execute(sql))
        finally:
            connection.close()
    return await databases.administer(stand.database, sql)
