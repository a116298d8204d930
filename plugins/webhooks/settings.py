"""The table [webhooks] of the configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fibatchd.plugin_api import Config

TABLE = "webhooks"

_SECONDS = {"type": "number", "exclusiveMinimum": 0, "maximum": 31536000}
_COUNT = {"type": "integer", "minimum": 1, "maximum": 100000}

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "allow_private_addresses": {
            "description": "Whether webhooks may go to private addresses and plain http: for tests on one machine only.",
            "type": "boolean",
            "default": False,
        },
        "max_attempts": {
            "description": "Most attempts at the delivery of one event.",
            **_COUNT,
            "maximum": 100,
            "default": 8,
        },
        "retry_base_s": {
            "description": "Wait before the second attempt. The later waits are multiples of it: with 5 s they are 5 min, "
            "30 min, 2 h, 5 h, 10 h and 14 h.",
            **_SECONDS,
            "default": 5,
        },
        "retry_cap_s": {"description": "Longest wait between two attempts.", **_SECONDS, "default": 50400},
        "timeout_s": {
            "description": "One attempt ends within this time, name resolution and connecting included.",
            **_SECONDS,
            "default": 15,
        },
        "concurrency": {
            "description": "Most deliveries of this daemon at once; webhooks that fail have half of these places at most.",
            **_COUNT,
            "default": 256,
        },
        "endpoint_concurrency": {
            "description": "Most deliveries to one webhook at once, over all daemons; one that fails gets them one by one.",
            **_COUNT,
            "default": 4,
        },
        "event_retention_s": {
            "description": "An event and its attempts are listed for this long.",
            **_SECONDS,
            "default": 604800,
        },
    },
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What the table says; the schema above describes each. Times are seconds."""

    allow_private_addresses: bool = False
    max_attempts: int = 8
    retry_base_s: float = 5
    retry_cap_s: float = 50400
    timeout_s: float = 15
    concurrency: int = 256
    endpoint_concurrency: int = 4
    event_retention_s: float = 604800

    @classmethod
    def of(cls, config: Config) -> "Settings":
        """Return the settings as they are now; a reload may change them, so ask each time."""
        table: Mapping[str, Any] = config.plugin_tables.get(TABLE, {})
        return cls(**table)
