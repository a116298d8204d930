"""Keys and sessions that nobody has, counted by the address they come from: who tries many is sent away before the store
is asked.

A key has 256 random bits, so that nobody finds one; what is bounded is the load. A key that was good here lately passes
whatever else comes from its address, so that one wrong client does not lock the others out that share it. Where many
addresses try, nobody else is sent away: what is not known to be good is then looked up one at a time.
"""

import math
from collections import OrderedDict
from contextlib import AbstractAsyncContextManager, nullcontext

import trio

from fibatchd.errors import ApiError
from fibatchd.web.attempts import Attempts, Bucket

MOST_GOOD = 10_000
TOGETHER = 100
"""So many addresses may use up all they have at once, before lookups wait for each other."""


class FailedKeys:
    """`per_minute` failures of an address, over any long time; as many at once. 0: not counted."""

    def __init__(self, per_minute: int) -> None:
        self._attempts = Attempts(per_minute, per_minute / 60)
        self._together = Bucket(TOGETHER * per_minute, TOGETHER * per_minute / 60, TOGETHER * per_minute, 0.0)
        self._one = trio.CapacityLimiter(1)
        self._counts = per_minute > 0
        self._good: OrderedDict[bytes, None] = OrderedDict()

    def check(self, address: str | None, digest: bytes) -> None:
        """ApiError 429 where too many keys from this address were not valid, and this one has not been good before."""
        if self._counts and digest not in self._good and (wait := self._attempts.wait(address)):
            message = "Too many keys or sessions that are not valid came from your address; wait a little"
            raise ApiError(429, message, code="too_many_failed_keys", retry_after=math.ceil(wait))

    def turn(self, digest: bytes) -> AbstractAsyncContextManager[None]:
        """Stand around a lookup in the store; while too many fail, whoever sends them, one at a time is made. Those who wait
        are no more than there are connections."""
        if self._counts and digest not in self._good and self._together.wait(trio.current_time()):
            return self._one
        return nullcontext()

    def failed(self, address: str | None) -> None:
        """Count a key or a session that nobody has."""
        if self._counts:
            self._attempts.take(address)
            self._together.take(trio.current_time())

    def succeeded(self, digest: bytes) -> None:
        """Remember a good one, by its hash."""
        self._good[digest] = None
        self._good.move_to_end(digest)
        if len(self._good) > MOST_GOOD:
            self._good.popitem(last=False)
