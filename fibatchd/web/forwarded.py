"""Who the client is when a proxy stands in front: `Forwarded` (RFC 7239) and `X-Forwarded-*`, from trusted peers only.

Pure. Each proxy appends the peer it saw, so the list is walked from its end for as long as the speaker is trusted.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

UNIX = "unix:"
"""In a list of trusted proxies: every peer on a unix socket. Also the address of such a peer."""

# A client writes these headers and a trusted proxy hands them on: nothing here may take quadratic time. So what may stand
# next is told by one character, and runs of characters are possessive.
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_QUOTED = r'"((?:[^"\\]++|\\.)*)"'
_PAIR = rf"({_TOKEN})=(?:{_QUOTED}|([^\s\",;=]++))"
_pair = re.compile(_PAIR)
_pairs = re.compile(rf"(?:{_PAIR})?(?:\s*+;\s*+(?:{_PAIR})?)*")
_quotes_closed = re.compile(rf'(?:[^"]++|{_QUOTED})*')
_element = re.compile(rf'(?:[^",]++|{_QUOTED})+')


@dataclass(frozen=True)
class Client:
    """The address (without port), the scheme and the host (None: not told) that the client used."""

    address: str
    scheme: str
    host: str | None


class TrustedProxies:
    """The peers whose word on the client is taken: addresses, networks in CIDR form, or `unix:`.

    Raises `ValueError`, naming the entry, for anything else.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        entries = list(entries)
        self._unix = UNIX in entries
        self._networks: list[IPv4Network | IPv6Network] = [ip_network(entry) for entry in entries if entry != UNIX]

    def __contains__(self, address: str) -> bool:
        if address == UNIX:
            return self._unix
        parsed = _parse(address)
        return parsed is not None and any(parsed in network for network in self._networks)


def client_of(peer: str, scheme: str, headers: Sequence[tuple[bytes, bytes]], trusted: TrustedProxies) -> Client:
    """The client behind `peer`, an address or `UNIX`, that connected by `scheme`. Header names are lower case.

    A proxy writes one of the two forms and may hand on the other as the client sent it. Where both are there and do not
    name the same client, neither is believed.
    """
    direct = Client(peer, scheme, None)
    if peer not in trusted:
        return direct
    told = [_walk(direct, hops, trusted) for hops in (_standard_hops(headers), _x_forwarded_hops(headers)) if hops]
    return told[0] if told and all(client == told[0] for client in told) else direct


@dataclass(frozen=True)
class _Hop:
    address: str | None
    scheme: str | None
    host: str | None


_HIDDEN = _Hop(None, None, None)
"""Who it was is not told."""


def _walk(client: Client, hops: list[_Hop], trusted: TrustedProxies) -> Client:
    for hop in reversed(hops):
        if client.address not in trusted or hop.address is None:
            break
        client = Client(hop.address, hop.scheme or client.scheme, hop.host or client.host)
    return client


def _standard_hops(headers: Sequence[tuple[bytes, bytes]]) -> list[_Hop]:
    """One hop an element. Each line is read by itself, so that a quote which a client left open hides no later line."""
    hops = []
    for line in _lines_of(headers, b"forwarded"):
        if _quotes_closed.fullmatch(line):
            elements = (found[0].strip() for found in _element.finditer(line))
            hops += [_hop(element) for element in elements if element]
        else:
            hops.append(_HIDDEN)
    return hops


def _hop(element: str) -> _Hop:
    """What an element says; nothing where it is not as RFC 7239 has it: an open quote of the client's may have been closed
    by the first one that the proxy wrote."""
    if not _pairs.fullmatch(element):
        return _HIDDEN
    pairs = {name.lower(): quoted or plain for name, quoted, plain in _pair.findall(element)}
    return _Hop(_node(pairs.get("for", "")), _scheme(pairs.get("proto", "")), _host(pairs.get("host", "")))


def _x_forwarded_hops(headers: Sequence[tuple[bytes, bytes]]) -> list[_Hop]:
    """One hop an address. A single scheme or host is the edge's word on the whole way, so it stands for every hop."""
    addresses = _list_of(headers, b"x-forwarded-for")
    schemes = _aligned(_list_of(headers, b"x-forwarded-proto"), len(addresses))
    hosts = _aligned(_list_of(headers, b"x-forwarded-host"), len(addresses))
    return [
        _Hop(_node(address), _scheme(scheme), _host(host))
        for address, scheme, host in zip(addresses, schemes, hosts, strict=True)
    ]


def _aligned(values: list[str], count: int) -> list[str]:
    if len(values) < 2:
        return (values or [""]) * count
    return [""] * max(0, count - len(values)) + values[max(0, len(values) - count) :]


def _list_of(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> list[str]:
    joined = ",".join(_lines_of(headers, name))
    return [element.strip() for element in joined.split(",") if element.strip()]


def _lines_of(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key == name]


def _node(text: str) -> str | None:
    """The address in `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1` or `[2001:db8::1]:80`; None for a hidden one."""
    bracketed = re.fullmatch(r"\[([^\]]+)\](?::\w+)?", text)
    if bracketed:
        text = bracketed[1]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    parsed = _parse(text)
    return None if parsed is None else str(parsed)


def _scheme(text: str) -> str | None:
    return text.lower() if text.lower() in ("http", "https") else None


def _host(text: str) -> str | None:
    return text if re.fullmatch(r"[\w.\-]+(:\d+)?|\[[0-9A-Fa-f:.]+\](:\d+)?", text, re.ASCII) else None


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    """An IPv4 address written as IPv6 (`::ffff:192.0.2.1`, as a dual-stack socket names its peers) counts as IPv4."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
