"""What an answer cost: its usage at the model's price, in whole pico-USD."""

from typing import Final

from fibatchd.config import Price
from fibatchd.domain.requests import Usage

MOST_TOKENS: Final = 10**8
"""More than any model reads or writes in one request by far. Sums of such counts still fit a database's integers."""


def believable(usage: Usage | None) -> Usage | None:
    """Return the usage, or None where a count in it cannot be true: then it told nothing, and nothing else may trip on it."""
    if usage is None:
        return None
    counts = (usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.reasoning_tokens)
    return usage if min(counts) >= 0 and max(counts) <= MOST_TOKENS else None


def cost_of(price: Price | None, usage: Usage | None) -> int | None:
    """Return the cost; 0 for a model without a price; None where it has one and the answer told no usage."""
    if price is None:
        return 0
    if usage is None:
        return None
    cached = min(usage.cached_tokens, usage.input_tokens)
    return (
        (usage.input_tokens - cached) * price.input + cached * price.cached_input + usage.output_tokens * price.output
    )
