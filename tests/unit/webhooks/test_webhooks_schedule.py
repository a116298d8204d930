"""The waits between attempts, and what [webhooks] says."""

import dataclasses

import pytest
from fibatchd_plugins.webhooks.schedule import RETRY_AFTER_CAP_S, next_wait
from fibatchd_plugins.webhooks.settings import SCHEMA, TABLE, Settings

from fibatchd import config
from fibatchd.errors import ConfigError

MIDDLE = 0.5
"""The chance that leaves a wait as it is planned."""


def waits(settings):
    return [next_wait(tries, settings, chance=MIDDLE) for tries in range(1, 9)]


def test_the_default_schedule():
    minute, hour = 60, 3600
    assert waits(Settings()) == [5, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 14 * hour, None]


def test_another_base_and_cap():
    assert waits(Settings(retry_base_s=0.05, retry_cap_s=1)) == [0.05, 1, 1, 1, 1, 1, 1, None]


def test_fewer_and_more_attempts():
    assert waits(Settings(max_attempts=3)) == [5, 300, None, None, None, None, None, None]
    assert next_wait(20, Settings(max_attempts=21), chance=MIDDLE) == 14 * 3600


def test_jitter_is_a_tenth_to_both_sides():
    assert next_wait(2, Settings(), chance=0) == pytest.approx(270)
    assert next_wait(2, Settings(), chance=1) == pytest.approx(330)


@pytest.mark.parametrize(
    ("asked", "wait"), [(None, 300), (0, 300), (10, 300), (1000, 1000), (10**9, RETRY_AFTER_CAP_S), (-5, 300)]
)
def test_the_longer_of_schedule_and_retry_after(asked, wait):
    assert next_wait(2, Settings(), chance=MIDDLE, retry_after=asked) == wait


def test_retry_after_gives_no_attempt_more():
    assert next_wait(8, Settings(), chance=MIDDLE, retry_after=10) is None


def read(table):
    return Settings.of(config.parse(f"[webhooks]\n{table}", plugin_schemas={TABLE: SCHEMA}))


def test_defaults_are_the_same_everywhere():
    assert {name: part["default"] for name, part in SCHEMA["properties"].items()} == dataclasses.asdict(Settings())
    assert read("") == Settings.of(config.parse("")) == Settings()


def test_what_the_file_says():
    text = "allow_private_addresses = true\nretry_base_s = 0.05\nretry_cap_s = 1"
    assert read(text) == Settings(allow_private_addresses=True, retry_base_s=0.05, retry_cap_s=1)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("retry_base = 1", "webhooks.retry_base: unknown setting; did you mean `retry_base_s`?"),
        ("max_attempts = 0", "webhooks.max_attempts: 0 is not a whole number from 1 to 100"),
        ("timeout_s = 0", "webhooks.timeout_s: 0 is not a number"),
        ('allow_private_addresses = "yes"', 'webhooks.allow_private_addresses: "yes" is not true or false'),
    ],
)
def test_mistakes_are_told(table, problem):
    with pytest.raises(ConfigError) as caught:
        read(table)
    assert caught.value.problems[0].startswith(problem)
