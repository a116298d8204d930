"""What an upstream's answer means: code, retry, cost, and a message fit for clients."""

import json

import pytest

from fibatchd.config import Upstream
from fibatchd.errors import AnswerBroken, AnswerTimeout, AnswerTooLarge, ConnectionLost
from fibatchd.upstream.fleet import private_texts
from fibatchd.upstream.outcome import broken_answer, of_error, of_status, retry_after


def judged(status, body=b""):
    return of_status(status, body, upstream_model="up-model", model="public")


@pytest.mark.parametrize(
    ("status", "code", "told", "retry", "cost_known"),
    [
        (400, "invalid_request", 400, False, True),
        (409, "invalid_request", 409, False, True),
        (413, "invalid_request", 413, False, True),
        (415, "invalid_request", 415, False, True),
        (418, "invalid_request", 418, False, True),
        (422, "invalid_request", 422, False, True),
        (401, "upstream_error", 502, True, True),
        (403, "forbidden", 403, False, True),
        (404, "model_not_found", 404, False, True),
        (408, "timeout", 504, True, False),
        (429, "rate_limited", 429, True, True),
        (500, "upstream_error", 500, True, True),
        (501, "upstream_error", 501, True, True),
        (502, "upstream_error", 502, True, False),
        (503, "service_unavailable", 503, True, True),
        (504, "timeout", 504, True, False),
        (524, "upstream_error", 524, True, False),
        (302, "upstream_error", 502, True, True),
        (600, "upstream_error", 502, True, True),
        (999, "upstream_error", 502, True, True),
    ],
)
def test_every_status(status, code, told, retry, cost_known):
    verdict = judged(status)
    assert (verdict.failure.code, verdict.failure.status) == (code, told)
    assert (verdict.retry, verdict.cost_known) == (retry, cost_known)
    assert verdict.breaks is (status == 401)


@pytest.mark.parametrize(
    ("error", "code", "status", "retry"),
    [
        (AnswerTimeout("x"), "timeout", 504, True),
        (ConnectionLost("x"), "upstream_error", 502, True),
        (AnswerBroken("x"), "upstream_error", 502, True),
        (AnswerTooLarge("x"), "result_too_large", None, False),
    ],
)
def test_no_whole_answer(error, code, status, retry):
    verdict = of_error(error)
    assert (verdict.failure.code, verdict.failure.status, verdict.retry) == (code, status, retry)
    assert not verdict.cost_known
    assert verdict.breaks is isinstance(error, ConnectionLost)


def test_a_broken_answer_may_pass_and_its_cost_is_unknown():
    verdict = broken_answer()
    assert (verdict.failure.code, verdict.retry, verdict.cost_known) == ("upstream_error", True, False)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "max_tokens is too large"}},
        {"error": "max_tokens is too large"},
        {"message": "max_tokens is too large"},
        {"detail": "max_tokens is too large"},
        {"error": {"message": "", "code": 1}, "message": "max_tokens is too large"},
    ],
)
def test_what_servers_say_of_a_bad_request_is_passed_on(body):
    assert judged(400, json.dumps(body).encode()).failure.message == "max_tokens is too large"


@pytest.mark.parametrize(
    "body", [b"", b"<html>nginx at 10.0.0.7</html>", b"[1]", b"{", b'{"error": {"message": 5}}', b"\xff"]
)
def test_what_is_no_message_is_not_passed_on(body):
    assert judged(400, body).failure.message == "The model's server rejected the request as invalid"


def test_names_and_addresses_of_upstreams_are_left_out():
    said = "up-model at http://gpu-7.internal:8000/v1 (10.1.2.3:8000, [fd00::7]:81, gpu-7.internal:8000) refused\nit"
    said += " _gpu-7.internal:8000 --http://gpu-7.internal/v1 1.https://gpu-7.internal"
    message = judged(400, json.dumps({"error": {"message": said}}).encode()).failure.message
    assert message.startswith("public at …")
    assert "\n" not in message
    for secret in ("gpu-7", "10.1.2.3", "fd00", "8000", "up-model"):
        assert secret not in message


def test_what_an_upstream_repeats_of_its_configuration_is_left_out():
    upstream = Upstream(
        url="http://gpu-7/v1",
        endpoints=(),
        model="up",
        api_key="sk-1234",
        headers={"x-tenant": "tenant-secret", "x-tier": "1"},
    )
    said = "GPU-7 refused 'sk-1234' of tenant-secret: supply 1 n (up) to up/chat"
    message = of_status(
        400,
        json.dumps({"error": {"message": said}}).encode(),
        upstream_model=upstream.model,
        model=r"org\1",
        private=private_texts(upstream),
    ).failure.message
    assert message == r"… refused '…' of …: supply 1 n (org\1) to org\1/chat"


def test_what_servers_say_of_their_own_faults_stays_here():
    body = json.dumps({"error": {"message": "CUDA out of memory on gpu-7"}}).encode()
    for status in (401, 404, 429, 500, 503):
        assert "CUDA" not in judged(status, body).failure.message


def test_a_message_is_bounded():
    body = json.dumps({"error": {"message": "x" * 100_000}}).encode()
    assert len(judged(400, body).failure.message) == 1000


def test_a_message_that_quotes_a_long_prompt_is_looked_at_in_linear_time():
    # In quadratic time this would take minutes, and no other request would go on meanwhile.
    said = "a." * 100_000 + " at http://gpu-7"
    message = judged(400, json.dumps({"error": {"message": said}}).encode()).failure.message
    assert message == "a." * 499 + "a" + "…"


def test_no_half_of_an_address_is_left_where_a_message_is_cut():
    said = "http://gpu-7.internal:8000/" + "x" * 3900 + " refused by http://gpu-7.internal:8000/" + "y" * 3900
    message = judged(400, json.dumps({"error": {"message": said}}).encode()).failure.message
    assert message == "… refused by"


def test_a_body_that_is_too_large_for_a_message_is_not_parsed():
    body = json.dumps({"error": {"message": "max_tokens is too large"}, "echo": "x" * 300_000}).encode()
    assert judged(400, body).failure.message == "The model's server rejected the request as invalid"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        (b"", None),
        (b"soon", None),
        (b"-5", None),
        (b"120", 120.0),
        (b" 1.5 ", 1.5),
        (b"Thu, 01 Jan 1970 00:01:40 GMT", 90.0),
        (b"Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        (b"\xb2", None),
        (b"99999999999999999999", None),
        (b"Fri, 31 Dec 99999999999 23:59:59 GMT", None),
    ],
)
def test_retry_after_in_seconds_or_as_a_date(value, seconds):
    assert retry_after(value, 10.0) == seconds
