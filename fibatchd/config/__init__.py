"""The configuration: TOML in, frozen dataclasses out, every problem told at once.

`load` and `parse` give a `Config` or raise ConfigError with all problems; `reload` says what a SIGHUP may change.
"""

from fibatchd.config.loading import core_schema, load, parse, plugin_dir
from fibatchd.config.reloading import reload
from fibatchd.config.settings import (
    CHAT_COMPLETIONS,
    Batches,
    Capabilities,
    Config,
    Log,
    Metrics,
    Model,
    Price,
    Server,
    Storage,
    Tier,
    Upstream,
)

__all__ = [
    "CHAT_COMPLETIONS",
    "Batches",
    "Capabilities",
    "Config",
    "Log",
    "Metrics",
    "Model",
    "Price",
    "Server",
    "Storage",
    "Tier",
    "Upstream",
    "core_schema",
    "load",
    "parse",
    "plugin_dir",
    "reload",
]
