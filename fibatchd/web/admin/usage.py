"""What was spent: by all accounts together, by each on one day, by one account over the last days."""

import datetime

from quart import Response

from fibatchd.errors import ApiError
from fibatchd.store import usage
from fibatchd.web import paging
from fibatchd.web.account.render import sums
from fibatchd.web.account.usage import MOST_DAYS, account_usage, usage_object
from fibatchd.web.admin.accounts import standings_of
from fibatchd.web.conditional import json_answer
from fibatchd.web.front import front
from fibatchd.web.render import encode, list_object


async def show_usage() -> Response:
    """Return what all accounts spent, today and of late."""
    days = paging.whole_number("days", 30, MOST_DAYS)
    return json_answer(usage_object(await front().context.store.read(usage.usage, None, days)))


async def show_account_usage(account_id: str) -> Response:
    """Return what one account spent, as it sees it itself."""
    found = await standings_of(account_id)
    return json_answer(await account_usage(found.account))


async def show_day(day: str) -> Response:
    """Return a page of what each account spent on a UTC day."""
    after, limit = paging.id_cursor("after", "acct_") or "", paging.limit(100, 1000)
    found, has_more = await front().context.store.read(usage.by_account, _date(day), after=after, limit=limit)
    items = [
        encode({"account_id": one.account_id, "name": one.name, "tier": one.tier} | sums(one.spent)) for one in found
    ]
    return json_answer(list_object(items, [one.account_id for one in found], has_more=has_more))


def _date(text: str) -> str:
    try:
        known = datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        known = None
    if known != text:  # ISO 8601 has other forms of a date, too
        raise ApiError(400, "day: expected a date such as 2026-11-29", code="invalid_value", param="day")
    return text
