"""Binding: every form of address, and clear words for each that fails."""

import errno
import os
import socket
import sys
from pathlib import Path

import pytest
import trio

from fibatchd.errors import ConfigError
from fibatchd.web.listeners import _explain, open_listeners, take_inherited, urls


async def close(listeners: list[trio.SocketListener]) -> None:
    for listener in listeners:
        await listener.aclose()


@pytest.mark.parametrize(
    ("address", "url"),
    [("127.0.0.1:0", "http://127.0.0.1:"), ("[::1]:0", "http://[::1]:"), ("localhost:0", "http://")],
)
async def test_tcp_address_is_bound(address: str, url: str) -> None:
    listeners = await open_listeners([address])
    assert all(found.startswith(url) for found in urls(listeners))
    stream = await trio.testing.open_stream_to_socket_listener(listeners[0])
    accepted = await listeners[0].accept()
    assert accepted.socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    await stream.aclose()
    await accepted.aclose()
    await close(listeners)


async def test_unix_socket_of_a_server_that_is_gone_is_replaced(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 's'}"
    await close(await open_listeners([address]))
    listeners = await open_listeners([address])
    assert urls(listeners) == [address]
    stream = await trio.open_unix_socket(str(tmp_path / "s"))
    await stream.aclose()
    await close(listeners)


async def test_unix_socket_of_a_running_server_is_left_alone(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 's'}"
    listeners = await open_listeners([address])
    with pytest.raises(ConfigError, match="is in use"):
        await open_listeners([address])
    stream = await trio.open_unix_socket(str(tmp_path / "s"))
    await stream.aclose()
    await close(listeners)


async def test_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("precious")
    with pytest.raises(ConfigError, match="exists and is not a socket"):
        await open_listeners([f"unix:{tmp_path / 's'}"])
    assert (tmp_path / "s").read_text() == "precious"


async def test_every_problem_is_told_and_nothing_stays_bound() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        with pytest.raises(ConfigError) as caught:
            await open_listeners(
                [
                    f"127.0.0.1:{port}",
                    f"127.0.0.1:{taken.getsockname()[1]}",
                    "192.0.2.1:80",
                    "nowhere",
                    "127.0.0.1:http",
                    "127.0.0.1:70000",
                    "unix:relative",
                    "fd://",
                    "unix:/nonexistent/folder/s",
                ]
            )
    told = [problem.partition(": ") for problem in caught.value.problems]
    assert [path for path, _, _ in told] == [f"server.listen[{index}]" for index in range(1, 9)]
    for (_, _, problem), words in zip(
        told,
        [
            "in use",
            "not an address of this machine",
            "expected",
            "expected",
            "expected",
            "absolute",
            "no socket",
            "No such",
        ],
        strict=True,
    ):
        assert words in problem
    await close(await open_listeners([f"127.0.0.1:{port}"]))


def test_words_for_what_a_test_cannot_provoke() -> None:
    assert _explain("a:1", socket.gaierror()) == "'a:1': the host name does not resolve"
    assert _explain("a:1", OSError(errno.EACCES, "")) == "'a:1' may not be bound by this user"


def environment(count: int, names: str = "", pid: int | None = None) -> dict[str, str]:
    return {"LISTEN_PID": str(pid or os.getpid()), "LISTEN_FDS": str(count), "LISTEN_FDNAMES": names, "HOME": "/"}


def test_inherited_descriptors_are_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[tuple[int, bool]] = []
    monkeypatch.setattr(os, "set_inheritable", lambda fd, inheritable: closed.append((fd, inheritable)))
    environ = environment(2, "api:metrics")
    assert take_inherited(environ) == [("api", 3), ("metrics", 4)]
    assert closed == [(3, False), (4, False)]
    assert environ == {"HOME": "/"}
    assert take_inherited(environ) == []


@pytest.mark.parametrize("pid", [1 << 30, os.getppid()], ids=["any", "its parent"])
def test_descriptors_meant_for_another_process_are_not_taken(pid: int) -> None:
    assert take_inherited(environment(2, pid=pid)) == []


async def serve_inherited(listen: list[str], names: str) -> list[str]:
    """In a child process that is started as systemd would: what `open_listeners` makes of two passed sockets."""
    program = f"""
import os, sys, trio
for fd, passed in enumerate(sys.argv[1:], start=3):
    os.dup2(int(passed), fd)
os.environ["LISTEN_PID"] = str(os.getpid())
from fibatchd.errors import ConfigError
from fibatchd.web.listeners import open_listeners, urls
async def main():
    try:
        print("\\n".join(urls(await open_listeners({listen!r}))))
    except ConfigError as error:
        print(error)
trio.run(main)
"""
    with socket.create_server(("127.0.0.1", 0)) as first, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as second:
        passed = [first.fileno(), second.fileno()]
        environ = os.environ | {"LISTEN_FDS": "2", "LISTEN_FDNAMES": names}
        done = await trio.run_process(
            [sys.executable, "-c", program, *map(str, passed)], capture_stdout=True, env=environ, pass_fds=passed
        )
        return [line.replace(str(first.getsockname()[1]), "PORT") for line in done.stdout.decode().splitlines()]


async def test_sockets_from_systemd_are_served() -> None:
    assert await serve_inherited(["fd://api"], "api:log") == ["http://127.0.0.1:PORT"]


async def test_socket_that_does_not_listen_is_refused() -> None:
    assert await serve_inherited(["fd://"], "api:log") == [
        "server.listen[0]: 'fd://': a socket passed by systemd is not a listening stream socket"
    ]
    assert await serve_inherited(["fd://web"], "api:log") == [
        "server.listen[0]: 'fd://web': systemd passed no socket of that name"
    ]
