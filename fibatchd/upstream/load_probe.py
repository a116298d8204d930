"""Asks model servers how busy they are, by their Prometheus pages: that shows the work of clients that do not come through
here, to which batches yield as to any interactive request.

A page counts all requests on its server, ours among them: those are taken off again. What cannot be read counts nothing,
after a few seconds: a server whose page is gone is not to hold batches up for ever.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

import structlog
import trio

from fibatchd.beat import beat
from fibatchd.config import Upstream
from fibatchd.errors import UpstreamError
from fibatchd.upstream.client import UpstreamClient
from fibatchd.upstream.fleet import Fleet, Member, headers_for

log = structlog.get_logger()

PERIOD_S = 1.0
STALE_S = 5.0
PAGE_MAX = 2**20

# Requests that are being worked on, and that wait to be, by vLLM, SGLang and llama.cpp.
_NAMES = (
    b"vllm:num_requests_running", b"vllm:num_requests_waiting",
    b"sglang:num_running_reqs", b"sglang:num_queue_reqs",
    b"llamacpp:requests_processing", b"llamacpp:requests_deferred",
)  # fmt: skip
# A sample of Prometheus' text format: name, labels (whose quoted values may hold anything), value.
_SAMPLE = re.compile(
    rb"^(?:%b)[ \t]*(?:\{(?:[^\"}]|\"(?:[^\"\\]|\\.)*\")*\})?[ \t]*([^\s{]+)" % b"|".join(map(re.escape, _NAMES)),
    re.MULTILINE,
)


def requests_on(page: bytes) -> int | None:
    """Return how many requests a server's page (Prometheus text format 0.0.4) says are on it, running and waiting, over
    all its engines; None where it has no such sample of a server known here."""
    total: float | None = None
    for match in _SAMPLE.finditer(page):
        try:
            value = float(match[1])
        except ValueError:
            continue
        if math.isfinite(value) and value >= 0:
            total = (total or 0) + value
    return None if total is None else round(total)


class LoadProbe:
    """A service: reads the pages of a fleet's upstreams about once a second, and tells `report(model_id, count)` how many
    requests of others are on a model's servers."""

    name = "load-probe"

    def __init__(self, fleet: Fleet, report: Callable[[str, int], None]) -> None:
        self._fleet = fleet
        self._report = report
        self._pages: dict[str, _Page] = {}
        self._reported: set[str] = set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Read and report until cancelled."""
        task_status.started()
        while True:
            following = beat(PERIOD_S)
            await self._read()
            await trio.sleep_until(following)

    async def _read(self) -> None:
        members: dict[str, list[Member]] = {}
        models: dict[str, set[str]] = {}
        for model_id, member in self._fleet.members():
            if (url := member.upstream.metrics_url) is not None:
                members.setdefault(url, []).append(member)
                models.setdefault(url, set()).add(model_id)
        self._pages = {url: self._page(url, found[0].upstream) for url, found in members.items()}
        async with trio.open_nursery() as nursery:
            for url, page in self._pages.items():
                nursery.start_soon(page.read, members[url])
        counts = Counter(dict.fromkeys(self._reported, 0))
        for url, page in self._pages.items():
            counts.update({model_id: page.of_others(trio.current_time()) for model_id in models[url]})
        for model_id, count in counts.items():
            self._report(model_id, count)
        self._reported = {model_id for found in models.values() for model_id in found}

    def _page(self, url: str, upstream: Upstream) -> "_Page":
        """Return the page at this URL, which several upstreams may share, read in the name of one of them."""
        known = self._pages.get(url)
        return known if known is not None and known.upstream == upstream else _Page(url, upstream)


class _Page:
    """One page, and what it said last."""

    def __init__(self, url: str, upstream: Upstream) -> None:
        self.upstream = upstream
        self._url = url
        self._client, self._path = _client_for(url, upstream)
        self._others = 0
        self._read_at = -math.inf
        self._failing = False

    async def read(self, members: Sequence[Member]) -> None:
        """Read it, and take off what `members` have in flight on the server."""
        own = sum(member.replica.in_flight for member in members)
        try:
            answer = await self._client.request("GET", self._path, timeout=PERIOD_S, max_body=PAGE_MAX)
        except UpstreamError as error:
            self._failed(str(error))
            return
        count = requests_on(answer.body) if answer.status == 200 else None
        if count is None:
            self._failed(f"status {answer.status}, no count of requests")
            return
        # The server counted somewhere between the two looks; the larger does not mistake our requests for others'.
        own = max(own, sum(member.replica.in_flight for member in members))
        self._others, self._read_at = max(0, count - own), trio.current_time()
        if self._failing:
            self._failing = False
            log.info("the load of an upstream is known again", metrics_url=self._url)

    def of_others(self, now: float) -> int:
        """Return the requests that others have on the server; 0 when that has not been known for a while."""
        return self._others if now - self._read_at <= STALE_S else 0

    def _failed(self, why: str) -> None:
        if not self._failing:
            self._failing = True
            log.warning("the load of an upstream is not known", metrics_url=self._url, reason=why)


def _client_for(url: str, upstream: Upstream) -> tuple[UpstreamClient, str]:
    """Return a client for the page's server, and the page's path. The upstream's key goes to its own server only."""
    parts, of_model = urlsplit(url), urlsplit(upstream.url)
    same_server = (parts.scheme, parts.netloc) == (of_model.scheme, of_model.netloc)
    client = UpstreamClient(
        f"{parts.scheme}://{parts.netloc}",
        ca_file=str(upstream.ca_file) if upstream.ca_file and parts.scheme == "https" else None,
        headers=headers_for(upstream) if same_server else {},
        max_connections=1,
        connect_timeout=PERIOD_S,
    )
    return client, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
