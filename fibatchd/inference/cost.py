"""What an answer cost: its usage at the model's price, in whole pico-USD."""

from fibatchd.config import Price
from fibatchd.domain.requests import Usage


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
