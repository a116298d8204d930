"""Money as whole numbers: pico-USD (10^-12 USD), so that sums are exact and a database adds them up as integers.

A price in USD per million tokens with at most six decimals is a whole number of pico-USD per token, which is why prices
with more are refused: no cost is ever rounded. A signed 64-bit integer holds about 9.2 million USD.
"""

import re
from typing import Final

PICO: Final = 10**12
"""Pico-USD in one USD."""

_TOKENS_PER_PRICE: Final = 10**6
_DECIMAL: Final = re.compile(r"([0-9]{1,6})(?:\.([0-9]{1,12}))?", re.ASCII)


def parse_usd(text: str) -> int:
    """A plain decimal amount of USD, such as `"20.00"`, in pico-USD.

    Raises ValueError for anything else: a sign, an exponent, spaces, over six digits before the point or twelve behind.
    """
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an amount of USD: write a plain decimal such as 20.00, below 1000000")
    whole, fraction = match.group(1), match.group(2) or ""
    return int(whole) * PICO + int(fraction.ljust(12, "0"))


def price_per_token(usd_per_million: str) -> int:
    """A price in USD per million tokens, such as `"0.10"`, in pico-USD per token.

    Raises ValueError as parse_usd does, and for more than six decimals, since a token's price would not be whole.
    """
    per_million = parse_usd(usd_per_million)
    if per_million % _TOKENS_PER_PRICE:
        raise ValueError(f"{usd_per_million!r} has more than six decimals: a token's price would not be exact")
    return per_million // _TOKENS_PER_PRICE


def usd_text(pico: int) -> str:
    """Pico-USD (not negative) as a plain decimal of USD, also a JSON number: no exponent, at least one decimal."""
    whole, fraction = divmod(pico, PICO)
    return f"{whole}.{f'{fraction:012d}'.rstrip('0') or '0'}"
