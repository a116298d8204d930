"""The load that others put on a model server: read from pages in the shapes of vLLM, SGLang and llama.cpp, ours taken off,
and given up where it cannot be known."""

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import structlog
import trio
from trio.testing import MockClock

from fibatchd import config
from fibatchd.upstream.fleet import Fleet
from fibatchd.upstream.load_probe import LoadProbe, requests_on

PAGES = {path.stem: path.read_bytes() for path in (Path(__file__).parent / "load_pages").glob("*.prom")}


@pytest.mark.parametrize(("server", "count"), [("vllm", 14), ("sglang", 15), ("llamacpp", 5)])
def test_a_recorded_page(server, count):
    assert requests_on(PAGES[server]) == count


@pytest.mark.parametrize(
    ("page", "count"),
    [
        (b"", None),
        (b"<html>vllm:num_requests_running 3</html>", None),
        (b"# TYPE vllm:num_requests_running gauge\n", None),
        (b"up 1\nnode_load1 0.5\n", None),
        (b"vllm:num_requests_running_total 3\n", None),
        (b"vllm:num_requests_running 0\n", 0),
        (b"vllm:num_requests_running 3", 3),
        (b"vllm:num_requests_running\t3 1763900000000\r\nx 1\r\n", 3),
        (b"vllm:num_requests_running {model_name=\"a}b\\\"} 9\"} 2e0\n", 2),
        (b"vllm:num_requests_running NaN\n", None),
        (b"vllm:num_requests_running +Inf\nvllm:num_requests_waiting 4\n", 4),
        (b"vllm:num_requests_running -1\n", None),
        (b"vllm:num_requests_running three\n", None),
        (b"vllm:num_requests_running{" + b'"' * 100_001 + b" 1\n", None),
    ],
)  # fmt: skip
def test_other_pages(page, count):
    assert requests_on(page) == count


MODEL = '[[models]]\nid = "{id}"\n'
UPSTREAM = '[[models.upstreams]]\nurl = "http://127.0.0.1:{port}/v1"\nmetrics_url = "http://127.0.0.1:{port}{path}"\n'
KEY = 'api_key_env = "KEY"\n'


@dataclass
class Server:
    """Serves `pages` by path: None is no answer, and where there is none the connection ends. `asked` are the heads of the requests."""

    port: int
    pages: dict[str, bytes | None] = field(default_factory=dict)
    status: int = 200
    asked: list[str] = field(default_factory=list)

    async def serve(self, stream):
        async with stream:
            while True:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    if not (data := await stream.receive_some()):
                        return
                    head += data
                self.asked.append(head.decode())
                if (path := head.split()[1].decode()) not in self.pages:
                    return
                if (page := self.pages[path]) is None:
                    await trio.sleep_forever()
                await stream.send_all(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (self.status, len(page), page))


@pytest.fixture
def clock():
    """Jumps when all is still; sockets need a moment of real time."""
    return MockClock(autojump_threshold=0.02)


@asynccontextmanager
async def probing(*models: str):
    """A server, a fleet whose models are configured on it, and what is reported."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = Server(listener.socket.getsockname()[1])
    fleet, reported = Fleet(), {}
    await fleet.update(parse(server, *models))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, server.serve, [listener])
        await nursery.start(LoadProbe(fleet, reported.__setitem__).run)
        yield server, fleet, reported
        nursery.cancel_scope.cancel()


def parse(server, *models):
    text = "".join(models).replace("{port}", str(server.port))
    return config.parse(text, environ={"KEY": "secret"})


def model(name, *paths, more=""):
    return MODEL.replace("{id}", name) + "".join(UPSTREAM.replace("{path}", path) + more for path in paths)


def page(count):
    return b"vllm:num_requests_running %d\nvllm:num_requests_waiting 1\n" % (count - 1)


async def test_what_others_do_is_told_and_ours_is_not(clock):
    async with probing(model("m", "/a")) as (server, fleet, reported):
        server.pages["/a"] = page(9)
        await trio.sleep(1.5)
        assert reported == {"m": 9}
        (member,) = fleet.of("m")
        for _ in range(4):
            member.replica.begin(0, 0.0)
        await trio.sleep(1)
        assert reported == {"m": 5}
        server.pages["/a"] = page(3)
        await trio.sleep(1)
        assert reported == {"m": 0}
        assert len(server.asked) == 4, "once a second"


async def test_the_servers_of_a_model_add_up_and_a_shared_page_counts_once(clock):
    two = model("m", "/a", "/b"), model("n", "/b")
    async with probing(*two) as (server, fleet, reported):
        server.pages |= {"/a": page(2), "/b": page(5)}
        fleet.of("n")[0].replica.begin(0, 0.0)
        await trio.sleep(0.5)
        assert reported == {"m": 2 + 4, "n": 4}
        assert sorted(head.split()[1] for head in server.asked) == ["/a", "/b"]


@pytest.mark.parametrize("fault", ["hangs", "fails", "is something else", "is too large", "is gone"])
async def test_a_page_that_cannot_be_read_counts_for_a_few_seconds_and_is_logged_once(clock, fault):
    async with probing(model("m", "/a", "/b")) as (server, _, reported):
        server.pages |= {"/a": page(7), "/b": page(2)}
        await trio.sleep(1.5)
        with structlog.testing.capture_logs() as logged:
            if fault == "fails":
                server.status = 500
            elif fault == "is gone":
                server.pages.clear()
            else:
                broken = {"hangs": None, "is something else": b"up 1\n", "is too large": page(7) + b"#" * 2**20}
                server.pages["/a"] = broken[fault]
            await trio.sleep(3)
            assert reported == {"m": 9}
            await trio.sleep(6)
            both = fault in ("fails", "is gone")
            assert reported == {"m": 0 if both else 2}
            server.status, server.pages["/a"], server.pages["/b"] = 200, page(7), page(2)
            await trio.sleep(2)
            assert reported == {"m": 9}
        events = [line["event"] for line in logged]
        assert events == ["the load of an upstream is not known"] * (1 + both) + [
            "the load of an upstream is known again"
        ] * (1 + both)


async def test_after_a_reload_what_is_no_longer_asked_counts_nothing(clock):
    async with probing(model("m", "/a"), model("n", "/b")) as (server, fleet, reported):
        server.pages |= {"/a": page(7), "/b": page(2)}
        await trio.sleep(1.5)
        assert reported == {"m": 7, "n": 2}
        await fleet.update(parse(server, model("n", "/b")))
        await trio.sleep(1)
        assert reported == {"m": 0, "n": 2}
        asked = len(server.asked)
        await fleet.update(parse(server))
        await trio.sleep(5)
        assert reported == {"m": 0, "n": 0}
        assert len(server.asked) == asked


async def test_the_upstreams_key_goes_to_its_own_server_only(clock):
    elsewhere = (
        '[[models.upstreams]]\nurl = "http://127.0.0.2:{port}/v1"\nmetrics_url = "http://127.0.0.1:{port}/b?x=1"\n'
    )
    async with probing(model("m", "/a", more=KEY), model("n") + elsewhere + KEY) as (server, _, reported):
        server.pages |= {"/a": page(1), "/b?x=1": page(2)}
        await trio.sleep(0.5)
        assert reported == {"m": 1, "n": 2}
        assert {head.split()[1]: "authorization: Bearer secret" in head for head in server.asked} == {
            "/a": True,
            "/b?x=1": False,
        }
