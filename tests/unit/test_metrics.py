"""Numbers for Prometheus: histograms, families, the page; what the parts of the front end and of inference count."""

import prometheus_client.parser
import pytest
import structlog

from fibatchd.domain.requests import Failure, Outcome, Usage
from fibatchd.inference.execute import Attempt
from fibatchd.inference.tally import Tally
from fibatchd.metrics import Distribution, Metric, Page, distributions
from fibatchd.testing import check_metric
from fibatchd.web.traffic import Traffic


def page_of(*metrics):
    text, _ = Page(lambda: metrics).render("")
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in prometheus_client.parser.text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def metric(kind, values, *labels, name="fibatchd_x"):
    return Metric(name, "X.", kind, labels, lambda: values)


def test_distribution():
    seen = Distribution((1, 2, 4))
    for value in (0, 1, 1.5, 4, 4.01, 100):
        seen.observe(value)
    assert seen.buckets() == [("1.0", 2), ("2.0", 3), ("4.0", 4), ("+Inf", 6)]
    assert seen.count == 6
    assert seen.sum == pytest.approx(110.51)


def test_distributions_are_made_when_needed():
    seen = distributions((1,))
    seen["a",].observe(0.5)
    assert {labels: found.count for labels, found in seen.items()} == {("a",): 1}


def test_a_page():
    seen = distributions((1, 2))
    seen["m",].observe(1.5)
    found = page_of(
        metric("counter", {("a", "b"): 3}, "one", "two", name="fibatchd_things_total"),
        metric("gauge", {(): True}, name="fibatchd_up"),
        metric("histogram", seen, "model", name="fibatchd_seconds"),
    )
    assert found["fibatchd_things_total", ("a", "b")] == 3
    assert found["fibatchd_up", ()] == 1
    assert found["fibatchd_seconds_bucket", ("1.0", "m")] == 0
    assert found["fibatchd_seconds_bucket", ("2.0", "m")] == 1
    assert found["fibatchd_seconds_count", ("m",)] == 1
    assert found["process_open_fds", ()] > 0
    assert any(name == "python_info" for name, _ in found)


@pytest.mark.parametrize("text", ['quote"', "back\\slash", "new\nline", "späß", ""])
def test_labels_are_escaped(text):
    assert page_of(metric("gauge", {(text,): 1}, "label"))["fibatchd_x", (text,)] == 1


def test_a_metric_that_cannot_be_read_takes_no_other_with_it():
    def broken():
        raise ValueError("secret")

    with structlog.testing.capture_logs() as lines:
        found = page_of(
            Metric("fibatchd_broken", "X.", "gauge", (), broken), metric("gauge", {(): 1}, name="fibatchd_up")
        )
    assert found["fibatchd_up", ()] == 1
    assert [line["metric"] for line in lines] == ["fibatchd_broken"]


def test_the_format_is_negotiated():
    text, media_type = Page(list).render("application/openmetrics-text; version=1.0.0")
    assert media_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")
    assert Page(list).render("*/*")[1].startswith("text/plain; version=0.0.4")


@pytest.mark.parametrize(
    "accept", ["text/plain;version=x", "application/openmetrics-text; version=x", ";=,", "*/*;q=x"]
)
def test_a_malformed_preference_is_none(accept):
    body, media_type = Page(list).render(accept)
    assert (b"process_cpu_seconds_total" in body, media_type.partition(";")[0]) == (True, "text/plain")


def test_tally():
    tally = Tally()
    tally.count("m", "batch", Attempt((200, b"{}"), usage=Usage(10, 4, 5), cost=3 * 10**12))
    tally.count("m", "batch", Attempt((200, b"{}"), usage=Usage(1, 0, 2), cost=None))
    tally.count("m", "interactive", Attempt(cost=None))
    tally.count("n", "batch", Outcome(None, "req", failure=Failure("timeout", "…", 504), cost=None))
    assert tally.attempts == {
        ("m", "batch", "completed"): 2,
        ("m", "interactive", "cut"): 1,
        ("n", "batch", "timeout"): 1,
    }
    assert tally.tokens["m", "batch", "input"] == 11
    assert tally.tokens["m", "batch", "cached"] == 4
    assert tally.tokens["m", "batch", "output"] == 7
    assert tally.cost_usd == {("m", "batch"): 3.0}


def test_what_clients_make_up_makes_no_labels():
    traffic = Traffic()
    for n in range(100):
        traffic.count(f"METHOD{n}", None, 405, 0.1)
    traffic.count("GET", "/v1/batches/<batch_id>", 200, 0.1)
    assert traffic.requests == {("other", "other", "405"): 100, ("GET", "/v1/batches/<batch_id>", "200"): 1}
    assert set(traffic.seconds) == {("other",), ("/v1/batches/<batch_id>",)}


@pytest.mark.parametrize(
    "wrong",
    [
        Metric("requests_total", "X.", "counter", (), dict),
        Metric("fibatchd_mine_requests", "X.", "counter", (), dict),
        Metric("fibatchd_mine_total", "X.", "gauge", (), dict),
        Metric("fibatchd_mine_up", "", "gauge", (), dict),
        Metric("fibatchd_mine_up", "X.", "gauge", ("model",), lambda: {(): 1}),
        Metric("fibatchd_mine_seconds", "X.", "histogram", (), lambda: {(): 1}),
    ],
)
def test_what_authors_of_plugins_get_wrong(wrong):
    check_metric(Metric("fibatchd_mine_requests_total", "X.", "counter", ("model",), lambda: {("m",): 1}))
    with pytest.raises(AssertionError):
        check_metric(wrong)
