"""Checked tables to frozen values. Nothing here can fail: what could be wrong was found before."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fibatchd.config.problems import KeyPath
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
from fibatchd.money import parse_usd, price_per_token

Table = Mapping[str, Any]

_FILES = frozenset({"data_dir", "tls_cert", "tls_key", "plugin_dir", "password_file", "ca_file"})


def build(
    document: Table, plugin_tables: Mapping[str, Table], keys: Mapping[KeyPath, str], environ: Mapping[str, str]
) -> Config:
    """The configuration that a checked document describes; `keys` are the upstreams' API keys by the upstream's path."""
    models = enumerate(document.get("models", ()))
    return Config(
        server=_server(document.get("server", {}), environ),
        storage=Storage(**_values(document.get("storage", {}))),
        metrics=Metrics(**_values(document.get("metrics", {}))),
        log=Log(**_values(document.get("log", {}))),
        extensions=MappingProxyType(document.get("extensions", {})),
        batches=Batches(**_values(document.get("batches", {}))),
        tiers=_tiers(document.get("tiers", {})),
        models=tuple(_model(table, ("models", i), keys) for i, table in models),
        plugin_tables=MappingProxyType({name: MappingProxyType(table) for name, table in plugin_tables.items()}),
    )


def _server(table: Table, environ: Mapping[str, str]) -> Server:
    fields = {"data_dir": _default_data_dir(environ)} | _values(table)
    if "public_url" in fields:
        fields["public_url"] = fields["public_url"].rstrip("/")
    return Server(**fields)


def _default_data_dir(environ: Mapping[str, str]) -> Path:
    # systemd lists several folders with colons between them where a unit asks for several
    state_directory = environ.get("STATE_DIRECTORY", "").partition(":")[0]
    return Path(state_directory) if state_directory else Server().data_dir


def _values(table: Table) -> dict[str, Any]:
    """A table's values as fields: arrays frozen, names of files as paths."""

    def value(name: str, item: Any) -> Any:
        if name in _FILES:
            return Path(item)
        return tuple(item) if isinstance(item, list) else item

    return {name: value(name, item) for name, item in table.items()}


def _tiers(tables: Table) -> Mapping[str, Tier]:
    defaults = Config().tiers
    return MappingProxyType(dict(defaults) | {name: _tier(name, table, defaults) for name, table in tables.items()})


def _tier(name: str, table: Table, defaults: Mapping[str, Tier]) -> Tier:
    default = defaults.get(name, Tier(name=name))
    quota = table.get("daily_quota_usd")
    return Tier(
        name=name,
        batch_concurrency=table.get("batch_concurrency", default.batch_concurrency),
        interactive_concurrency=table.get("interactive_concurrency", default.interactive_concurrency),
        daily_quota=default.daily_quota if quota is None else parse_usd(str(quota)),
    )


def _model(table: Table, path: KeyPath, keys: Mapping[KeyPath, str]) -> Model:
    fields: dict[str, Any] = {"endpoints": (CHAT_COMPLETIONS,)} | _values(table)
    fields["capabilities"] = Capabilities(**table.get("capabilities", {}))
    if (price := fields.pop("price_usd_per_million", None)) is not None:
        fields["price"] = _price(price)
    defaults = {"model": table["id"], "endpoints": fields["endpoints"]}
    fields["upstreams"] = tuple(
        _upstream(defaults | upstream, keys.get((*path, "upstreams", i)))
        for i, upstream in enumerate(table["upstreams"])
    )
    return Model(**fields)


def _price(table: Table) -> Price:
    per_token = {name: price_per_token(str(price)) for name, price in table.items()}
    return Price(**({"cached_input": per_token["input"]} | per_token))


def _upstream(table: Table, key: str | None) -> Upstream:
    fields = _values(table)
    fields["url"] = table["url"].rstrip("/")
    fields["headers"] = MappingProxyType(table.get("headers", {}))
    fields["api_key"] = key
    for source in ("api_key_env", "api_key_file"):
        fields.pop(source, None)
    return Upstream(**fields)
