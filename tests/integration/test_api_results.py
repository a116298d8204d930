"""`/results` and `output.jsonl`: each outcome as the contract shows it, pages, bytes, and memory that does not grow."""

import hashlib
import json
import socket
from contextlib import AsyncExitStack

import pytest
import trio
from api import chat, failure, success

from fibatchd.ids import parse_batch_request_id
from fibatchd.store import ending, sweeps
from fibatchd.store.interface import Query
from fibatchd.web import exports, reading

ANSWER = b'{ "id":"chatcmpl-9b1e",\n "n": 1.10, "big": 123456789012345678901234567890, "t": "\xc2\x85 \xe2\x80\xa8 \xe2\x80\xa9 \\ud800", "model":"glm-5.3-flash"}'


async def results(api, batch, query=""):
    answer = await api.call("GET", f"/v1/batches/{batch['id']}/results{query}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


async def output(api, batch, **options):
    return await api.call("GET", f"/v1/batches/{batch['id']}/output.jsonl", **options)


async def mixed(api):
    """A finished batch with an outcome of every kind; the third was being retried when the batch was cancelled."""
    batch = await api.create([chat(f"q-{n}") for n in range(6)])
    one, two, three, four = await api.claim(batch["id"], 4)
    await api.end(success(one, ANSWER), failure(two, "invalid_request", "max_tokens: too many", 400))
    await api.end(
        failure(three, "timeout", "slow", 504, retry_in=60), failure(four, "result_too_large", "over 4 MiB", None)
    )
    await api.call("POST", f"/v1/batches/{batch['id']}/cancel")
    return batch, one.number


async def test_outcomes_in_results(api):
    batch, first = await mixed(api)
    page = await results(api, batch)
    shown = {entry["custom_id"]: entry for entry in page["data"]}
    assert [entry["id"] for entry in page["data"]] == [f"batch_req_{first + n}" for n in range(6)]
    good = shown["q-0"]
    assert (good["status"], good["error"]) == ("completed", None)
    assert good["response"]["status_code"] == 200
    assert good["response"]["request_id"].startswith("req_")
    assert good["response"]["body"] == json.loads(ANSWER)
    assert shown["q-1"] == {
        "id": f"batch_req_{first + 1}",
        "custom_id": "q-1",
        "status": "failed",
        "response": None,
        "error": {"code": "invalid_request", "message": "max_tokens: too many", "status": 400},
    }
    assert (shown["q-2"]["status"], shown["q-2"]["error"]) == ("cancelled", None)
    assert shown["q-3"]["error"] == {"code": "result_too_large", "message": "over 4 MiB"}
    assert (shown["q-5"]["status"], shown["q-5"]["response"], shown["q-5"]["error"]) == ("cancelled", None, None)


async def test_outcomes_in_the_export(api):
    batch, first = await mixed(api)
    answer = await output(api, batch)
    assert answer.headers["content-type"] == "application/jsonl"
    assert answer.headers["content-length"] == str(len(answer.content))
    lines = [json.loads(line) for line in answer.text.splitlines()]  # as the contract's script splits it
    assert [line["id"] for line in lines] == [f"batch_req_{first + n}" for n in range(6)]
    assert all(list(line) == ["id", "custom_id", "response", "error"] for line in lines)
    assert lines[0]["response"]["body"] == json.loads(ANSWER)
    refused = lines[1]["response"]
    assert (refused["status_code"], lines[1]["error"]) == (400, None)
    assert refused["request_id"].startswith("req_")
    assert refused["body"] == {
        "error": {
            "message": "max_tokens: too many",
            "type": "invalid_request_error",
            "param": None,
            "code": "invalid_request",
        }
    }
    assert lines[2]["response"] is None
    assert lines[2]["error"]["code"] == "batch_cancelled"
    assert lines[2]["error"]["message"].endswith("timeout: slow")
    assert (lines[3]["response"], lines[3]["error"]["code"]) == (None, "result_too_large")
    assert (lines[5]["response"], lines[5]["error"]["code"]) == (None, "batch_cancelled")


async def test_the_answers_bytes_are_kept(api):
    batch, _ = await mixed(api)
    page = await api.call("GET", f"/v1/batches/{batch['id']}/results?limit=1")
    assert ANSWER in page.content
    line = (await output(api, batch)).content.split(b"\n")[0]
    escaped = ANSWER.replace(b"\n", b" ").replace(b"\xc2\x85", b"\\u0085")
    assert escaped.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029") in line


@pytest.mark.parametrize(("close", "status"), [("fail", "failed"), ("expire", "expired")])
async def test_what_never_ran(api, close, status):
    batch = await api.create([chat()])
    if close == "fail":
        why = ("owner_unauthorized", "The API key has expired")
        await api.context.store.write(ending.fail, batch["id"], *why, api.context.policy)
    else:
        api.clock.advance(86400)
        await api.context.store.write(ending.expire, batch["id"], api.context.policy)
    (entry,) = (await results(api, batch))["data"]
    assert (entry["status"], entry["response"], entry["error"]["code"]) == (status, None, f"batch_{status}")
    assert "status" not in entry["error"]
    line = (await output(api, batch)).json()
    assert (line["response"], line["error"]["code"]) == (None, f"batch_{status}")


async def test_unfinished_requests(api):
    batch = await api.create([chat(f"q-{n}") for n in range(3)])
    one, two = await api.claim(batch["id"], 2)
    await api.end(failure(one, "rate_limited", "wait", 429, retry_in=60))
    first, second, third = (await results(api, batch))["data"]
    assert (first["status"], first["error"]) == ("queued", {"code": "rate_limited", "message": "wait", "status": 429})
    assert (second["status"], second["error"]) == ("running", None)
    assert (third["status"], third["response"], third["error"]) == ("queued", None, None)
    answer = await output(api, batch)
    assert answer.status_code == 409
    assert answer.headers["x-should-retry"] == "false"
    await api.end(success(two))


class TestPages:
    async def test_all_pages_make_the_batch(self, api):
        batch = await api.create([chat(f"q-{n}") for n in range(23)])
        seen, query = [], "?limit=10"
        while True:
            page = await results(api, batch, query)
            seen += page["data"]
            assert (page["first_id"], page["last_id"]) == (page["data"][0]["id"], page["data"][-1]["id"])
            if not page["has_more"]:
                break
            query = f"?limit=10&after={page['last_id']}"
        assert [entry["custom_id"] for entry in seen] == [f"q-{n}" for n in range(23)]
        assert len(page["data"]) == 3

    async def test_the_default_is_100(self, api):
        batch = await api.create([chat(f"q-{n}") for n in range(101)])
        page = await results(api, batch)
        assert (len(page["data"]), page["has_more"]) == (100, True)

    async def test_a_cursor_is_compared(self, api):
        other, batch = await api.create(), await api.create()
        first = parse_batch_request_id((await results(api, batch))["first_id"])
        before = (await results(api, other))["first_id"]
        assert len((await results(api, batch, f"?after={before}"))["data"]) == 2
        assert len((await results(api, batch, "?after=batch_req_0"))["data"]) == 2
        for after in (first + 1, first + 10**6, 2**63 - 1):
            empty = await results(api, batch, f"?after=batch_req_{after}")
            assert empty == {"object": "list", "data": [], "has_more": False, "first_id": None, "last_id": None}

    @pytest.mark.parametrize(
        "after",
        [
            "",
            "42",
            "batch_req_",
            "batch_req_-1",
            "batch_req_01",
            "batch_req_4x",
            "batch_req_٣",
            f"batch_req_{2**63}",
            "batch_" + "0" * 32,
        ],
    )
    async def test_a_bad_cursor(self, api, after):
        batch = await api.create()
        answer = await api.call("GET", f"/v1/batches/{batch['id']}/results", params={"after": after})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "after")

    @pytest.mark.parametrize("limit", ["0", "1001", "-1", "", "ten"])
    async def test_a_bad_limit(self, api, limit):
        batch = await api.create()
        answer = await api.call("GET", f"/v1/batches/{batch['id']}/results", params={"limit": limit})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "limit")

    async def test_a_page_is_read_and_sent_in_pieces(self, api, monkeypatch):
        monkeypatch.setattr(reading, "PIECE_ROWS", 7)
        monkeypatch.setattr(reading, "PIECE_BYTES", 3 * len(ANSWER))
        batch = await api.create([chat(f"q-{n}") for n in range(50)])
        await api.run(batch["id"], ANSWER)
        answer = await api.call("GET", f"/v1/batches/{batch['id']}/results?limit=40")
        assert answer.headers["transfer-encoding"] == "chunked"
        page = answer.json()
        assert [entry["custom_id"] for entry in page["data"]] == [f"q-{n}" for n in range(40)]
        assert (page["has_more"], page["last_id"]) == (True, page["data"][-1]["id"])

    async def test_a_page_whose_batch_is_purged_meanwhile_is_cut(self, api, monkeypatch):
        """It must not look whole: the connection ends without the last chunk."""
        monkeypatch.setattr(reading, "PIECE_ROWS", 10)
        batch = await api.create([chat(f"q-{n}") for n in range(50)])
        plain = api.store.read

        async def purging(script, *args, **kwargs):
            found = await plain(script, *args, **kwargs)
            if script.__module__ == reading.__name__:
                await api.context.store.write(_purge_all, batch["id"])
            return found

        api.store.read = purging
        with pytest.raises(Exception, match=r"peer closed connection|incomplete"):
            await api.call("GET", f"/v1/batches/{batch['id']}/results")
        api.store.read = plain
        assert (await api.call("GET", "/v1/batches")).status_code == 200


async def test_slow_readers_hold_no_connection_of_the_store(api):
    """More of them than there are connections stop in the middle of a download; others are answered."""
    batch = await api.create([chat(f"q-{n}") for n in range(8)])
    await api.run(batch["id"], b'"%b"' % (b"x" * 2**20))
    head = f"GET /v1/batches/{batch['id']}/output.jsonl HTTP/1.1\r\nhost: a\r\nx-api-key: {api.ada.secret}\r\n\r\n"
    async with AsyncExitStack() as stack:
        for _ in range(12):
            sock = trio.socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await sock.connect(("127.0.0.1", api.port))
            stream = await stack.enter_async_context(trio.SocketStream(sock))
            await stream.send_all(head.encode())
            assert (await stream.receive_some(15)).startswith(b"HTTP/1.1 200")
        with trio.fail_after(30):
            assert len((await output(api, batch)).content) > 8 * 2**20


def _purge_all(batch_id):
    yield Query("UPDATE batches SET deleted_at = 1 WHERE id = ?", (batch_id,))
    while (yield from sweeps.purge(batch_id)):
        pass


class TestFixedBytes:
    async def finished(self, api, monkeypatch, number=23):
        monkeypatch.setattr(reading, "PIECE_ROWS", 4)
        batch = await api.create([chat(f"q-{n}") for n in range(number)])
        for claimed in await api.claim(batch["id"]):
            await api.end(success(claimed, ANSWER[:-1] + b',"k":%d}' % claimed.number))
        return batch, (await output(api, batch)).content

    async def test_the_etag_is_the_sha256(self, api, monkeypatch):
        batch, whole = await self.finished(api, monkeypatch)
        answer = await output(api, batch)
        assert answer.content == whole
        assert answer.headers["etag"] == f'"{hashlib.sha256(whole).hexdigest()}"'
        assert answer.headers["content-disposition"] == f'attachment; filename="{batch["id"]}.jsonl"'
        head = await api.call("HEAD", f"/v1/batches/{batch['id']}/output.jsonl")
        assert (head.content, head.headers["content-length"]) == (b"", str(len(whole)))
        assert head.headers["etag"] == answer.headers["etag"]

    async def test_every_range_gives_its_bytes(self, api, monkeypatch):
        batch, whole = await self.finished(api, monkeypatch)
        size = len(whole)
        for first in range(0, size, 97):
            for last in (first, first + 1, first + 700, size - 1, size + 5):
                answer = await output(api, batch, headers={"range": f"bytes={first}-{last}"})
                assert (answer.status_code, answer.content) == (206, whole[first : last + 1])
                assert answer.headers["content-range"] == f"bytes {first}-{min(last, size - 1)}/{size}"
        tail = await output(api, batch, headers={"range": "bytes=-100"})
        assert tail.content == whole[-100:]
        rest = await output(api, batch, headers={"range": f"bytes={size - 3}-"})
        assert rest.content == whole[-3:]

    async def test_a_broken_download_is_resumed(self, api, monkeypatch):
        batch, whole = await self.finished(api, monkeypatch)
        etag = (await output(api, batch)).headers["etag"]
        headers = {"range": "bytes=1000-", "if-range": etag}
        assert (await output(api, batch, headers=headers)).content == whole[1000:]
        assert (await output(api, batch, headers=headers | {"if-range": '"other"'})).content == whole

    async def test_conditions(self, api, monkeypatch):
        batch, whole = await self.finished(api, monkeypatch)
        etag = (await output(api, batch)).headers["etag"]
        for condition in (etag, f"W/{etag}", "*", f'"x", {etag}'):
            same = await output(api, batch, headers={"if-none-match": condition})
            assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", etag)
            assert "content-length" not in same.headers
        assert (await output(api, batch, headers={"if-none-match": '"x"'})).content == whole
        other = await output(api, batch, headers={"if-match": '"x"'})
        assert (other.status_code, other.headers["etag"]) == (412, etag)
        assert other.json()["error"]["code"] == "precondition_failed"
        assert (await output(api, batch, headers={"if-match": etag})).content == whole

    async def test_it_is_read_twice_once(self, api, monkeypatch):
        batch, whole = await self.finished(api, monkeypatch)
        computed = []
        plain = exports.compute
        monkeypatch.setattr(exports, "compute", lambda *args: computed.append(1) or plain(*args))
        for _ in range(3):
            assert (await output(api, batch)).content == whole
        assert computed == []
        api.app.extensions["fibatchd"].digests = exports.Digests()
        assert (await output(api, batch)).content == whole
        assert computed == [1]

    async def test_an_export_of_nothing_but_cancelled_requests(self, api):
        batch = await api.create()
        await api.call("POST", f"/v1/batches/{batch['id']}/cancel")
        assert len((await output(api, batch)).content.splitlines()) == 2
