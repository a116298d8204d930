"""What a SIGHUP may change while the daemon runs, and what needs a restart."""

from dataclasses import replace

from fibatchd.config.settings import Config, Server
from fibatchd.errors import ConfigError

FIXED = (
    "server.listen",
    "server.data_dir",
    "server.plugin_dir",
    "server.max_failed_keys_per_minute",
    "storage.url",
    "storage.password_file",
    "storage.min_free_bytes",
    "storage.pool_size",
    "storage.statement_timeout_s",
    "metrics.listen",
    "log.format",
)
"""Settings that hold from start to end: sockets are bound, files open and plugins loaded by them."""


def reload(old: Config, new: Config) -> tuple[Config, list[str]]:
    """The new configuration with the old one's fixed settings, and the settings whose change was ignored for that.

    Raises ConfigError where no model is left: a file caught while it was being written is read like that, and would fail
    every queued request. A certificate may be replaced by another, but TLS is neither begun nor ended on a listener that
    is open.
    """
    if old.models and not new.models:
        raise ConfigError(["models: none is left; a daemon that is to serve none is started like that, not reloaded"])
    ignored = [name for name in FIXED if _setting(old, name) != _setting(new, name)]
    for name in ignored:
        table, _, setting = name.partition(".")
        kept = replace(getattr(new, table), **{setting: _setting(old, name)})
        new = replace(new, **{table: kept})
    if _has_tls(old.server) != _has_tls(new.server):
        ignored += ["server.tls_cert", "server.tls_key"]
        server = replace(new.server, tls_cert=old.server.tls_cert, tls_key=old.server.tls_key)
        new = replace(new, server=server)
    return new, ignored


def _setting(config: Config, name: str) -> object:
    table, _, setting = name.partition(".")
    return getattr(getattr(config, table), setting)


def _has_tls(server: Server) -> bool:
    return server.tls_cert is not None
