"""What the parts of a running daemon share, and what a plugin is given: the configuration as it is now, the store, the
endpoints, the way to the models. Made once by `daemon.py`."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import trio

from fibatchd.config import Config
from fibatchd.domain.accounts import Account, Key
from fibatchd.domain.batches import Batch
from fibatchd.domain.requests import Submitted
from fibatchd.inference import entitlement
from fibatchd.inference.bookkeeping import Bookkeeper
from fibatchd.inference.endpoint import Endpoints
from fibatchd.inference.execute import Executor
from fibatchd.inference.load import Load
from fibatchd.inference.tally import Tally
from fibatchd.metrics import Metric
from fibatchd.store.admission import IdempotencyKey, Limits
from fibatchd.store.ending import BatchHook, Policy
from fibatchd.store.interface import Store

EVENT_NAME = "batch.{status}"
"""What the end of a batch is called in events, unless the API whose batch it is has a name of its own for it."""

ErrorShape = Callable[[int, str, str | None, str | None, str], Mapping[str, Any]]
"""(HTTP status, message, param, code, request id) -> the JSON body of an error answer."""

Identify = Callable[[], Awaitable[str | None]]
"""Asked inside a request that carries no key -> the id of the key that stands behind it, None for none."""


class Service(Protocol):
    """A long-running part of a plugin."""

    name: str

    async def run(self, *, task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled; call `task_status.started()` when it works. An exception restarts it, with backoff."""
        ...


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a call: an active account, by one of its valid keys."""

    account: Account
    key: Key


@dataclass(frozen=True, slots=True)
class CreateCall:
    """A call that creates a batch, its common parts checked: the body's top-level members as raw JSON, metadata as JSON
    text, the idempotency key if one was sent."""

    caller: Caller
    members: Mapping[str, Any]
    metadata: str | None
    key: IdempotencyKey | None


class BatchInput(Protocol):
    """A form in which `POST /v1/batches` may name its requests, beside `requests` inline.

    member   the body's member that selects this form, such as "input_file_id"
    allowed  all top-level members it knows; others are refused
    """

    member: str
    allowed: frozenset[str]

    async def create(self, call: CreateCall) -> Batch:
        """Create the batch, or raise ApiError; nothing is stored then."""
        ...


@dataclass(frozen=True, slots=True)
class RerunCall:
    """A call that runs requests of an ended batch again. `requests` gives them in submission order, some at a time; it
    raises ApiError where the batch is deleted meanwhile. Who keeps them all takes them through `front().rerun_bodies`."""

    caller: Caller
    batch: Batch
    requests: AsyncGenerator[Sequence[Submitted], None]
    key: IdempotencyKey | None


class Rerun(Protocol):
    """How batches of a kind, those of one `source`, are run again."""

    source: str

    async def rerun(self, call: RerunCall) -> Batch:
        """Create a batch of the same kind from the call's requests, with the old one's metadata, and `rerun_of`; or raise
        ApiError, and nothing is stored then."""
        ...


@dataclass(slots=True)
class Context:
    """See the top of this file. `config` is replaced as a whole by a reload: read it anew each time."""

    config: Config
    store: Store
    endpoints: Endpoints
    executor: Executor
    load: Load
    drained: frozenset[str] = frozenset()
    """Models that the operator drains by the API, beside those that the configuration drains."""
    daemon: Callable[[], int] = lambda: 0
    """This daemon's id, by which it leases requests and jobs; it changes when a lease was lost."""
    event_names: dict[str, str] = field(default_factory=dict)
    """What the end of a batch is called in events, by its API; `{status}` stands for the final status."""
    on_end: list[BatchHook] = field(default_factory=list)
    on_delete: list[BatchHook] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    """How attempts ended, of batches and of interactive calls."""
    metrics: list[Metric] = field(default_factory=list)
    """What plugins count: each adds its own, and the metrics page shows them beside the core's."""
    bookkeeper: Bookkeeper = field(init=False)
    """Records what interactive calls have spent; a service that the daemon runs."""

    def __post_init__(self) -> None:
        self.bookkeeper = Bookkeeper(self.store, self.tally)

    @property
    def policy(self) -> Policy:
        """How long ended batches are kept, and what plugins add when one ends or is deleted."""
        batches = self.config.batches
        return Policy(batches.retention_s, batches.idempotency_retention_s, tuple(self.on_end), tuple(self.on_delete))

    @property
    def limits(self) -> Limits:
        """What an account may have unfinished."""
        return Limits(self.config.batches.max_unfinished_batches, self.config.batches.max_unfinished_requests)

    def event_type(self, batch: Batch) -> str:
        """Return what the end of a batch is called in events, such as "batch.completed"."""
        return self.event_names.get(batch.api, EVENT_NAME).format(status=batch.status)

    def may_create(self, account: Account) -> bool:
        """Whether this account's tier has access to batches."""
        return entitlement.may_create_batches(self.config, account)

    def quota(self, account: Account) -> int | None:
        """Return an account's daily quota in pico-USD, None for none: its own, else its tier's."""
        return entitlement.daily_quota(self.config, account)
