"""Calls of the API by one key, each written down: what was asked, from when to when, and what was answered."""

import json
import time
from decimal import Decimal
from typing import Any

import httpx2

from history.record import History
from history.work import Work

TIMEOUT_S = 15
ANTHROPIC = {"anthropic-version": "2023-06-01"}


class Client:
    """One key of one account. `get` and its like return None where no answer came."""

    def __init__(self, base: str, account: str, key: str, secret: str, history: History) -> None:
        self.account = account
        self.key = key
        self.files: list[str] = []
        """What it has uploaded."""
        self._history = history
        self._http = httpx2.AsyncClient(base_url=base, timeout=TIMEOUT_S, headers={"x-api-key": secret} | ANTHROPIC)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def call(self, method: str, path: str, **more: Any) -> httpx2.Response | None:
        try:
            return await self._http.request(method, path, **more)
        except httpx2.TransportError:
            return None

    async def noted(self, op: str, method: str, path: str, told: dict[str, Any], **more: Any) -> Any:
        """Make a call and write it down, with what `told` says of it; return the answer's JSON where it is a success."""
        began = time.monotonic()
        answer = await self.call(method, path, **more)
        status = answer.status_code if answer else None
        good = answer.json(parse_float=Decimal) if answer is not None and status == 200 else None
        if good and "id" in good and "batch" not in told:
            told = told | {"batch": good["id"]}
        if status == 503:
            told = told | {"retry_after": answer.headers.get("retry-after")}  # type: ignore[union-attr]
        if status == 500:
            told = told | {"text": answer.text}  # type: ignore[union-attr]
        if good and "state" in told:
            told = told | {"state": good.get("status") or good["processing_status"]}
        names = {"account": self.account, "key": self.key}
        self._history.note("call", at=began, op=op, ended=time.monotonic(), status=status, **names, **told)
        return good

    async def create(self, work: Work, idempotency: str | None) -> str | None:
        """Create a batch; its id, where that was answered."""
        headers = {"idempotency-key": idempotency} if idempotency else {}
        told = {"tag": work.tag, "form": work.form, "names": work.names, "idempotency": idempotency}
        path, body = "/v1/batches", {"requests": work.requests}
        if work.form == "message":
            path = "/v1/messages/batches"
        elif work.form == "file":
            uploaded = await self.upload(work)
            if uploaded is None:
                return None
            told["file"] = uploaded
            body = {"input_file_id": uploaded, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        content = json.dumps(body).encode()
        headers["content-type"] = "application/json"
        for _ in range(2 if idempotency else 1):
            made = await self.noted("create", "POST", path, told, content=content, headers=headers)
            if made:
                return str(made["id"])
        return None

    async def upload(self, work: Work) -> str | None:
        form = {"data": {"purpose": "batch"}, "files": {"file": (f"{work.tag}.jsonl", work.jsonl())}}
        made = await self.noted("upload", "POST", "/v1/files", {"tag": work.tag, "batch": None}, **form)
        if made is None:
            return None
        self.files.append(made["id"])
        return str(made["id"])

    async def delete_file(self, file: str) -> None:
        await self.noted("delete_file", "DELETE", f"/v1/files/{file}", {"file": file, "batch": None})

    async def look(self, batch: str) -> str | None:
        """Read a batch; its status."""
        found = await self.noted("read", "GET", path_of(batch), {"batch": batch, "state": None})
        return (found.get("status") or found["processing_status"]) if found else None

    async def cancel(self, batch: str) -> None:
        await self.noted("cancel", "POST", path_of(batch) + "/cancel", {"batch": batch})

    async def delete(self, batch: str) -> None:
        await self.noted("delete", "DELETE", path_of(batch), {"batch": batch})

    async def ask(self, name: str, body: dict[str, Any]) -> None:
        """An interactive call."""
        began = time.monotonic()
        answer = await self.call("POST", "/v1/chat/completions", json=body)
        status = answer.status_code if answer else None
        said = answer.text if answer is not None and status == 200 else None
        names = {"account": self.account, "key": self.key, "who": name, "said": said}
        self._history.note("call", at=began, op="ask", ended=time.monotonic(), status=status, **names)


def path_of(batch: str) -> str:
    return f"/v1/messages/batches/{batch}" if batch.startswith("msgbatch_") else f"/v1/batches/{batch}"
