"""Files listed, shown, downloaded and deleted."""

import hashlib
import os
import re
from urllib.parse import quote, unquote

import httpx2
import pytest
import trio
from site_files import chats

from fibatchd.store import accounts

MIB = 2**20


async def listed(site, **query):
    answer = await site.call("GET", "/v1/files", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_files_are_listed_newest_first(each_site):
    files = [await each_site.upload(b"x" * number) for number in range(5)]
    assert await listed(each_site) == {
        "object": "list",
        "data": files[::-1],
        "first_id": files[4]["id"],
        "last_id": files[0]["id"],
        "has_more": False,
    }
    assert (await listed(each_site, order="asc"))["data"] == files
    assert (await listed(each_site, order="desc"))["data"] == files[::-1]


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_pages_are_whole_also_when_the_cursor_is_deleted(each_site, order):
    files = [await each_site.upload(b"x") for _ in range(7)]
    found, after = [], {}
    while True:
        page = await listed(each_site, limit=3, order=order, **after)
        found += page["data"]
        if not page["has_more"]:
            break
        after = {"after": page["last_id"]}
        await each_site.call("DELETE", f"/v1/files/{page['last_id']}")
    assert found == (files if order == "asc" else files[::-1])
    assert page["last_id"] == found[-1]["id"]


async def test_files_are_listed_by_purpose(site):
    file = await site.upload(chats(1))
    batch = await site.validated(chats(1))
    await site.run(batch["id"])
    await site.work()
    assert len((await listed(site))["data"]) == 3
    assert [item["purpose"] for item in (await listed(site, purpose="batch"))["data"]] == ["batch", "batch"]
    outputs = await listed(site, purpose="batch_output")
    assert [item["id"] for item in outputs["data"]] == [(await site.get(batch["id"]))["output_file_id"]]
    assert (await listed(site, purpose="batch", order="asc"))["first_id"] == file["id"]
    nothing = await listed(site, purpose="fine-tune")
    assert nothing == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", "0"),
        ("limit", "-1"),
        ("limit", "10001"),
        ("limit", "x"),
        ("limit", ""),
        ("order", "up"),
        ("after", "x"),
        ("after", "batch_6f1c0a7e2b8d4e55a1c3f9d2e4b6a8c0"),
    ],
)
async def test_a_malformed_query_is_refused(site, name, value):
    answer = await site.call("GET", "/v1/files", params={name: value})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == name


@pytest.mark.parametrize("limit", [1, 10_000])
async def test_limits_at_their_bounds(site, limit):
    await site.upload(b"x")
    assert len((await listed(site, limit=limit))["data"]) == 1


async def test_a_deleted_file_is_gone_and_its_bytes_follow(each_site):
    file = await each_site.upload(os.urandom(3 * MIB))
    answer = await each_site.call("DELETE", f"/v1/files/{file['id']}")
    assert answer.json() == {"id": file["id"], "object": "file", "deleted": True}
    for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
        assert (await each_site.call(method, f"/v1/files/{file['id']}{path}")).status_code == 404
    assert (await listed(each_site))["data"] == []
    await each_site.sweep()
    assert await each_site.chunks() == 0
    assert await each_site.rows("SELECT id FROM files") == []


async def test_another_accounts_file_is_not_there(site):
    file = await site.upload(chats(1))
    bob = await site.owner("bob")
    for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
        answer = await site.call(method, f"/v1/files/{file['id']}{path}", by=bob)
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "file_not_found"
    assert (await site.call("GET", "/v1/files", by=bob)).json()["data"] == []
    assert (await site.post_batch(file["id"], by=bob)).status_code == 400
    assert (await site.content(file["id"])).status_code == 200


@pytest.mark.parametrize("file_id", ["x", "file-", "file-" + "0" * 31, "file-" + "0" * 32, "file-%00", "file-%ff"])
async def test_an_id_that_is_none(site, file_id):
    assert (await site.call("GET", f"/v1/files/{file_id}")).status_code == 404
    assert (await site.content(file_id)).status_code == 404
    assert (await site.call("DELETE", f"/v1/files/{file_id}")).status_code == 404


async def test_any_key_of_the_account_reads_and_managing_needs_no_access(site):
    file = await site.upload(b"x")
    again = await site.key_of(site.ada.account)
    await site.context.store.write(accounts.set_account_tier, site.ada.account.id, "free")
    await site.context.store.write(accounts.set_account_quota, site.ada.account.id, 0)
    assert (await site.content(file["id"], by=again)).status_code == 200
    assert (await site.call("DELETE", f"/v1/files/{file['id']}", by=again)).status_code == 200


async def test_a_download_and_its_parts(each_site, monkeypatch):
    monkeypatch.setattr("fibatchd_plugins.files.writing.CHUNK_BYTES", 131_072)
    content = os.urandom(300_001)
    file = await each_site.upload(content)
    etag = f'"{hashlib.sha256(content).hexdigest()}"'
    whole = await each_site.content(file["id"])
    assert (whole.content, whole.headers["etag"], whole.headers["accept-ranges"]) == (content, etag, "bytes")
    assert whole.headers["content-length"] == "300001"
    for asked, first, last in (
        ("0-0", 0, 0),
        ("131071-131072", 131071, 131072),  # where one piece ends and the next begins
        ("262144-", 262144, 300000),
        ("-5", 299996, 300000),
        ("100-999999", 100, 300000),
    ):
        part = await each_site.content(file["id"], headers={"range": f"bytes={asked}", "if-range": etag})
        assert part.status_code == 206, asked
        assert part.content == content[first : last + 1], asked
        assert part.headers["content-range"] == f"bytes {first}-{last}/300001"
    assert (await each_site.content(file["id"], headers={"if-none-match": etag})).status_code == 304
    assert (await each_site.content(file["id"], headers={"range": "bytes=300001-"})).status_code == 416
    changed = await each_site.content(file["id"], headers={"range": "bytes=0-0", "if-range": '"other"'})
    assert (changed.status_code, len(changed.content)) == (200, 300_001)
    head = await each_site.call("HEAD", f"/v1/files/{file['id']}/content")
    assert (head.headers["etag"], head.headers["content-length"], head.content) == (etag, "300001", b"")


async def test_a_broken_download_is_resumed(site):
    content = os.urandom(5 * MIB)
    file = await site.upload(content)
    request = (
        f"GET /v1/files/{file['id']}/content HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {site.ada.secret}\r\n\r\n"
    )
    stream = await trio.open_tcp_stream("127.0.0.1", site.port)
    received = b""
    async with stream:
        await stream.send_all(request.encode())
        while len(received) < MIB:
            received += await stream.receive_some()
    head, got = received.split(b"\r\n\r\n", 1)
    etag = re.search(rb'etag: ("\w+")', head)[1].decode()
    rest = await site.content(file["id"], headers={"range": f"bytes={len(got)}-", "if-range": etag})
    assert rest.status_code == 206
    assert got + rest.content == content


async def test_an_empty_file(site):
    file = await site.upload(b"")
    answer = await site.content(file["id"])
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["etag"] == f'"{hashlib.sha256(b"").hexdigest()}"'


async def test_a_file_deleted_during_its_download_is_cut_not_completed(site):
    file = await site.upload(os.urandom(8 * MIB))

    async def download():
        deleted = False
        async with site.http.stream("GET", f"/v1/files/{file['id']}/content", headers=site.ada.headers) as answer:
            async for _ in answer.aiter_raw():
                if not deleted:
                    deleted = True
                    await site.call("DELETE", f"/v1/files/{file['id']}")
                    await site.sweep()

    with pytest.raises(httpx2.TransportError):
        await download()


@pytest.mark.parametrize(
    "filename",
    [
        'a"b.jsonl',
        "a\\b.jsonl",
        "a;b=c.jsonl",
        "d\u00e4ta \u20ac \U0001f600.jsonl",
        "100%25.jsonl",
        "a\tb",
        "../../etc/passwd",
        "x" * 1024,
    ],
)
async def test_any_name_is_safe_in_the_headers_of_a_download(site, filename):
    form = b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\nContent-Disposition: form-data; name="file"; '
    form += b"filename*=UTF-8''" + quote(filename, safe="").encode() + b"\r\n\r\nx\r\n--b--\r\n"
    headers = {"content-type": "multipart/form-data; boundary=b"}
    answer = await site.call("POST", "/v1/files", content=form, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json()["filename"] == filename
    disposition = (await site.content(answer.json()["id"])).headers["content-disposition"]
    parts = re.fullmatch(
        r'attachment; filename="([ !#-$&-\[\]-~]*)"(?:; filename\*=UTF-8\'\'([!#$&+.^_`|~\w%-]+))?',
        disposition,
        re.ASCII,
    )
    assert parts, disposition
    assert filename == (unquote(parts[2]) if parts[2] else parts[1])


async def test_line_ends_in_a_name_never_reach_a_header(site):
    form = b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\nContent-Disposition: form-data; name="file"; filename*=UTF-8\'\'a%0d%0aX-Evil%3A%20y\r\n\r\nx\r\n--b--\r\n'
    answer = await site.call(
        "POST", "/v1/files", content=form, headers={"content-type": "multipart/form-data; boundary=b"}
    )
    assert answer.status_code == 200
    download = await site.content(answer.json()["id"])
    assert "x-evil" not in download.headers
    assert 'filename="a__X-Evil: y"' in download.headers["content-disposition"]


async def test_files_of_a_deleted_account_are_erased(each_site):
    await each_site.upload(chats(1))
    batch = await each_site.validated(chats(2))
    await each_site.run(batch["id"])
    await each_site.work()
    bob = await each_site.owner("bob")
    kept = await each_site.upload(chats(1), by=bob)
    assert await each_site.chunks() == 4
    await each_site.context.store.write(accounts.delete_account, each_site.ada.account.id)
    await each_site.sweep()
    assert await each_site.rows("SELECT id FROM files") == [(kept["id"],)]
    assert await each_site.chunks() == 1


async def test_expired_uploads_are_swept(each_site):
    await each_site.upload(b"x")
    each_site.clock.advance(30 * 86400 - 1)
    assert len((await listed(each_site))["data"]) == 1
    each_site.clock.advance(1)
    assert (await listed(each_site))["data"] == []
    await each_site.sweep()
    assert await each_site.chunks() == 0


async def test_batches_switched_off_take_the_files_with_them(site):
    file = await site.upload(b"x")
    site.set(enabled=False)
    for method, path in (
        ("GET", ""),
        ("GET", f"/{file['id']}"),
        ("GET", f"/{file['id']}/content"),
        ("DELETE", f"/{file['id']}"),
    ):
        answer = await site.call(method, f"/v1/files{path}")
        assert answer.status_code == 404
        assert "unavailable" in answer.json()["error"]["message"]
    assert (await site.post_file(b"x")).status_code == 404
