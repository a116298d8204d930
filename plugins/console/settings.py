"""The table [console] of the configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fibatchd.plugin_api import Config

TABLE = "console"

_SECONDS = {"type": "number", "minimum": 60, "maximum": 31536000}

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "session_idle_s": {
            "description": "A session ends when nothing was asked with it for this long.",
            **_SECONDS,
            "default": 28800,
        },
        "session_max_s": {
            "description": "A session ends this long after its sign-in, used or not.",
            **_SECONDS,
            "default": 604800,
        },
    },
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What the table says; the schema above describes each. Times are seconds."""

    session_idle_s: float = 28800
    session_max_s: float = 604800

    @classmethod
    def of(cls, config: Config) -> "Settings":
        """Return the settings as they are now; a reload may change them, so ask each time."""
        table: Mapping[str, Any] = config.plugin_tables.get(TABLE, {})
        return cls(**table)
