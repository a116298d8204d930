"""A webhook's URL taken apart, once and strictly, into what is connected to. Pure.

Parsers of URLs differ where texts are odd, and an attacker lives in the difference: what one takes for the host is
another's user name. So there is one parser here, which refuses what is odd, and the request is made of its parts, never
of the text again.
"""

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NoReturn

import idna

from . import addresses

LONGEST_URL = 2048
HTTPS_PORT = 443
FIRST_OPEN_PORT = 1024
"""Below it, but for HTTPS itself, other protocols listen, which an HTTP request has no business with."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)")
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]+)(?::([0-9]{1,5}))?", re.ASCII)
_REST = re.compile(r"[!-~]*")
_ODD = re.compile(r"[\x00-\x20\x7f-\xa0\\]")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_LONGEST_NAME = 253

_LOCAL_NAMES = ("localhost", "localdomain", "local", "internal", "home.arpa", "onion")
"""Names under these mean something on one machine or in one network only (RFC 6761, RFC 6762, RFC 8375), or nothing."""


class UrlRefused(ValueError):
    """A URL is none that webhooks may go to; says why, in words that follow "url: "."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes.

    host  an ASCII name in lower case without a dot at its end, or an IP address (IPv6 without brackets)
    path  path and query, as they are sent
    """

    tls: bool
    host: str
    port: int
    path: str

    @property
    def is_address(self) -> bool:
        """Whether the host is an IP address, so that there is nothing to resolve."""
        return ":" in self.host or _is_number(self.host)

    @property
    def authority(self) -> str:
        """The value of the `Host` header (RFC 9112, section 3.2)."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (HTTPS_PORT if self.tls else 80) else f"{host}:{self.port}"


def read_url(url: str, *, allow_private: bool) -> Target:
    """Take a webhook's URL apart. `allow_private` also lets through http, any port, and hosts that are not public.

    Raises UrlRefused.
    """
    if len(url) > LONGEST_URL:
        raise UrlRefused(f"longer than {LONGEST_URL} characters")
    if _ODD.search(url):
        raise UrlRefused("has a space, a control character or a backslash in it")
    match = _URL.fullmatch(url)
    if match is None:
        raise UrlRefused(
            "has a fragment (#)" if "#" in url and "://" in url else "not an address such as https://host/path"
        )
    scheme, authority, rest = match[1].lower(), match[2], match[3]
    if scheme != "https" and not (allow_private and scheme == "http"):
        raise UrlRefused("must begin with https://")
    if not _REST.fullmatch(rest):
        raise UrlRefused("characters beyond ASCII must be percent-encoded behind the host")
    host, port = _read_authority(authority)
    target = Target(scheme == "https", host, port or (HTTPS_PORT if scheme == "https" else 80), _path(rest))
    if not allow_private:
        _check_public(target)
    return target


def _path(rest: str) -> str:
    return rest if rest.startswith("/") else "/" + rest


def _read_authority(authority: str) -> tuple[str, int | None]:
    if "@" in authority:
        raise UrlRefused("must not hold a user name or password")
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise UrlRefused("has no host, or a port that is none")
    port = int(match[2]) if match[2] else None
    if port is not None and not 1 <= port <= 65535:
        raise UrlRefused(f"{port} is no port")
    return _read_host(match[1]), port


def _read_host(text: str) -> str:
    if text.startswith("["):
        if "%" in text:
            raise UrlRefused("an IPv6 zone means something on one machine only")
        try:
            return str(IPv6Address(text[1:-1]))
        except AddressValueError:
            raise UrlRefused("the host in brackets is no IPv6 address") from None
    name = _ascii(text).lower().removesuffix(".")
    if len(name) > _LONGEST_NAME or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        _not_a_host()
    if _is_number(name):
        try:
            return str(IPv4Address(name))
        except AddressValueError:
            raise UrlRefused("an IPv4 address must be four decimal numbers") from None
    return name


def _ascii(text: str) -> str:
    """Return a name as DNS has it. What looks like a digit or a dot to UTS 46 becomes one, and is judged as one."""
    if text.isascii():
        return text
    try:
        return idna.encode(text, uts46=True).decode("ascii")
    except UnicodeError:  # idna's errors are such, too
        _not_a_host()


def _is_number(name: str) -> bool:
    """Whether resolvers take a name for an IPv4 address, in whatever notation: its last part is a number."""
    return _NUMBER.fullmatch(name.rpartition(".")[2]) is not None


def _not_a_host() -> NoReturn:
    raise UrlRefused("the host is no name that DNS could have")


def _check_public(target: Target) -> None:
    if target.port != HTTPS_PORT and target.port < FIRST_OPEN_PORT:
        raise UrlRefused(f"port {target.port} is not allowed: use {HTTPS_PORT}, or one from {FIRST_OPEN_PORT} on")
    if target.is_address:
        if (kind := addresses.refusal(target.host)) is not None:
            raise UrlRefused(f"the host is {kind}; webhooks go to public addresses only")
    elif "." not in target.host or any(f".{target.host}".endswith(f".{name}") for name in _LOCAL_NAMES):
        raise UrlRefused("the host is a name of a local network; webhooks go to public addresses only")
