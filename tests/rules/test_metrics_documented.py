"""Every metric stands in docs/metrics.md as it is, is looked at by a test, and obeys Prometheus' naming rules; the dashboard and
the alerts use metrics and labels that exist."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from fibatchd import plugin_loader
from fibatchd.config import Config
from fibatchd.daemon import compose
from fibatchd.monitoring.figures import Sources, metrics_of
from fibatchd.monitoring.heartbeat import Heartbeat
from fibatchd.monitoring.standing import KnownStanding
from fibatchd.scheduler.pools import Scheduler
from fibatchd.scheduler.transitions import Transitions
from fibatchd.upstream.fleet import Fleet
from fibatchd.web.traffic import Traffic

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "config" / "prometheus-alerts.yaml"
DASHBOARD = json.loads((ROOT / "config" / "grafana-dashboard.json").read_text())
DOCS = (ROOT / "docs" / "metrics.md").read_text()
OF_THE_PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
# Labels that Prometheus adds, and the histograms' own.
OF_PROMETHEUS = {"instance", "job", "le"}
UNITS = ("_seconds", "_usd_total", "_total", "_bytes")
# Without a unit: these count things, or are 0 or 1.
UNITLESS = re.compile(
    r"fibatchd_(batches|requests|in_flight|claimed|batch_concurrency_limit|capacity|upstream|outcome|http_connections|store_up|"
    r"store_has_room|ready|build_info|config_reload)"
)


class _NoStore:
    """Metrics are only listed here, not read."""

    shared = False
    dialect = "sqlite"


def all_metrics():
    store, plugins = _NoStore(), plugin_loader.load()
    context = compose(Config(), store, Fleet(), plugins)
    plugins.hook.fibatchd_services(context=context)
    parts = (Scheduler(context), Traffic(), Transitions(store), store, Heartbeat(), KnownStanding(store))
    return [*metrics_of(Sources(context, *parts, lambda: True, lambda: True)), *context.metrics]


METRICS = {metric.name: metric for metric in all_metrics()}


def documented():
    for name, kind, labels in re.findall(r"^\| `(fibatchd_\w+)` \| (\w+) \|([^|]*)\|", DOCS, re.MULTILINE):
        yield name, kind, tuple(re.findall(r"`(\w+)`", labels))


def test_there_are_metrics_of_the_core_and_of_a_plugin():
    assert {"fibatchd_attempts_total", "fibatchd_webhooks_attempts_total"} <= set(METRICS)
    assert len(METRICS) == len(all_metrics())


def test_documented_as_they_are():
    assert sorted(documented()) == sorted((metric.name, metric.kind, metric.labels) for metric in METRICS.values())


@pytest.mark.parametrize("name", METRICS)
def test_looked_at_by_a_test(name):
    short = name.removeprefix("fibatchd_")
    texts = (path.read_text() for path in (ROOT / "tests").glob("[iu]*/**/test_metrics*.py"))
    assert any(re.search(rf'"(fibatchd_)?{short}(_count|_sum)?"', text) for text in texts)


@pytest.mark.parametrize("name", METRICS)
def test_named_by_the_rules(name):
    metric = METRICS[name]
    assert re.fullmatch(r"fibatchd_[a-z]+(_[a-z]+)*", name)
    assert name.endswith("_total") == (metric.kind == "counter")
    assert name.endswith(UNITS) or UNITLESS.match(name)
    assert metric.help.endswith(".")
    assert all(re.fullmatch(r"[a-z]+", label) for label in metric.labels)


def names_in(expression):
    """(metric, labels that are used) of an expression; a histogram's parts count as the histogram."""
    for name, selector in re.findall(r"\b((?:fibatchd|process)_\w+)(?:\{([^}]*)\})?", expression):
        yield re.sub(r"_(bucket|sum|count)$", "", name), re.findall(r"(\w+)\s*[=!]~?", selector)


def grouped_by(expression):
    return {label.strip() for labels in re.findall(r"by \(([^)]*)\)", expression) for label in labels.split(",")}


def alert_expressions():
    """The rules' expressions; the file is plain enough to be read without a parser of YAML."""
    for block in re.split(r"\n      - alert: ", ALERTS.read_text())[1:]:
        one_line = re.search(r"^        expr: (?!\|)(.*)$", block, re.MULTILINE)
        several = re.search(r"^        expr: \|\n((?: {10}.*\n)+)", block, re.MULTILINE)
        yield one_line[1] if one_line else several[1]


def dashboard_expressions():
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


EXPRESSIONS = [*alert_expressions(), *dashboard_expressions()]


def test_expressions_are_found():
    assert len(list(alert_expressions())) == ALERTS.read_text().count("- alert:") > 10
    assert len(list(dashboard_expressions())) > 30


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_use_what_there_is(expression):
    used = list(names_in(expression))
    labels = set()
    for name, selected in used:
        if name in OF_THE_PROCESS:
            continue
        assert name in METRICS
        known = {*METRICS[name].labels, *OF_PROMETHEUS}
        assert set(selected) <= known
        labels |= known
    assert grouped_by(expression) <= labels | OF_PROMETHEUS
    assert used or expression.startswith("up{")


@pytest.mark.parametrize("name", METRICS)
def test_shown_on_the_dashboard(name):
    assert any(name == used for expression in dashboard_expressions() for used, _ in names_in(expression))


def test_panels_do_not_overlap():
    taken = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def promtool(needs, *words):
    done = subprocess.run([needs("promtool"), *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_the_alerts(needs):
    promtool(needs, "check", "rules", ALERTS)


def test_prometheus_takes_the_dashboards_expressions(needs, tmp_path):
    rules = [
        {"record": f"panel:{n}", "expr": expression.replace("$__rate_interval", "5m")}
        for n, expression in enumerate(dashboard_expressions())
    ]
    file = tmp_path / "rules.json"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool(needs, "check", "rules", file)


def test_alerts_fire_when_they_should(needs):
    promtool(needs, "test", "rules", Path(__file__).with_name("alerts_test.yaml"))
