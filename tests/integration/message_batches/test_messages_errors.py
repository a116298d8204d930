"""Anthropic's error form under all paths of its API, whoever answers."""

import pytest
import trio
from messages_api import BATCHES, VERSION, error_of, item, post

MISSING = "msgbatch_" + "0" * 32
ROUTES = [
    ("POST", "/v1/messages"), ("POST", BATCHES), ("GET", BATCHES), ("GET", f"{BATCHES}/{MISSING}"),
    ("DELETE", f"{BATCHES}/{MISSING}"), ("POST", f"{BATCHES}/{MISSING}/cancel"), ("GET", f"{BATCHES}/{MISSING}/results"),
]  # fmt: skip


@pytest.mark.parametrize("prefix", ["", "/anthropic"])
@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_keys(api, method, path, prefix):
    revoked = await api.owner("eve", expires_in=1)
    api.clock.advance(2)
    for headers in ({}, {"x-api-key": "sk-ant-1"}, revoked.headers):
        answer = await api.http.request(method, prefix + path, headers=VERSION | headers)
        assert error_of(answer, 401)["type"] == "authentication_error"


@pytest.mark.parametrize("header", ["x-api-key", "authorization"])
async def test_both_headers_carry_the_key(api, header):
    value = api.ada.secret if header == "x-api-key" else f"Bearer {api.ada.secret}"
    assert (await api.http.get(f"/anthropic{BATCHES}", headers={header: value})).status_code == 200


@pytest.mark.parametrize("prefix", ["", "/anthropic"])
@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("POST", "/v1/messages/count_tokens", 404, "not_found_error"),
        ("GET", "/v1/messages/unknown/path", 404, "not_found_error"),
        ("GET", "/v1/messages", 405, "invalid_request_error"),
        ("PUT", BATCHES, 405, "invalid_request_error"),
        ("GET", f"{BATCHES}/nonsense", 404, "not_found_error"),
        ("GET", f"{BATCHES}/batch_{'0' * 32}", 404, "not_found_error"),
    ],
)
async def test_paths(api, prefix, method, path, status, kind):
    assert error_of(await api.call(method, prefix + path), status)["type"] == kind


async def test_anything_under_the_prefix(api):
    assert error_of(await api.call("GET", "/anthropic/v1/nothing"), 404)["type"] == "not_found_error"
    assert "type" not in (await api.call("GET", "/v1/messagesx")).json()


async def test_faults_of_ours_and_of_the_store(api, monkeypatch):
    api.store.down = True
    answer = await post(api, {"requests": [item()]})
    assert error_of(answer, 503)["type"] == "overloaded_error"
    assert answer.headers["retry-after"] == "1"
    assert "secret" not in answer.text

    async def broken(*_args, **_kwargs):
        raise RuntimeError("/secret/path")

    monkeypatch.setattr(api.store, "read", broken)
    answer = await api.call("GET", BATCHES)
    assert error_of(answer, 500)["type"] == "api_error"
    assert "secret" not in answer.text


async def test_what_the_front_end_refuses(api):
    stream = await trio.open_tcp_stream("127.0.0.1", api.port)
    async with stream:
        head = f"POST {BATCHES} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
        await stream.send_all(head.encode())
        answer = b""
        async for chunk in stream:
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"type": "invalid_request_error"' in answer
