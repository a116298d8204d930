"""What plugins add to the transactions that end and delete batches must not keep a batch from ending.

A hook that breaks takes its whole transaction with it, which is right for one that may pass: the event and the end belong
together. But a hook that breaks every time would stop the recorder, or the daemon's next start. So the script is run once
more without the plugins' parts, and the log says that they are missing.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import structlog

from fibatchd.context import Context
from fibatchd.errors import StoreUnavailable
from fibatchd.store.interface import Script

log = structlog.get_logger(__name__)

T = TypeVar("T")


async def end_anyway(context: Context, script: Callable[..., Script[T]], *args: Any) -> T:
    """Run a script whose last parameter is the policy, and which ends or deletes one batch at most. Raises what it raises
    without the plugins' parts."""
    policy = context.policy
    try:
        return await context.store.write(script, *args, policy)
    except StoreUnavailable:
        raise
    except Exception:
        if not (policy.on_end or policy.on_delete):
            raise
        log.exception("a batch could not end with what plugins add to it; it ends without", script=script.__name__)
    return await context.store.write(script, *args, replace(policy, on_end=(), on_delete=()))
