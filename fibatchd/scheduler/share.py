"""This daemon's share of a model's places at the upstream, where several daemons dispatch to it.

Places move from daemon to daemon through the database (`leases.hold_places`): nobody takes what another holds, so the
model's limit holds at every instant. Whoever lacks some tells the others, whoever has too many gives them up as its
requests end, and tells that too; so the places are in use again within milliseconds.
"""

import math

import trio

from fibatchd.config import Model
from fibatchd.context import Context
from fibatchd.scheduler.lease import Lease
from fibatchd.store import leases

PLACES_S = 1.0  # how often places are asked for anew: the safety net under what daemons tell each other


class Share:
    """The places of one model that this daemon may use. A store of its own means that all of them are its own."""

    def __init__(self, model_id: str, context: Context, lease: Lease) -> None:
        self._model_id = model_id
        self._context = context
        self._lease = lease
        self.forget()

    def forget(self) -> None:
        """Hold nothing: this daemon has a new lease, or none yet."""
        self._granted = 0
        self._others = 0
        self._counted = 0  # what the database counts as held here: more than granted while too many run
        self._wanted = 0
        self._ask_at = -math.inf

    def ask_soon(self) -> None:
        """The next `ask` is due: places may have moved."""
        self._ask_at = -math.inf

    def limit(self, model: Model, room: float) -> float:
        """Return how many requests may run here; `room` is what interactive traffic leaves to all daemons together."""
        if not self._context.store.shared:
            return min(model.concurrency, room)
        return min(self._granted, max(0.0, room - self._others))

    def ask_by(self) -> float:
        """Return when to ask again at the latest: requests may have ended since, and nobody else can know of their places."""
        return self._ask_at if self._counted else math.inf

    def due(self, running: int, wanted: int) -> bool:
        """Whether to ask: it is time, or more is wanted than ever was, or what was to be given up has ended."""
        if not self._context.store.shared or not (wanted or running or self._counted):
            return False
        wants_more = self._wanted <= self._granted and self._wanted < wanted
        return trio.current_time() >= self._ask_at or wants_more or self.may_give_up(running)

    def may_give_up(self, running: int) -> bool:
        """Whether so few run here that places can go to others who wait for them."""
        return running <= self._granted < self._counted

    async def ask(self, running: int, wanted: int, limit: float) -> None:
        """Ask for `wanted` of `limit` places, `running` of which are in use. Raises LeaseLost, StoreUnavailable."""
        self._ask_at = trio.current_time() + PLACES_S
        self._wanted = wanted
        # Until the answer is there, and should it never come: so many are held whatever the database did.
        self._granted = min(self._granted, running)
        places = await self._context.store.write(
            leases.hold_places, self._lease.daemon, self._model_id, wanted, int(limit), in_use=running
        )
        self._granted, self._others = places.granted, places.others
        self._counted = max(places.granted, running)
