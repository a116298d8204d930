"""Exact money: text to pico-USD and back."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fibatchd.money import PICO, parse_usd, price_per_token, usd_text


@pytest.mark.parametrize(
    ("text", "pico"),
    [
        ("0", 0),
        ("20.00", 20 * PICO),
        ("1", PICO),
        ("0.000000000001", 1),
        ("999999.999999999999", 10**18 - 1),
        ("007", 7 * PICO),
    ],
)
def test_parse_usd(text, pico):
    assert parse_usd(text) == pico


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1e3", ".5", "5.", "1,5", " 1", "1\n", "1000000", "0.0000000000001", "NaN", "１", "1_0"]
)
def test_not_an_amount(text):
    with pytest.raises(ValueError, match="is not an amount of USD"):
        parse_usd(text)


@pytest.mark.parametrize(
    ("text", "pico"), [("0.10", 100_000), ("1", 10**6), ("0.000001", 1), ("15.123456", 15_123_456)]
)
def test_price_per_token(text, pico):
    assert price_per_token(text) == pico


def test_a_tokens_price_is_never_rounded():
    with pytest.raises(ValueError, match="more than six decimals"):
        price_per_token("0.0000001")
    assert price_per_token("0.1000000") == 100_000


@pytest.mark.parametrize(
    ("pico", "text"),
    [
        (0, "0.0"),
        (1, "0.000000000001"),
        (PICO, "1.0"),
        (20 * PICO + PICO // 4, "20.25"),
        (10**30, "1000000000000000000.0"),
    ],
)
def test_usd_text(pico, text):
    assert usd_text(pico) == text


@given(st.integers(0, 10**18 - 1))
def test_there_and_back(pico):
    text = usd_text(pico)
    assert parse_usd(text) == pico
    assert Decimal(text) == Decimal(pico) / PICO
    assert json.loads(text, parse_float=Decimal) == Decimal(text)
