"""What JSON Schema cannot say: names that must exist or be unique, addresses, settings that exclude each other.

Each check reads plain tables in which every value has its right type already, and yields what it finds. Values of a wrong
type were told of and taken out before; an item of an array is None then.
"""

import ipaddress
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from fibatchd.config.problems import KeyPath, Problem, path_text, suggestion
from fibatchd.config.settings import CHAT_COMPLETIONS, Batches, Server, Storage

Table = Mapping[str, Any]

# Empty: every interface.
_HOST = re.compile(r"[A-Za-z0-9.-]*", re.ASCII)
# With the name that a unit gives its sockets by FileDescriptorName, or without.
_INHERITED = re.compile(r"fd://[A-Za-z0-9._-]*", re.ASCII)
_URL = re.compile(r"[!-~]+")
_PORT = re.compile(r"[0-9]{1,5}")
_PORTS = range(65536)
_ADDRESS_FORMS = "write host:port, [v6]:port, unix:/path or fd://"
_UPSTREAM_FORMS = "write http://…, https://…, http+unix://%2Fpath%2Fto.sock/… or echo:"
# The client itself writes these; a second one would make the request ambiguous.
_CLIENT_HEADERS = frozenset(
    {"connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade"}
)


def check_server(server: Table) -> Iterator[Problem]:
    """[server]: addresses and URLs."""
    for i, address in _items(server.get("listen")):
        yield from check_listen(address, ("server", "listen", i))
    for i, proxy in _items(server.get("trusted_proxies")):
        if proxy != "unix:" and not _is_network(proxy):
            where: KeyPath = ("server", "trusted_proxies", i)
            yield Problem(where, "is not an IP address, a network such as 10.0.0.0/8, or unix:", True)
    if (url := server.get("public_url")) is not None:
        parts = _split_url(url)
        if parts is None or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
            yield Problem(("server", "public_url"), "is not the address of a site: write https://host", True)


def check_listen(address: str, path: KeyPath) -> Iterator[Problem]:
    """An address to listen on."""
    if _INHERITED.fullmatch(address) or (address.startswith("unix:/") and address != "unix:/"):
        return
    host, colon, port = address.rpartition(":")
    if not colon or not _PORT.fullmatch(port) or int(port) not in _PORTS or not _is_host(host):
        yield Problem(path, f"is not an address to listen on: {_ADDRESS_FORMS}", True)


def check_storage(storage: Table) -> Iterator[Problem]:
    """[storage]: the URL. It may hold a password, so it is never shown."""
    path: KeyPath = ("storage", "url")
    scheme, _, rest = storage.get("url", Storage().url).partition(":")
    if scheme == "sqlite":
        if not rest or rest.startswith("//"):
            yield Problem(
                path, "an SQLite file is named without // in front: write sqlite:fibatchd.db or sqlite:/a/path"
            )
        if "password_file" in storage:
            yield Problem(("storage", "password_file"), "SQLite has no password; it goes with postgresql://…")
    elif scheme != "postgresql" or not rest.startswith("//"):
        yield Problem(path, "the value is not the address of a store: write sqlite:PATH or postgresql://…")


def check_extensions(extensions: Table, known: Collection[str] | None) -> Iterator[Problem]:
    """[extensions]: the names that the loaded plugins have; None: they are not known, all names pass."""
    if known is not None:
        for name in extensions:
            if name not in known:
                yield Problem(("extensions", name), f"no plugin has this extension; {suggestion(name, sorted(known))}")


def check_batches(batches: Table, tiers: Collection[str]) -> Iterator[Problem]:
    """[batches]: tiers that exist, and bounds in their order."""
    yield from _check_tiers(batches.get("create_tiers"), ("batches", "create_tiers"), tiers)
    default = Batches()
    base, cap = batches.get("retry_base_s", default.retry_base_s), batches.get("retry_cap_s", default.retry_cap_s)
    if base > cap:
        yield Problem(("batches", "retry_base_s"), f"{base} is above retry_cap_s, which is {cap}")


def check_body_sizes(server: Table, batches: Table) -> Iterator[Problem]:
    """A create body of the largest size must fit what all of them together may hold: else it could never be received."""
    largest = batches.get("max_body_bytes", Batches().max_body_bytes)
    all_together = server.get("max_buffered_body_bytes", Server().max_buffered_body_bytes)
    if largest > all_together:
        text = f"{largest} is above server.max_buffered_body_bytes, which is {all_together}"
        yield Problem(("batches", "max_body_bytes"), text)


def check_models(
    models: Iterable[Table | None], tiers: Collection[str], endpoints: Collection[str] | None
) -> Iterator[Problem]:
    """[[models]]: each by itself, and the names over all of them."""
    holders: dict[str, KeyPath] = {}
    for i, model in _items(models):
        path: KeyPath = ("models", i)
        yield from _check_names(model, path, holders)
        yield from _check_tiers(model.get("tiers"), (*path, "tiers"), tiers)
        yield from _check_endpoints(model.get("endpoints"), (*path, "endpoints"), endpoints)
        yield from _check_capacity(model, path)
        for j, upstream in _items(model.get("upstreams")):
            yield from _check_upstream(upstream, model, (*path, "upstreams", j), endpoints)


def _check_names(model: Table, path: KeyPath, holders: dict[str, KeyPath]) -> Iterator[Problem]:
    """An id or alias means one model. Notes in `holders` which model has a name."""
    aliases = [((*path, "aliases", i), alias) for i, alias in _items(model.get("aliases"))]
    for where, name in [((*path, "id"), model.get("id")), *aliases]:
        if name is not None and (holder := holders.setdefault(name, where)) != where:
            yield Problem(where, f"is taken already, by {path_text(holder)}", True)


def _check_tiers(names: Iterable[str | None] | None, path: KeyPath, known: Collection[str]) -> Iterator[Problem]:
    for i, name in _items(names):
        if name not in known:
            yield Problem((*path, i), f"is not a tier; {suggestion(name, sorted(known))}", True)


def _check_endpoints(
    names: Iterable[str | None] | None, path: KeyPath, known: Collection[str] | None
) -> Iterator[Problem]:
    for i, name in _items(names):
        if known is not None and name not in known:
            yield Problem((*path, i), f"is not an endpoint of any plugin; {suggestion(name, sorted(known))}", True)


def _check_capacity(model: Table, path: KeyPath) -> Iterator[Problem]:
    reserve, capacity = model.get("reserve", 0), model.get("capacity")
    if reserve and capacity is None:
        yield Problem((*path, "reserve"), "has no effect without capacity")
    elif capacity is not None and reserve >= capacity:
        yield Problem((*path, "reserve"), f"leaves batch work nothing of capacity, which is {capacity}", True)


def _check_upstream(upstream: Table, model: Table, path: KeyPath, known: Collection[str] | None) -> Iterator[Problem]:
    protocol = upstream.get("protocol", "openai")
    if (url := upstream.get("url")) is not None:
        yield from _check_upstream_url(url, protocol, (*path, "url"))
        if "delay_s" in upstream and url != "echo:":
            yield Problem((*path, "delay_s"), "only the built-in echo: upstream takes a delay")
        if "ca_file" in upstream and not url.startswith("https:"):
            yield Problem((*path, "ca_file"), "goes with an https:// url only")
    if protocol == "anthropic":
        yield from _check_anthropic_endpoints(upstream, model, path)
    yield from _check_endpoints(upstream.get("endpoints"), (*path, "endpoints"), known)
    if "api_key_env" in upstream and "api_key_file" in upstream:
        yield Problem((*path, "api_key_file"), "goes without api_key_env: name one source of the key")
    for name in upstream.get("headers", {}):
        if name.lower() in _CLIENT_HEADERS:
            yield Problem((*path, "headers", name), "is written by the HTTP client and cannot be set")
    if (url := upstream.get("metrics_url")) is not None:
        parts = _split_url(url)
        if parts is None or parts.scheme not in ("http", "https"):
            yield Problem((*path, "metrics_url"), "is not an address: write http://host:port/metrics", "@" not in url)
        elif parts.username is not None:
            yield Problem((*path, "metrics_url"), "holds credentials, which are not sent")


def _check_upstream_url(url: str, protocol: str, path: KeyPath) -> Iterator[Problem]:
    if url == "echo:":
        if protocol != "openai":
            yield Problem(path, "the built-in echo: upstream speaks the openai protocol")
        return
    parts = _split_url(url)
    if parts is None or parts.scheme not in ("http", "https", "http+unix"):
        yield Problem(path, f"is not an upstream's address: {_UPSTREAM_FORMS}", "@" not in url)
    elif parts.username is not None or parts.password is not None:
        yield Problem(path, "holds credentials: put the key into api_key_env or api_key_file")
    elif parts.query or parts.fragment:
        yield Problem(path, "has a query or fragment, and paths are put behind it", True)
    elif protocol == "openai" and not parts.path.rstrip("/").endswith("/v1"):
        yield Problem(path, "does not end in /v1, as an openai upstream's address does", True)
    elif protocol == "anthropic" and parts.path.rstrip("/").endswith("/v1"):
        yield Problem(path, "ends in /v1, which is added to an anthropic upstream's address", True)


def _check_anthropic_endpoints(upstream: Table, model: Table, path: KeyPath) -> Iterator[Problem]:
    endpoints = upstream.get("endpoints") or model.get("endpoints") or [CHAT_COMPLETIONS]
    others = [endpoint for _, endpoint in _items(endpoints) if endpoint != "/v1/messages"]
    if others:
        text = f'an anthropic upstream does not serve {others[0]}: write endpoints = ["/v1/messages"]'
        yield Problem((*path, "endpoints"), text)


def _items(array: Iterable[Any] | None) -> Iterator[tuple[int, Any]]:
    """The items that were not taken out, each with its index."""
    return ((i, item) for i, item in enumerate(array or ()) if item is not None)


def _split_url(url: str) -> SplitResult | None:
    """The parts of an absolute URL with a host; None where it is none."""
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port in _PORTS
    except ValueError:
        return None
    return parts if parts.hostname and has_port and _URL.fullmatch(url) else None


def _is_host(host: str) -> bool:
    if host.startswith("[") and host.endswith("]"):
        try:
            ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            return False
        return True
    return _HOST.fullmatch(host) is not None


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True
