"""A server with file batches, and the sentences its tests are told in. Background jobs run when the test says so."""

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from api import Api, chat, serving
from fibatchd_plugins.files import fibatchd_batch_deleted
from fibatchd_plugins.files.finalizing import FINALIZE, finalize
from fibatchd_plugins.files.housekeeping import Housekeeping
from fibatchd_plugins.files.validation import VALIDATE, validate

from fibatchd.errors import LeaseLost
from fibatchd.store import jobs, leases, sweeps
from fibatchd.store.interface import Query

FILES_ON = """
[extensions]
files = true
"""
JOBS = {VALIDATE: validate, FINALIZE: finalize}


def jsonl(*items: Any, end: bytes = b"\n") -> bytes:
    """A JSONL file of these lines; bytes stand for themselves."""
    lines = [item if isinstance(item, bytes) else json.dumps(item).encode() for item in items]
    return b"".join(line + end for line in lines)


def chats(count: int) -> bytes:
    return jsonl(*[chat(f"q-{number}") for number in range(count)])


@dataclass
class Site:
    """The API with an account `ada`, as `Api` has it, and what is about files."""

    api: Api

    def __getattr__(self, name: str) -> Any:
        return getattr(self.api, name)

    async def post_file(self, content: bytes, filename: str = "in.jsonl", *, by: Any = None, **fields: Any) -> Any:
        """The answer to an upload."""
        data = {"purpose": "batch"} | fields
        return await self.call("POST", "/v1/files", by=by, data=data, files={"file": (filename, content)})

    async def upload(self, content: bytes, **options: Any) -> dict[str, Any]:
        answer = await self.post_file(content, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post_batch(self, file_id: str, *, by: Any = None, headers: Any = (), **members: Any) -> Any:
        body = {"input_file_id": file_id, "endpoint": "/v1/chat/completions", "completion_window": "24h"} | members
        body = {name: value for name, value in body.items() if value is not ...}
        return await self.call("POST", "/v1/batches", by=by, headers=headers, json=body)

    async def new_batch(self, content: bytes, **members: Any) -> dict[str, Any]:
        """A batch of a file with this content, not yet validated."""
        answer = await self.post_batch((await self.upload(content))["id"], **members)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def validated(self, content: bytes, **members: Any) -> dict[str, Any]:
        batch = await self.new_batch(content, **members)
        await self.work(VALIDATE)
        return await self.get(batch["id"])

    def set(self, **batches: Any) -> None:
        """Change settings of [batches], as a reload does."""
        config = self.context.config
        self.context.config = replace(config, batches=replace(config.batches, **batches))

    async def take(self, kind: str) -> jobs.Job | None:
        try:
            return await self.context.store.write(jobs.take, kind, self.context.daemon())
        except LeaseLost:  # the test's clock went on
            return await self.context.store.write(jobs.take, kind, await self.become())

    async def work(self, *kinds: str) -> int:
        """Do the jobs that wait, of all kinds unless some are named; return how many there were."""
        done = 0
        for kind in kinds or JOBS:
            while job := await self.take(kind):
                await JOBS[kind](self.context, job)
                done += 1
        return done

    async def become(self) -> int:
        """Be another daemon from now on."""
        daemon = await self.context.store.write(leases.register, "test")
        self.context.daemon = lambda: daemon
        return daemon

    async def sweep(self) -> None:
        """Do the housekeeping: files', and the purge of deleted batches."""
        await Housekeeping(self.context).sweep()
        while job := await self.take("purge"):
            while await self.context.store.write(sweeps.purge, job.subject):
                pass
            await self.context.store.write(jobs.done, job)

    async def content(self, file_id: str, **options: Any) -> Any:
        return await self.call("GET", f"/v1/files/{file_id}/content", **options)

    async def lines(self, file_id: str) -> list[dict[str, Any]]:
        answer = await self.content(file_id)
        assert answer.status_code == 200, answer.text
        assert answer.content.endswith(b"\n")
        return [json.loads(line) for line in answer.content.decode().splitlines()]

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        def select():
            return (yield Query(sql))

        return await self.context.store.read(select)

    async def chunks(self) -> int:
        """How many pieces of files are stored."""
        ((count,),) = await self.rows("SELECT COUNT(*) FROM file_chunks")
        return count


@asynccontextmanager
async def open_site(tmp_path, store_url: str = "sqlite:fibatchd.db", *, extra: str = "", **batches: Any):
    """Serve; `extra` is added to the configuration, `batches` are settings of [batches]."""
    async with serving(tmp_path, store_url=store_url, extra=FILES_ON + extra) as api:
        api.context.on_delete.append(fibatchd_batch_deleted(api.context))
        site = Site(api)
        site.set(**batches)
        await site.become()
        yield site
