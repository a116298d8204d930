"""Answers given below the app have the error shape of their route, and the request id twice."""

import json
import re

import pytest
import structlog.testing
from front import GET, front, post


def by_route(path: str, status: int, message: str, request_id: str) -> bytes:
    return json.dumps([path, status, message, request_id]).encode()


@pytest.mark.parametrize(
    ("request_bytes", "path", "status"),
    [
        (b"POST /v1/messages?beta=true HTTP/1.1\r\nhost: a\r\nx\r\n\r\n", "/v1/messages", 400),
        (
            b"POST /v1/messages HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\n",
            "/v1/messages",
            400,
        ),
        (b"POST /v1/messages HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nq\r\n", "/v1/messages", 400),
        (b"POST /v1/files HTTP/1.1\r\nhost: a\r\nx-a: " + b"x" * 70_000 + b"\r\n\r\n", "/v1/files", 431),
        (post("/v1/messages", b"", "content-encoding: gzip"), "/v1/messages", 415),
        (post("/v1/batches", size=1 << 40), "/v1/batches", 413),
        (b"\x00\x01\x02", "", 400),
        (b"GET / HTTP/3.0\r\nhost: a\r\n\r\n", "/", 505),
    ],
)
async def test_refusal_is_in_the_shape_of_its_route(request_bytes: bytes, path: str, status: int) -> None:
    async with front(error_body=by_route) as server:
        answer = await server.ask(request_bytes)
        request_id = answer.headers["x-request-id"]
        assert re.fullmatch("req_[0-9a-f]{32}", request_id)
        assert answer.headers["request-id"] == request_id
        assert answer.headers["content-type"] == "application/json"
        told_path, told_status, message, told_id = json.loads(answer.body)
        assert (answer.status, told_status, told_path, told_id) == (status, status, path, request_id)
        assert message.endswith(".")


async def test_second_request_on_a_connection_is_refused_by_its_own_path() -> None:
    async with front(error_body=by_route) as server:
        client = await server.client()
        await client.send(post("/read", b"abc"))
        await client.answer()
        await client.send(b"GET /second HTTP/1.1\r\nhost: a\r\n x\r\n\r\n")
        assert json.loads((await client.answer()).body)[0] == "/second"


async def test_default_shape_is_openais() -> None:
    async with front() as server:
        answer = await server.ask(b"GET / HTTP/1.1\r\n\r\n")
        assert json.loads(answer.body) == {
            "error": {
                "message": "The request is malformed: Missing mandatory Host.",
                "type": "invalid_request_error",
                "param": None,
                "code": None,
            }
        }


async def test_answer_to_head_has_no_body() -> None:
    async with front() as server:
        client = await server.client()
        await client.send(b"HEAD / HTTP/1.1\r\nhost: a\r\ncontent-encoding: gzip\r\n\r\n")
        status, headers = await client.head()
        assert (status, await client.rest()) == (415, b"")
        assert int(headers["content-length"]) > 0


async def test_answers_of_the_app_carry_the_request_id_too() -> None:
    async with front() as server:
        answer = await server.ask()
        assert answer.headers["x-request-id"] == answer.headers["request-id"]
        assert server.seen.scope["state"]["request_id"] == answer.headers["request-id"]


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.1\r\nhost: a\r\nauthorization Bearer hyi-secret\r\n\r\n",
        b"x-api-key: hyi-secret\r\n\r\n",
        b"hyi-secret\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nx-api-key: \x00hyi-secret\r\n\r\n",
        b"POST /read HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nhyi-secret\r\n",
        b"POST /read HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\nhyi-secret\r\n",
        b"GET /?key=hyi-secret HTTP/1.1\r\nhost: a\r\n b\r\n\r\n",
    ],
)
async def test_neither_answer_nor_log_repeats_what_may_be_a_key(request_bytes: bytes) -> None:
    async with front() as server:
        with structlog.testing.capture_logs() as logs:
            answer = await server.ask(request_bytes)
        assert answer.status == 400
        assert logs
        assert "secret" not in f"{answer}{logs}"


async def test_an_answer_goes_out_in_one_piece() -> None:
    async with front() as server:
        client = await server.client()
        await client.send(GET)
        head, _, body = (await client.stream.receive_some()).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert json.loads(body)["ok"] is True
