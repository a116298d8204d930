"""Where an upstream lives: its URL taken apart, and how a socket to it is opened.

The socket that comes out is a plain non-blocking one of the standard library, not a trio stream: the client waits for
it with `trio.lowlevel`, which saves about half the cost of a small exchange. `ssl.SSLSocket` has the same interface,
so TLS needs no code of its own beyond the handshake.
"""

import re
import socket
import ssl
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

import trio

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    """An upstream's address, parsed from one of

    http://host[:port][/base]          `host` is a name, an IPv4 address or an IPv6 address in brackets
    https://host[:port][/base]         the same over TLS
    http+unix://%2Frun%2Fx.sock[/base] a unix socket, its path percent-encoded in the place of the host
    """

    host: str
    """What is connected to and what the certificate must name; empty for a unix socket."""
    port: int
    unix_path: str
    """Path of the unix socket; empty for TCP."""
    authority: str
    """The value of the `Host` header (RFC 9112, 3.2)."""
    base: str
    """Path that precedes every request's path; no slash at its end, may be empty."""
    tls: bool

    @classmethod
    def parse(cls, url: str) -> "Origin":
        """Take `url` apart. ValueError: it is none of the three forms, or has credentials, a query or a fragment."""
        parts = urlsplit(url)
        if parts.username is not None or parts.query or parts.fragment or not re.fullmatch(r"[!-~]*", url):
            raise ValueError(f"{url!r}: credentials, query, fragment and unencoded characters have no place here")
        base = parts.path.rstrip("/")
        if parts.scheme == "http+unix" and parts.netloc:
            return cls("", 0, unquote(parts.netloc), "localhost", base, False)
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
            raise ValueError(f"{url!r}: expected http://host, https://host or http+unix://%2Fpath%2Fto%2Fsocket")
        host = unquote(parts.hostname)
        port = parts.port or _DEFAULT_PORTS[parts.scheme]
        return cls(host, port, "", _authority(host, parts), base, parts.scheme == "https")

    def __str__(self) -> str:
        return self.unix_path or f"{self.host}:{self.port}"

    async def connect(self, context: ssl.SSLContext | None) -> socket.socket:
        """A connected, non-blocking socket; an `ssl.SSLSocket` whose handshake is done if `tls`.

        Names are resolved and addresses tried as RFC 8305 (Happy Eyeballs) says. OSError: that failed, or the
        certificate is not one that `context` trusts for this host.
        """
        if self.unix_path:
            stream = await trio.open_unix_socket(self.unix_path)
        else:
            stream = await trio.open_tcp_stream(self.host, self.port)  # sets TCP_NODELAY
        sock = socket.socket(fileno=stream.socket.detach())
        sock.setblocking(False)
        return await _handshake(sock, context, self.host) if self.tls and context else sock


def _authority(host: str, parts: SplitResult) -> str:
    # A zone id means something on this machine only (RFC 6874, 4).
    name = f"[{host.partition('%')[0]}]" if ":" in host else host
    return name if parts.port is None else f"{name}:{parts.port}"


async def _handshake(sock: socket.socket, context: ssl.SSLContext, host: str) -> ssl.SSLSocket:
    try:
        # Ragged ends must not be suppressed: an answer that ends with the connection could be cut unnoticed.
        tls = context.wrap_socket(
            sock,
            server_hostname=host.partition("%")[0],
            do_handshake_on_connect=False,
            suppress_ragged_eofs=False,
        )
    except BaseException:
        sock.close()
        raise
    try:
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                await trio.lowlevel.wait_readable(tls)
            except ssl.SSLWantWriteError:
                await trio.lowlevel.wait_writable(tls)
            else:
                return tls
    except BaseException:
        tls.close()
        raise
