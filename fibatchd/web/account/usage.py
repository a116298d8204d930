"""`/v1/account` and `/v1/usage`: who calls and what it may do; what it has spent of its quota, today and of late."""

from typing import Any

from quart import Response

from fibatchd.domain.accounts import Account
from fibatchd.inference.entitlement import is_admin
from fibatchd.store import usage as scripts
from fibatchd.store.spending import Spent, seconds_to_midnight
from fibatchd.store.usage import Usage
from fibatchd.web import paging
from fibatchd.web.account.render import sums
from fibatchd.web.auth import caller
from fibatchd.web.conditional import json_answer
from fibatchd.web.front import front
from fibatchd.web.render import seconds, usd

MOST_DAYS = 92


async def show_account() -> Response:
    """Return who the key belongs to, and what the account may do."""
    account, key = caller().account, caller().key
    context = front().context
    settings, tier = context.config.batches, context.config.tiers.get(account.tier)
    return json_answer(
        {
            "object": "account",
            "id": account.id,
            "name": account.name,
            "tier": account.tier,
            "is_admin": is_admin(account, key),
            "can_create_batches": context.may_create(account),
            "key": {"id": key.id, "prefix": key.prefix, "expires_at": seconds(key.expires_at), "models": key.models},
            "batches_enabled": settings.enabled,
            "extensions": sorted(name for name in context.config.extensions if context.config.is_on(name)),
            "limits": {
                "max_requests": settings.max_requests,
                "max_body_bytes": settings.max_body_bytes,
                "max_line_bytes": settings.max_line_bytes,
                "max_unfinished_batches": settings.max_unfinished_batches,
                "max_unfinished_requests": settings.max_unfinished_requests,
                "batch_concurrency": tier.batch_concurrency if tier else 0,
                "max_file_storage_bytes": settings.max_file_storage_bytes,
                "max_uploads_per_hour": settings.max_uploads_per_hour,
            },
        }
    )


async def show_usage() -> Response:
    """Return the account's usage of today and of the last days."""
    return json_answer(await account_usage(caller().account))


async def account_usage(account: Account) -> dict[str, Any]:
    """Return an account's usage, of as many days as the query asks for."""
    context = front().context
    found = await context.store.read(scripts.usage, account.id, paging.whole_number("days", 30, MOST_DAYS))
    used = found.spent_today.cost + context.bookkeeper.pending(account.id)
    limit = context.quota(account)
    quota = {
        "limit_usd": None if limit is None else usd(limit),
        "used_usd": usd(used),
        "remaining_usd": None if limit is None else usd(max(0, limit - used)),
        "resets_at": round(found.now + seconds_to_midnight(found.now)),
    }
    return usage_object(found) | {"quota": quota}


def usage_object(found: Usage) -> dict[str, Any]:
    """Return usage as the API shows it."""
    models = sorted(found.models.items(), key=lambda item: (-item[1].cost, item[0]))
    return {
        "object": "usage",
        "day": found.today,
        "today": sums(found.spent_today)
        | {
            "models": [{"model": model} | sums(spent) for model, spent in models],
            "ways": [{"way": way} | sums(found.ways.get(way, Spent())) for way in ("batch", "interactive")],
        },
        "days": [{"day": day} | sums(spent) for day, spent in found.days.items()],
    }
