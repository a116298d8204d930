"""Jobs that something happens to at every single step: nothing is lost, doubled or left behind."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from api import success
from fibatchd_plugins.files.finalizing import FINALIZE
from fibatchd_plugins.files.validation import VALIDATE
from site_files import JOBS, Site, chats

from fibatchd.errors import StoreUnavailable
from fibatchd.store import leases

pytestmark = pytest.mark.slow

REQUESTS = 9


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """A short file has many pieces."""
    monkeypatch.setattr("fibatchd_plugins.files.writing.CHUNK_BYTES", 400)
    monkeypatch.setattr("fibatchd_plugins.files.validation.LINES_AT_ONCE", 2)
    monkeypatch.setattr("fibatchd.web.reading.PIECE_ROWS", 2)
    monkeypatch.setattr("fibatchd.store.admission.REMOVE_CHUNK", 2)


@dataclass
class Steps:
    """Counts the calls of a store, and makes something happen before the one numbered `at`."""

    site: Site
    happen: Callable[[], Awaitable[None]]
    at: int
    count: int = 0
    _calls: dict[str, Any] = field(default_factory=dict)

    def __enter__(self):
        for name in ("read", "write"):
            self._calls[name] = getattr(self.site.store, name)
            setattr(self.site.store, name, self._counting(self._calls[name]))
        return self

    def __exit__(self, *_):
        for name, call in self._calls.items():
            setattr(self.site.store, name, call)

    def _counting(self, call):
        async def counted(script, *arguments, **options):
            self.count += 1
            if self.count == self.at:
                self.__exit__()
                try:
                    await self.happen()
                finally:
                    self.__enter__()
            return await call(script, *arguments, **options)

        return counted


async def interrupted(site, kind, happen, at) -> bool:
    """Do the job of this kind, something happening before its step `at`; False where it has fewer steps."""
    job = await site.take(kind)
    assert job is not None
    with Steps(site, happen, at) as steps:
        try:
            await JOBS[kind](site.context, job)
        except StoreUnavailable:
            await take_over(site)
    return steps.count >= at


async def take_over(site):
    """The daemon is lost; another one, which the test is from now on, takes over."""
    lost = site.context.daemon()
    await site.become()
    while await site.context.store.write(leases.take_over, lost, 8, site.context.policy):
        pass
    await site.context.store.write(leases.forget, lost)


async def gone():
    raise StoreUnavailable("the connection was lost")


async def at_every_step(site, prepare, kind, event, check):
    at = 1
    while True:
        batch = await prepare(site)

        async def happen(batch=batch):
            await event(site, batch)

        went = await interrupted(site, kind, happen, at)
        while await site.work():
            pass
        await check(site, batch, went)
        await site.call("DELETE", f"/v1/batches/{batch['id']}")
        await site.call("DELETE", f"/v1/files/{batch['input_file_id']}")
        await site.sweep()
        for table in (
            "files",
            "file_chunks",
            "file_batches",
            "batches",
            "requests",
            "request_bodies",
            "results",
            "jobs",
            "lanes",
        ):
            assert await site.rows(f"SELECT * FROM {table}") == [], (table, at)
        if not went:
            return at
        at += 1


async def to_validate(site):
    return await site.new_batch(chats(REQUESTS))


async def to_finalize(site):
    batch = await site.validated(chats(REQUESTS))
    await site.run(batch["id"])
    return batch


async def lose_the_store(site, batch):
    await gone()


async def lose_the_lease(site, batch):
    """Another daemon takes the job over and does it, while this one goes on."""
    await take_over(site)
    while await site.work():
        pass


async def lose_the_lease_half_way(site, batch):
    """Another daemon takes the job over and has only begun, while this one goes on."""
    await take_over(site)
    job = None
    for kind in JOBS:
        job = job or await site.take(kind)
    assert job is not None
    with Steps(site, gone, 6), suppress(StoreUnavailable):
        await JOBS[job.kind](site.context, job)
    await take_over(site)


async def cancel(site, batch):
    await site.call("POST", f"/v1/batches/{batch['id']}/cancel")


async def delete(site, batch):
    assert (await site.call("DELETE", f"/v1/batches/{batch['id']}")).status_code == 200
    await site.sweep()


async def runs_whole(site, batch, went):
    found = await site.get(batch["id"])
    assert found["status"] == "in_progress"
    assert found["request_counts"]["total"] == REQUESTS
    claimed = await site.claim(batch["id"])
    assert len(claimed) == len({one.number for one in claimed}) == REQUESTS
    assert len(await site.rows("SELECT number FROM requests")) == REQUESTS
    assert len(await site.rows("SELECT number FROM request_bodies")) == REQUESTS
    await site.end(*[success(one) for one in claimed])
    await site.work()


async def has_its_files(site, batch, went):
    found = await site.get(batch["id"])
    assert found["status"] == "completed"
    assert [line["custom_id"] for line in await site.lines(found["output_file_id"])] == [
        f"q-{n}" for n in range(REQUESTS)
    ]
    await site.sweep()
    assert len(await site.rows("SELECT id FROM files")) == 2


async def is_cancelled(site, batch, went):
    found = await site.get(batch["id"])
    if not went:
        return
    assert found["status"] == "cancelled"
    if found["request_counts"]["total"] == 0:
        assert await site.rows("SELECT number FROM requests") == []
        assert found["error_file_id"] is None
    else:
        assert len(await site.lines(found["error_file_id"])) == REQUESTS


async def is_gone(site, batch, went):
    answer = await site.call("GET", f"/v1/batches/{batch['id']}")
    assert answer.status_code == (404 if went else 200)


@pytest.mark.parametrize("event", [lose_the_store, lose_the_lease, lose_the_lease_half_way])
async def test_validation_starts_over(each_site, event):
    assert await at_every_step(each_site, to_validate, VALIDATE, event, runs_whole) > 15


@pytest.mark.parametrize(("event", "check"), [(cancel, is_cancelled), (delete, is_gone)])
async def test_a_batch_ends_while_it_is_validated(each_site, event, check):
    assert await at_every_step(each_site, to_validate, VALIDATE, event, check) > 15


@pytest.mark.parametrize("event", [lose_the_store, lose_the_lease, lose_the_lease_half_way, cancel])
async def test_finalizing_starts_over(each_site, event):
    assert await at_every_step(each_site, to_finalize, FINALIZE, event, has_its_files) > 10


async def test_a_batch_is_deleted_while_it_is_finalizing(each_site):
    assert await at_every_step(each_site, to_finalize, FINALIZE, delete, is_gone) > 10
