"""The core's metrics: name, meaning, and where the number comes from. docs/metrics.md says what to do with them.

They are read on the event loop when the page is asked for. Labels are names of the configuration or of the program.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import trio

from fibatchd import __version__
from fibatchd.context import Context
from fibatchd.domain import states
from fibatchd.inference.judge import Verdict
from fibatchd.metrics import Distribution, Labels, Metric
from fibatchd.monitoring.heartbeat import Heartbeat
from fibatchd.monitoring.standing import KnownStanding
from fibatchd.scheduler.pools import Scheduler
from fibatchd.scheduler.transitions import Transitions
from fibatchd.store.measured import MeasuredStore
from fibatchd.store.spending import BATCH, INTERACTIVE
from fibatchd.store.standing import Standing
from fibatchd.supervise import restarts
from fibatchd.upstream.balance import Replica
from fibatchd.web.traffic import Traffic

Numbers = Mapping[Labels, float | Distribution]


@dataclass(frozen=True)
class Sources:
    """The parts of a daemon that numbers come from. `ready`: whether it takes work; `reloaded`: whether the last reload of
    the configuration succeeded."""

    context: Context
    scheduler: Scheduler
    traffic: Traffic
    transitions: Transitions
    store: MeasuredStore
    heartbeat: Heartbeat
    standing: KnownStanding
    ready: Callable[[], bool]
    reloaded: Callable[[], bool]


def metrics_of(sources: Sources) -> list[Metric]:
    """Return all metrics of the core."""
    groups = (_http, _batches, _attempts, _models, _upstreams, _store, _daemon)
    return [metric for group in groups for metric in group(sources)]


def _http(of: Sources) -> Iterator[Metric]:
    traffic = of.traffic
    yield _counter(
        "http_requests_total", "API requests answered.", ("method", "route", "status"), lambda: traffic.requests
    )
    yield _histogram(
        "http_request_duration_seconds",
        "From an API request's head to the end of its answer, streams included.",
        ("route",),
        lambda: traffic.seconds,
    )
    yield _counter(
        "http_refused_total",
        "Requests answered before any route saw them: malformed, too large, too slow, too late.",
        ("status",),
        lambda: traffic.refused,
    )
    yield _gauge("http_connections", "Open connections, busy or idle.", ("state",), lambda: traffic.connections())


def _batches(of: Sources) -> Iterator[Metric]:
    known = of.standing
    yield _gauge("batches", "Open batches, over all daemons.", ("status",), lambda: _open_batches(known))
    yield _gauge(
        "requests_queued",
        "Requests of batches that wait to run, over all daemons.",
        ("model",),
        lambda: _by_model(of.context, known, lambda now: now.queued),
    )
    yield _gauge(
        "requests_running",
        "Requests of batches that are claimed or running, over all daemons.",
        (),
        lambda: {} if known.now is None else {(): known.now.running},
    )
    yield _gauge(
        "queue_age_seconds",
        "Age of the oldest batch that has requests waiting to run, over all daemons.",
        ("model",),
        lambda: _by_model(of.context, known, lambda now: now.oldest),
    )
    yield _gauge(
        "batches_waiting",
        "Batches that this daemon holds back: daily quota used up, access lost, model drained.",
        ("model", "reason"),
        lambda: _held_back(of.scheduler),
    )
    yield _counter(
        "batches_ended_total", "Batches that this daemon ended.", ("status",), lambda: of.transitions.batches
    )
    yield _counter(
        "batch_requests_ended_total", "Requests of those batches.", ("status",), lambda: of.transitions.requests
    )


def _attempts(of: Sources) -> Iterator[Metric]:
    tally, recorder = of.context.tally, of.scheduler.recorder
    yield _counter(
        "attempts_total",
        "Attempts that reached an upstream, by outcome: completed, an error code, or cut by the client.",
        ("model", "way", "outcome"),
        lambda: tally.attempts,
    )
    yield _counter(
        "tokens_total",
        "Tokens used: input (with cached), cached, output.",
        ("model", "way", "kind"),
        lambda: tally.tokens,
    )
    yield _counter("cost_usd_total", "Known cost of attempts in USD.", ("model", "way"), lambda: tally.cost_usd)
    yield _histogram("outcome_group_size", "Outcomes recorded by one transaction.", (), lambda: {(): recorder.groups})
    yield _gauge("outcomes_waiting", "Outcomes not recorded yet.", (), lambda: {(): len(recorder.waiting())})


def _models(of: Sources) -> Iterator[Metric]:
    context, pools = of.context, of.scheduler.pools
    yield _gauge(
        "in_flight",
        "Requests of this daemon that are at an upstream.",
        ("model", "way"),
        lambda: _in_flight(context, of.scheduler),
    )
    yield _gauge(
        "claimed", "Requests claimed ahead and not started.", ("model",),
        lambda: {(model_id,): len(pool.stock) for model_id, pool in pools.items()},
    )  # fmt: skip
    yield _gauge(
        "batch_concurrency_limit",
        "Batch requests at once, as configured, over all daemons.",
        ("model",),
        lambda: {(model.id,): model.concurrency for model in context.config.models},
    )
    yield _gauge(
        "capacity",
        "Requests of both ways that the model takes well, where configured.",
        ("model",),
        lambda: {(model.id,): model.capacity for model in context.config.models if model.capacity is not None},
    )


def _upstreams(of: Sources) -> Iterator[Metric]:
    fleet = of.context.executor.fleet

    def each(value: Callable[[Replica], float]) -> Callable[[], Numbers]:
        # Two upstreams of a model may have one URL, and still only one line: the sum.
        def read() -> Numbers:
            found: dict[Labels, float] = {}
            for model_id, member in fleet.members():
                labels = (model_id, member.upstream.url)
                found[labels] = found.get(labels, 0) + value(member.replica)
            return found

        return read

    labels = ("model", "upstream")
    yield _gauge("upstream_up", "1 while requests are sent to it, 0 while its breaker is open.", labels,
                 each(lambda replica: not replica.out))  # fmt: skip
    yield _gauge("upstream_paused", "1 while it wants to be left alone (429 with Retry-After).", labels,
                 each(lambda replica: replica.paused_until > trio.current_time()))  # fmt: skip
    yield _gauge(
        "upstream_in_flight", "Requests of this daemon at it.", labels, each(lambda replica: replica.in_flight)
    )
    yield _histogram(
        "upstream_duration_seconds",
        "From a request's sending to the end of its answer, whatever the status.",
        ("model",),
        lambda: fleet.seconds,
    )


def _store(of: Sources) -> Iterator[Metric]:
    store, known = of.store, of.standing
    yield _gauge("store_up", "Whether the database answers.", (), lambda: {(): known.now is not None})
    yield _gauge("store_has_room", "Whether there is space to store more.", (), lambda: {(): store.has_room()})
    yield _histogram(
        "store_duration_seconds",
        "Transactions as their callers see them, waits and commits included.",
        ("kind",),
        lambda: store.seconds,
    )
    yield _counter(
        "store_unavailable_total", "Transactions that the database could not do.", ("kind",), lambda: store.unavailable
    )


def _daemon(of: Sources) -> Iterator[Metric]:
    yield _gauge("build_info", "1, with the version.", ("version",), lambda: {(__version__,): 1})
    yield _gauge("ready", "Whether new work is taken.", (), lambda: {(): of.ready()})
    yield _gauge("config_reload_successful", "Whether the last reload succeeded.", (), lambda: {(): of.reloaded()})
    yield _histogram("event_loop_lag_seconds", "How late a task ran that was due.", (), lambda: {(): of.heartbeat.lag})
    yield _counter(
        "part_restarts_total", "Parts of the daemon that crashed and were started again.", ("part",), lambda: restarts
    )


def _open_batches(known: KnownStanding) -> Numbers:
    if known.now is None:
        return {}
    return {(status,): known.now.batches.get(status, 0) for status in sorted(states.UNFINISHED)}


def _by_model(context: Context, known: KnownStanding, part: Callable[[Standing], Mapping[str, float]]) -> Numbers:
    """Return a number for each model that is configured, 0 where nothing waits, and for each that is gone and still has
    requests waiting."""
    if known.now is None:
        return {}
    found = {model.id: 0.0 for model in context.config.models} | dict(part(known.now))
    return {(model_id,): value for model_id, value in found.items()}


def _held_back(scheduler: Scheduler) -> Numbers:
    reasons = (Verdict.QUOTA, Verdict.ACCESS, Verdict.DRAIN)
    return {
        (model_id, reason.value): sum(why is reason for why in pool.waiting.values())
        for model_id, pool in scheduler.pools.items()
        for reason in reasons
    }


def _in_flight(context: Context, scheduler: Scheduler) -> Numbers:
    interactive = context.load.own()
    found: dict[Labels, float] = {}
    for model_id, pool in scheduler.pools.items():
        found[model_id, BATCH] = len(pool.running)
        found[model_id, INTERACTIVE] = interactive.get(model_id, 0)
    return found


def _counter(name: str, text: str, labels: tuple[str, ...], read: Callable[[], Numbers]) -> Metric:
    return Metric(f"fibatchd_{name}", text, "counter", labels, read)


def _gauge(name: str, text: str, labels: tuple[str, ...], read: Callable[[], Numbers]) -> Metric:
    return Metric(f"fibatchd_{name}", text, "gauge", labels, read)


def _histogram(name: str, text: str, labels: tuple[str, ...], read: Callable[[], Numbers]) -> Metric:
    return Metric(f"fibatchd_{name}", text, "histogram", labels, read)
