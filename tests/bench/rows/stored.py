"""Whether a store that is full is as fast as an empty one: with 1,000,000 requests in it, half of them answered and half of
them queued, against the same with the one batch that is claimed from.

A claim is the store's own transaction, in a process that has no daemon in it, for 64 requests at a time; the others are calls
to a daemon. Full and empty stand side by side and are asked in turn, so that the machine's moods count for both.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager

import trio
from frame import filling
from frame.large import create_call
from frame.row import Figure, Row
from frame.stand import Stand, stand
from frame.upstreams import LatencyMock

from fibatchd.store import claims, leases
from fibatchd.store.interface import Store
from fibatchd.store.opening import open_store

ENDED, EACH = 500, 1000
QUEUED = 500_000
FEW = 20_000
TIMES = 51
CLAIMED = 64
CREATED = 100
ENDLESS_S = 3600
_LIMITS = """
[batches]
max_unfinished_requests = 10000000
max_unfinished_batches = 10000
"""


def measure() -> Mapping[str, float]:
    with (
        LatencyMock.running(delay=ENDLESS_S) as mock,
        filled(mock, ENDED, QUEUED) as full,
        filled(mock, 0, FEW) as empty,
    ):
        found = {"claim": trio.run(claims_s, full, empty)}
        for name, work in (("status", get_batch), ("list", get_list), ("create", create)):
            found[name] = in_turn(lambda work=work: work(*full), lambda work=work: work(*empty))
    figures = {name: full / empty for name, (full, empty) in found.items()}
    details: dict[str, float] = {}
    for name, (full, empty) in found.items():
        details |= {f"ms, {name}, full": full * 1e3, f"ms, {name}, empty": empty * 1e3}
    return figures | details


Filled = tuple[Stand, str]
"""A daemon, and the batch in it that is queued."""


@contextmanager
def filled(mock: LatencyMock, ended: int, queued: int) -> Iterator[Filled]:
    """A daemon with so many batches that are over, and one of so many requests to come."""
    with stand(mock.url, concurrency=1, more=_LIMITS) as daemon:
        if ended:
            filling.ended(daemon, ended, requests=EACH, answer=filling.answer_of(1000))
        yield daemon, filling.queued(daemon, queued)


def in_turn(first: Callable[[], float], second: Callable[[], float]) -> tuple[float, float]:
    """Return the medians of what both take."""
    taken = [(first(), second()) for _ in range(TIMES)]
    return statistics.median(one for one, _ in taken), statistics.median(other for _, other in taken)


async def claims_s(full: Filled, empty: Filled) -> tuple[float, float]:
    """Claim in turn, and return the medians."""
    async with opened(full[0]) as one, opened(empty[0]) as other:
        takers = [(store, await store.write(leases.register, "bench")) for store in (one, other)]
        taken = [[await claim_s(*taker) for taker in takers] for _ in range(TIMES)]
    return statistics.median(one for one, _ in taken), statistics.median(other for _, other in taken)


def opened(daemon: Stand) -> AbstractAsyncContextManager[Store]:
    """The daemon's own store, beside it."""
    return open_store("sqlite:fibatchd.db", daemon.folder, migrations=[], exclusive=False)


async def claim_s(store: Store, daemon: int) -> float:
    """Look for candidates and claim from the first, as a pool does."""
    began = time.perf_counter()
    found, _ = await store.read(claims.candidates, filling.MODEL)
    claim = await store.write(claims.claim, daemon, [(found[0].lane, CLAIMED)], lambda *_: True)
    taken = time.perf_counter() - began
    assert len(claim.requests) == CLAIMED
    return taken


def get_batch(daemon: Stand, batch_id: str) -> float:
    return daemon.get(f"/v1/batches/{batch_id}").took_s


def get_list(daemon: Stand, batch_id: str) -> float:
    return daemon.get("/v1/batches").took_s


def create(daemon: Stand, batch_id: str) -> float:
    return daemon.send("/v1/batches", create_call(CREATED, 0)).took_s


_TITLE = "1,000,000 requests stored: {}, ratio to an empty store"

ROW = Row(
    "stored",
    tuple(
        Figure(name, _TITLE.format(what), at_most=2)
        for name, what in (
            ("claim", "claim of 64"),
            ("status", "`GET /v1/batches/{id}`"),
            ("list", "`GET /v1/batches`"),
            ("create", "create of 100"),
        )
    ),
    measure,
)
