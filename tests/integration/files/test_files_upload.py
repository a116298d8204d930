"""Uploads: the form in every shape clients send it, its limits, and what is left when one fails: nothing."""

import hashlib
import math
import os
import re

import pytest
import trio
from fibatchd_plugins.files.writing import CHUNK_BYTES
from site_files import open_site

from fibatchd.store import accounts

BOUNDARY = "XyZ-123"
FORM = f"multipart/form-data; boundary={BOUNDARY}"
MIB = 2**20


def part(head: str, body: bytes = b"", *more: str) -> bytes:
    lines = [f"Content-Disposition: form-data; {head}", *more]
    return f"--{BOUNDARY}\r\n".encode() + "\r\n".join(lines).encode() + b"\r\n\r\n" + body + b"\r\n"


PURPOSE = part('name="purpose"', b"batch")
FILE = part('name="file"; filename="in.jsonl"', b"{}\n", "Content-Type: application/octet-stream")
END = f"--{BOUNDARY}--\r\n".encode()


async def post(site, *parts: bytes, content_type: str = FORM):
    return await site.call("POST", "/v1/files", content=b"".join(parts), headers={"content-type": content_type})


async def nothing_stays(site):
    assert (await site.call("GET", "/v1/files")).json()["data"] == []
    await site.sweep()
    assert await site.rows("SELECT * FROM files") == []
    assert await site.chunks() == 0


async def test_an_upload_is_a_file_object(each_site):
    content = os.urandom(5 * MIB // 2)  # several chunks
    file = await each_site.upload(content, filename="requests.jsonl")
    now = int(each_site.clock.now)
    assert file == {
        "id": file["id"],
        "object": "file",
        "bytes": len(content),
        "created_at": now,
        "expires_at": now + 30 * 86400,
        "filename": "requests.jsonl",
        "purpose": "batch",
        "status": "processed",
        "status_details": None,
    }
    assert re.fullmatch("file-[0-9a-f]{32}", file["id"])
    assert (await each_site.call("GET", f"/v1/files/{file['id']}")).json() == file
    answer = await each_site.content(file["id"])
    assert answer.content == content
    assert answer.headers["etag"] == f'"{hashlib.sha256(content).hexdigest()}"'
    assert await each_site.chunks() == math.ceil(len(content) / CHUNK_BYTES) > 1


@pytest.mark.parametrize("parts", [(PURPOSE, FILE), (FILE, PURPOSE)])
async def test_parts_come_in_any_order(site, parts):
    answer = await post(site, *parts, END)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["filename"], answer.json()["bytes"]) == ("in.jsonl", 3)


async def test_a_chunked_body_without_a_length(site):
    async def pieces():
        for byte in b"preamble\r\n" + PURPOSE + FILE + END + b"epilogue":
            yield bytes([byte])

    answer = await site.call("POST", "/v1/files", content=pieces(), headers={"content-type": FORM})
    assert answer.status_code == 200, answer.text
    assert (await site.content(answer.json()["id"])).content == b"{}\n"


@pytest.mark.parametrize(
    ("head", "filename"),
    [
        ('name="file"', "upload"),
        ('name="file"; filename=""', "upload"),
        ('name="file"; filename="a b.jsonl"', "a b.jsonl"),
        ('name="file"; filename="d\u00e4ta.jsonl"', "d\u00e4ta.jsonl"),
        ("name=\"file\"; filename*=UTF-8''%e2%82%ac%20rates.jsonl", "\u20ac rates.jsonl"),
        ('name="file"; filename="x"; filename*=UTF-8\'\'%e2%82%ac.jsonl', "\u20ac.jsonl"),
        ('name="file"; filename="a\\"b.jsonl"', 'a"b.jsonl'),
    ],
)
async def test_names_of_files(site, head, filename):
    answer = await post(site, PURPOSE, part(head, b"{}\n"), END)
    assert answer.status_code == 200, answer.text
    assert answer.json()["filename"] == filename


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\r\n", id="crlf"),
        pytest.param(b"\r", id="cr"),
        pytest.param(b"\n", id="lf"),
        pytest.param(b"--", id="dashes"),
        pytest.param(b"\r\n--", id="crlf and dashes"),
        pytest.param(b"x" + f"--{BOUNDARY}".encode() * 9000, id="boundaries inside lines"),
        pytest.param(b"\r\n" * 100_000, id="many line ends"),
    ],
)
async def test_bytes_that_look_like_boundaries_arrive_as_they_are(site, content):
    answer = await post(site, PURPOSE, part('name="file"; filename="f"', content), END)
    assert answer.status_code == 200, answer.text
    file = answer.json()
    assert file["bytes"] == len(content)
    assert (await site.content(file["id"])).content == content


BROKEN = {
    "nothing": (b"",),
    "no boundary": (b"hello",),
    "cut in the file": (PURPOSE, FILE[:-3]),
    "cut in a head": (PURPOSE, FILE[:30]),
    "cut before the end": (PURPOSE, FILE),
    "cut in the last boundary": (PURPOSE, FILE, END[:-4]),
    "no parts": (END,),
    "no purpose": (FILE, END),
    "no file": (PURPOSE, END),
    "two files": (PURPOSE, FILE, FILE, END),
    "two purposes": (PURPOSE, PURPOSE, FILE, END),
    "a part without a name": (PURPOSE, part('filename="x"', b"x"), FILE, END),
    "a part without a disposition": (PURPOSE, b"--XyZ-123\r\nX: y\r\n\r\nz\r\n", FILE, END),
    "an unknown part": (PURPOSE, part('name="model"', b"m"), FILE, END),
    "a name that is not UTF-8": (PURPOSE, FILE.replace(b"in.jsonl", b"\xff.jsonl"), END),
    "a name with NUL": (PURPOSE, FILE.replace(b"in.jsonl", b"a\0b.jsonl"), END),
    "a name without end": (PURPOSE, FILE.replace(b"in.jsonl", b"n" * 2000), END),
    "bytes behind a boundary": (PURPOSE, FILE.replace(b"{}", b"\r\n--XyZ-123x\r\n"), END),
    "a head without end": (PURPOSE, b"--XyZ-123\r\nX: " + b"y" * 300_000, END),
    "too many parts": (*[part(f'name="expires_after[{n}]"') for n in range(30)], FILE, END),
    "a purpose without end": (part('name="purpose"', b"b" * 5000), FILE, END),
    "a purpose that is not UTF-8": (part('name="purpose"', b"\xff"), FILE, END),
}


@pytest.mark.parametrize("parts", BROKEN.values(), ids=BROKEN)
async def test_a_broken_form_is_refused_and_stores_nothing(site, parts):
    answer = await post(site, *parts)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["type"] == "invalid_request_error"
    await nothing_stays(site)


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=b\u00e9",
    ],
)
async def test_a_body_of_another_type_is_refused(site, content_type):
    answer = await post(site, PURPOSE, FILE, END, content_type=content_type.encode("latin-1"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_multipart")
    await nothing_stays(site)


@pytest.mark.parametrize("purpose", ["assistants", "fine-tune", "batch_output", "Batch", ""])
async def test_only_the_purpose_batch_is_taken(site, purpose):
    answer = await post(site, part('name="purpose"', purpose.encode()), FILE, END)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "purpose"
    await nothing_stays(site)


async def test_expires_after(site):
    fields = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
    file = await site.upload(b"x", **fields)
    assert file["expires_at"] == file["created_at"] + 3600
    site.clock.advance(3599)
    assert (await site.content(file["id"])).status_code == 200
    site.clock.advance(1)
    assert (await site.content(file["id"])).status_code == 404


@pytest.mark.parametrize(
    ("anchor", "seconds"),
    [
        ("created_at", "3599"),
        ("created_at", "2592001"),
        ("created_at", "3600.5"),
        ("created_at", "-3600"),
        ("created_at", "\u0663600"),
        ("created_at", "9" * 40),
        ("created_at", ""),
        ("created_at", None),
        ("last_active_at", "3600"),
        (None, "3600"),
    ],
)
async def test_a_bad_expires_after_is_refused(site, anchor, seconds):
    fields = {"expires_after[anchor]": anchor, "expires_after[seconds]": seconds}
    answer = await site.post_file(b"x", **{name: value for name, value in fields.items() if value is not None})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].startswith("expires_after")
    await nothing_stays(site)


async def test_a_file_may_have_the_limit_and_not_a_byte_more(tmp_path):
    async with open_site(tmp_path, max_body_bytes=1000000) as site:
        assert (await site.upload(b"x" * 1_000_000))["bytes"] == 1_000_000
        answer = await site.post_file(b"x" * 1_000_001)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "file_too_large")
        assert (await site.upload(b"y"))["bytes"] == 1
        assert len((await site.call("GET", "/v1/files")).json()["data"]) == 2


async def test_a_body_over_the_limit_is_refused_before_it_comes(tmp_path):
    async with open_site(tmp_path, max_body_bytes=1000) as site:
        stream = await trio.open_tcp_stream("127.0.0.1", site.port)
        async with stream:
            head = f"POST /v1/files HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {site.ada.secret}\r\n"
            await stream.send_all(f"{head}content-type: {FORM}\r\ncontent-length: 99999999\r\n\r\n".encode())
            assert b" 413 " in await stream.receive_some()


async def test_a_body_without_a_length_is_refused_while_it_comes(tmp_path):
    sent = 0

    async def endless():
        nonlocal sent
        yield PURPOSE + FILE.split(b"{}")[0]
        while sent < 50 * MIB:
            sent += 65536
            yield b"x" * 65536

    async with open_site(tmp_path, max_body_bytes=1000000) as site:
        answer = await site.call("POST", "/v1/files", content=endless(), headers={"content-type": FORM})
        assert answer.status_code == 413
        await nothing_stays(site)


async def test_storage_is_limited(tmp_path):
    async with open_site(tmp_path, max_file_storage_bytes=1000) as site:
        first = await site.upload(b"x" * 600)
        await site.upload(b"x" * 400)
        answer = await site.post_file(b"x")
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "file_storage_full"
        bob = await site.owner("bob")
        assert (await site.post_file(b"x" * 1000, by=bob)).status_code == 200, "another account has its own"
        await site.call("DELETE", f"/v1/files/{first['id']}")
        assert (await site.post_file(b"x" * 600)).status_code == 200
        site.clock.advance(31 * 86400)
        assert (await site.post_file(b"x" * 1000)).status_code == 200, "expired files do not count"


async def test_uploads_by_the_hour_are_limited(tmp_path, each_url):
    async with open_site(tmp_path, each_url, max_uploads_per_hour=3) as site:
        for _ in range(3):
            file = await site.upload(b"x")
            assert (await site.call("DELETE", f"/v1/files/{file['id']}")).status_code == 200
        answer = await site.post_file(b"x")
        assert answer.status_code == 429, answer.text
        assert answer.headers["x-should-retry"] == "false"
        await site.sweep()
        assert (await site.post_file(b"x")).status_code == 429, "deleting a file does not give its place back"
        site.clock.advance(3601)
        await site.sweep()
        assert (await site.post_file(b"x")).status_code == 200


async def test_refused_uploads_do_not_count(tmp_path):
    async with open_site(tmp_path, max_uploads_per_hour=1) as site:
        for _ in range(3):
            assert (await post(site, PURPOSE)).status_code == 400
        assert (await site.post_file(b"x")).status_code == 200


async def test_limits_hold_for_uploads_that_race(tmp_path, each_url):
    async with open_site(tmp_path, each_url, max_uploads_per_hour=3, max_file_storage_bytes=1000) as site:
        answers = []

        async def one(size):
            answers.append((await site.post_file(b"x" * size)).status_code)

        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(one, 450)
        assert sorted(answers) == [200, 200, 413, 413, 413, 413]
        answers.clear()
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(one, 1)
        assert sorted(answers) == [200, 429, 429, 429, 429, 429]


async def test_uploading_needs_batch_access_and_no_quota(site):
    bob = await site.owner("bob", tier="free")
    answer = await site.post_file(b"x", by=bob)
    assert answer.status_code == 403
    spent = await site.owner("eve", tier="pro")
    await site.context.store.write(accounts.set_account_quota, spent.account.id, 0)
    assert (await site.post_file(b"x", by=spent)).status_code == 200


async def test_a_client_that_leaves_in_the_middle_leaves_nothing(site):
    stream = await trio.open_tcp_stream("127.0.0.1", site.port)
    async with stream:
        head = f"POST /v1/files HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {site.ada.secret}\r\n"
        await stream.send_all(f"{head}content-type: {FORM}\r\ncontent-length: 9999999\r\n\r\n".encode())
        await stream.send_all(PURPOSE + FILE.split(b"{}")[0] + b"x" * (3 * MIB // 2))
        while not await site.chunks():
            pass  # what the server has read can only be polled
    with trio.fail_after(10):
        while await site.rows("SELECT id FROM files WHERE state = 'staging'"):
            pass
    await nothing_stays(site)


async def test_short_of_storage(site):
    site.store.room = False
    answer = await site.post_file(b"x")
    assert answer.status_code == 503
    assert "retry-after" in answer.headers


async def test_the_store_goes_away_in_the_middle(site):
    async def pieces():
        yield PURPOSE + FILE.split(b"{}")[0] + b"x" * (3 * MIB // 2)
        site.store.down = True
        yield b"x" * (3 * MIB // 2) + b"\r\n" + END

    answer = await site.call("POST", "/v1/files", content=pieces(), headers={"content-type": FORM})
    assert answer.status_code == 503
    site.store.down = False
    assert (await site.call("GET", "/v1/files")).json()["data"] == []
    site.clock.advance(1800)
    await nothing_stays(site)
