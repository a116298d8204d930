"""How long the first page of the console's list takes in an account of 10,000 batches: what its first row waits for."""

import statistics
from collections.abc import Mapping

from frame import filling
from frame.row import Figure, Row
from frame.stand import NOWHERE, Stand, stand

BATCHES = 10_000
TIMES = 21


def measure() -> Mapping[str, float]:
    found: dict[str, float] = {}
    for store in ("sqlite", "postgresql"):
        with stand(NOWHERE, concurrency=1, store=store) as daemon:
            filling.ended(daemon, BATCHES)
            taken = [list_s(daemon) * 1e3 for _ in range(TIMES)]
        found[f"list_{store}"] = taken[0]
        found[f"ms, {store}, once it is warm"] = statistics.median(taken)
    return found


def list_s(daemon: Stand) -> float:
    """Ask for the first page as the console does, and return the seconds until it was there."""
    page = daemon.get("/v1/account/batches")
    assert page.answer["data"][0]["id"].startswith("batch_")
    return page.took_s


ROW = Row(
    "account-list",
    tuple(
        Figure(
            f"list_{store}",
            f"First page of the console's list in an account of 10,000 batches, asked for the first time, {name}",
            at_most=200,
            unit="ms",
        )
        for store, name in (("sqlite", "SQLite"), ("postgresql", "PostgreSQL"))
    ),
    measure,
)
