"""Binds what `server.listen` names: TCP addresses, unix sockets, and sockets handed over by systemd."""

import errno
import os
import socket
import stat
from collections.abc import Iterable, MutableMapping
from pathlib import Path
from typing import TypeAlias

import trio

from fibatchd.errors import ConfigError

BACKLOG = 1024
FIRST_FD = 3
"""Where inherited descriptors begin, by sd_listen_fds(3)."""

Inherited: TypeAlias = list[tuple[str, int]]
"""Sockets that systemd passed and nobody has taken yet: (name, descriptor) each."""


async def open_listeners(
    addresses: Iterable[str], *, setting: str = "server.listen", inherited: Inherited | None = None
) -> list[trio.SocketListener]:
    """Bind and listen on every address; all or none.

    `host:port`, `[v6]:port`, `:port` (every interface), `unix:/path`, `fd://` (all sockets that systemd passed) or
    `fd://NAME` (those with this FileDescriptorName). Raises `ConfigError` with a line for every address that fails.

    `inherited` is what `take_inherited` gave, where several settings share it; what is used is taken out.
    """
    listeners: list[trio.SocketListener] = []
    problems: list[str] = []
    if inherited is None:
        inherited = take_inherited(os.environ)
    for index, address in enumerate(addresses):
        try:
            listeners += await _open(address, inherited)
        except (OSError, ValueError) as error:
            problems.append(f"{setting}[{index}]: {_explain(address, error)}")
    if problems:
        for listener in listeners:
            await listener.aclose()
        raise ConfigError(problems)
    return listeners


def urls(listeners: Iterable[trio.SocketListener], scheme: str = "http") -> list[str]:
    """How to reach them, for the log: `http://127.0.0.1:8787`, `unix:/run/fibatchd.sock`."""
    names = [(listener.socket.family, listener.socket.getsockname()) for listener in listeners]
    return [_url(family, name, scheme) for family, name in names]


def _url(family: int, name: object, scheme: str) -> str:
    match name:
        case (str(host), int(port), *_):
            return f"{scheme}://[{host}]:{port}" if family == socket.AF_INET6 else f"{scheme}://{host}:{port}"
        case _:
            return f"unix:{name}"


def take_inherited(environ: MutableMapping[str, str]) -> Inherited:
    """The descriptors that systemd passed to this process, as `(name, fd)`; none of them is passed on to a child again."""
    pid = environ.pop("LISTEN_PID", "")
    count = environ.pop("LISTEN_FDS", "")
    names = environ.pop("LISTEN_FDNAMES", "").split(":")
    if pid != str(os.getpid()) or not count.isdigit():
        return []
    fds = range(FIRST_FD, FIRST_FD + int(count))
    for fd in fds:
        os.set_inheritable(fd, False)
    names += [""] * len(fds)
    return list(zip(names, fds, strict=False))


async def _open(address: str, inherited: Inherited) -> list[trio.SocketListener]:
    if address.startswith("fd://"):
        return _open_inherited(address.removeprefix("fd://"), inherited)
    if address.startswith("unix:"):
        return [_open_unix(Path(address.removeprefix("unix:")))]
    host, _, port = address.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise ValueError("expected host:port, [v6]:port, unix:/path or fd://")
    listeners = await trio.open_tcp_listeners(int(port), host=host.strip("[]") or None, backlog=BACKLOG)
    for listener in listeners:
        _keep_alive(listener)
    return listeners


def _keep_alive(listener: trio.SocketListener) -> None:
    """Notice clients whose machine is gone, within a minute. Accepted sockets inherit it, on Linux."""
    for level, option, value in (
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 30),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 10),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    ):
        if hasattr(socket, option):
            listener.socket.setsockopt(level, getattr(socket, option), value)


def _open_unix(path: Path) -> trio.SocketListener:
    if not path.is_absolute():
        raise ValueError("expected an absolute path after unix:")
    _remove_stale(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(path))
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return trio.SocketListener(trio.socket.from_stdlib_socket(listening))


def _remove_stale(path: Path) -> None:
    """Remove the socket of a server that is gone; one that still answers is in use."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise OSError(errno.EEXIST, "the path exists and is not a socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
        except BlockingIOError:  # its queue is full, so someone listens
            raise OSError(errno.EADDRINUSE, "") from None
        else:
            raise OSError(errno.EADDRINUSE, "")


def _open_inherited(name: str, inherited: Inherited) -> list[trio.SocketListener]:
    taken = [fd for fd_name, fd in inherited if name in ("", fd_name)]
    if not taken:
        raise ValueError("systemd passed no socket of that name" if name else "systemd passed no socket")
    inherited[:] = [entry for entry in inherited if entry[1] not in taken]
    listeners = []
    for fd in taken:
        passed = socket.socket(fileno=fd)
        if passed.type != socket.SOCK_STREAM or not passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            passed.close()
            raise ValueError("a socket passed by systemd is not a listening stream socket")
        listeners.append(trio.SocketListener(trio.socket.from_stdlib_socket(passed)))
    return listeners


def _explain(address: str, error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return f"{address!r}: the host name does not resolve"
    if isinstance(error, OSError):
        known = {
            errno.EADDRINUSE: "is in use by another process",
            errno.EACCES: "may not be bound by this user",
            errno.EADDRNOTAVAIL: "is not an address of this machine",
        }
        return f"{address!r} {known.get(error.errno or 0, error.strerror or str(error))}"
    return f"{address!r}: {error}"
