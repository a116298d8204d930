"""What stands before a call that spends something: batches switched on, access, room, quota."""

import math

from fibatchd.context import Caller
from fibatchd.errors import ApiError
from fibatchd.store import spending
from fibatchd.web.front import front

NO_ROOM_RETRY_S = 10


async def require_batches() -> None:
    """Before each request of a blueprint of batch routes: ApiError 404 while batches are switched off."""
    if not front().context.config.batches.enabled:
        raise ApiError(404, "Batch inference is unavailable", code="batches_unavailable")


def require_access(caller: Caller) -> None:
    """ApiError 403 where the account may not create batches, nor upload files for them."""
    if not front().context.may_create(caller.account):
        raise ApiError(403, "Your account may not create batches", code="batch_access_denied")


def require_room() -> None:
    """ApiError 503 where storage is short, so that nothing big may be stored."""
    if not front().context.store.has_room():
        raise ApiError(503, "The server is short of storage", code="storage_full", retry_after=NO_ROOM_RETRY_S)


async def require_quota(caller: Caller) -> None:
    """ApiError 429 where the account's daily quota is used up."""
    context = front().context
    quota = context.quota(caller.account)
    if quota is None:
        return
    spent, now = await context.store.read(spending.spent_today, caller.account.id)
    if spent + context.bookkeeper.pending(caller.account.id) >= quota:
        raise ApiError(
            429,
            "Your daily quota is used up; it renews at 00:00 UTC",
            code="quota_exceeded",
            retry=False,
            retry_after=math.ceil(spending.seconds_to_midnight(now)),
        )


async def require_for_creation(caller: Caller) -> None:
    """All that a call needs before a new batch of it is looked at: ApiError 403, 503 or 429, in this order."""
    require_access(caller)
    require_room()
    await require_quota(caller)
