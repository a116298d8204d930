"""A tiny model of batches and their requests: plain objects, no database, no cleverness. What the store must agree with."""

from dataclasses import dataclass
from typing import Any

from fibatchd.domain import states

MAX_ATTEMPTS = 3


@dataclass
class Request:
    """One request. `holder` is the daemon that runs it; `due_at` when it may run (again)."""

    model: str
    status: str = "queued"
    attempts: int = 0
    due_at: float = 0.0
    holder: int | None = None

    def lose(self) -> None:
        """Its daemon is gone: it runs again unless this was its last attempt."""
        self.status = "failed" if self.attempts >= MAX_ATTEMPTS else "queued"
        self.holder, self.due_at = None, 0.0


@dataclass
class Batch:
    """One batch, and how it was closed."""

    id: str
    owner: Any
    first: int
    expires_at: float
    requests: list[Request]
    finalizer: bool
    prepared: bool
    started: bool = False
    closed_as: str | None = None
    cancelled: bool = False
    final: str | None = None
    ended_at: float = 0.0
    deleted: bool = False
    cost: int = 0
    unknown: int = 0
    reserved: Any = None

    def open_at(self, now: float) -> bool:
        """Whether its queued requests may be claimed."""
        return self.prepared and self.closed_as is None and not self.deleted and now < self.expires_at

    def due(self, model: str, now: float) -> list[Request]:
        waiting = [r for r in self.requests if r.model == model and r.status == "queued" and r.due_at <= now]
        return waiting if self.open_at(now) else []

    @property
    def running(self) -> list[Request]:
        return [r for r in self.requests if r.status == "running"]

    def close(self, how: str, now: float) -> None:
        if self.closed_as is None and self.final is None and not self.deleted:
            self.closed_as = how
        self.settle(now)

    @property
    def over(self) -> bool:
        if not self.prepared:
            return self.closed_as is not None
        return not self.running and (self.closed_as is not None or all(r.status != "queued" for r in self.requests))

    def counts(self) -> dict[str, int]:
        """Return how many requests read as each status; none before it is prepared."""
        found = dict.fromkeys(("queued", "running", "completed", "failed", "cancelled", "expired"), 0)
        for request in self.requests if self.prepared else []:
            found[(self.closed_as or "queued") if request.status == "queued" else request.status] += 1
        return found

    @property
    def status(self) -> str:
        if self.final:
            return self.final
        if self.cancelled:
            return states.CANCELLING
        if self.over:
            return states.FINALIZING
        return states.IN_PROGRESS if self.started else states.VALIDATING

    def settle(self, now: float) -> None:
        """End it if nothing is left of it and it has no files to write."""
        if self.over and not self.deleted and self.final is None and not (self.finalizer and self.prepared):
            self.end(now)

    def end(self, now: float) -> None:
        self.final = states.final_status(
            cancelled=self.cancelled,
            owner_invalid=self.closed_as == "failed",
            expired=self.counts()["expired"] > 0 or (self.closed_as == "expired" and not self.prepared),
        )
        self.ended_at = now
