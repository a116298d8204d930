"""The check of an input file: every problem by its line and code, and a batch that runs whole or not at all."""

import json

import pytest
from api import chat, chat_body
from fibatchd_plugins.files.validation import VALIDATE
from site_files import chats, jsonl

from fibatchd.store import accounts, ending, sweeps

GOOD = chat("good")


def without(member, **changes):
    item = chat("q-x") | changes
    del item[member]
    return item


def body(**changes):
    return chat("q-x") | {"body": chat_body(**changes)}


def no_body_member(name):
    whole = chat_body()
    del whole[name]
    return chat("q-x") | {"body": whole}


TABLE = [
    (b"not json", "invalid_json_line", None),
    (b'{"custom_id": "a"', "invalid_json_line", None),
    (b"[1, 2]", "invalid_json_line", None),
    (b'"text"', "invalid_json_line", None),
    (b"null", "invalid_json_line", None),
    (b'{"a": NaN}', "invalid_json_line", None),
    (b'\xff\xfe{"a": 1}', "invalid_json_line", None),
    ('{"custom_id": "caf\u00e9"}'.encode("latin-1"), "invalid_json_line", None),
    ('{"a": 1}'.encode("utf-16-le"), "invalid_json_line", None),
    (b"[" * 100_000, "invalid_json_line", None),
    (b'{"a":' * 600 + b"1" + b"}" * 600, "invalid_json_line", None),
    (without("custom_id"), "missing_required_parameter", "custom_id"),
    (without("method"), "missing_required_parameter", "method"),
    (without("url"), "missing_required_parameter", "url"),
    (without("body"), "missing_required_parameter", "body"),
    (chat("q-x") | {"method": None}, "missing_required_parameter", "method"),
    (chat("q-x") | {"body": None}, "missing_required_parameter", "body"),
    (chat("q-x") | {"custom_id": 7}, "invalid_type", "custom_id"),
    (chat("q-x") | {"custom_id": ""}, "invalid_value", "custom_id"),
    (chat("x" * 513), "invalid_value", "custom_id"),
    (chat("a\0b"), "invalid_value", "custom_id"),
    (chat("\ud800"), "invalid_value", "custom_id"),
    (chat("good"), "duplicate_custom_id", "custom_id"),
    (chat("q-x") | {"method": "GET"}, "invalid_value", "method"),
    (chat("q-x") | {"method": 1}, "invalid_type", "method"),
    (chat("q-x") | {"url": "/v1/embeddings"}, "invalid_url", "url"),
    (chat("q-x") | {"url": 1}, "invalid_type", "url"),
    (chat("q-x") | {"extra": 1}, "unknown_parameter", "extra"),
    (json.dumps(chat("q-x")).replace('"method"', '"method": "POST", "method"').encode(), "invalid_value", "method"),
    (chat("q-x") | {"body": []}, "invalid_type", "body"),
    (chat("q-x") | {"body": "text"}, "invalid_type", "body"),
    (json.dumps(chat("q-x")).replace('"model"', '"model": "m", "model"').encode(), "invalid_request", "body.model"),
    (no_body_member("messages"), "invalid_request", "body.messages"),
    (body(messages=[]), "invalid_request", "body.messages"),
    (body(temperature=9), "invalid_request", "body.temperature"),
    (body(max_tokens="many"), "invalid_request", "body.max_tokens"),
    (body(stream=True), "streaming_unsupported", "body.stream"),
    (no_body_member("model"), "missing_required_parameter", "body.model"),
    (body(model=7), "invalid_type", "body.model"),
    (body(model="no-such-model"), "model_not_found", "body.model"),
    (body(model="auto"), "model_not_found", "body.model"),
    (body(model="auto-fast"), "model_not_found", "body.model"),
    (body(model="qwen3.6-35b"), "mismatched_model", "body.model"),
]


@pytest.mark.parametrize(("line", "code", "param"), TABLE)
async def test_every_row_of_the_table(site, line, code, param):
    batch = await site.validated(jsonl(GOOD, b"", line, chat("last")))
    assert batch["status"] == "failed"
    assert batch["errors"]["object"] == "list"
    (problem,) = batch["errors"]["data"]
    assert (problem["code"], problem["param"], problem["line"]) == (code, param, 3), problem
    assert problem["message"].startswith("Line 3: ")
    assert batch["request_counts"] == {"total": 0, "completed": 0, "failed": 0}
    assert (batch["output_file_id"], batch["error_file_id"], batch["error"]) == (None, None, None)
    assert "model" not in batch
    assert await site.claim(batch["id"]) == []


async def test_all_problems_of_all_lines_are_listed_in_order(each_site):
    content = jsonl({}, GOOD, b"{", chat("q-2") | {"method": "GET", "url": "/x", "body": {"model": "m"}}, GOOD)
    batch = await each_site.validated(content)
    found = [(problem["line"], problem["code"], problem["param"]) for problem in batch["errors"]["data"]]
    assert found == [
        (1, "missing_required_parameter", "custom_id"),
        (1, "missing_required_parameter", "method"),
        (1, "missing_required_parameter", "url"),
        (1, "missing_required_parameter", "body"),
        (3, "invalid_json_line", None),
        (4, "invalid_value", "method"),
        (4, "invalid_url", "url"),
        (4, "model_not_found", "body.model"),
        (5, "duplicate_custom_id", "custom_id"),
    ]
    assert batch["failed_at"] == batch["created_at"]
    assert await each_site.rows("SELECT number FROM requests") == []


@pytest.mark.parametrize(("bad", "more"), [(999, False), (1000, False), (1001, True), (5000, True)])
async def test_a_thousand_problems_are_listed(site, bad, more):
    batch = await site.validated(jsonl(*[b"x"] * bad, GOOD))
    problems = batch["errors"]["data"]
    listed = problems[:-1] if more else problems
    assert [problem["line"] for problem in listed] == list(range(1, min(bad, 1000) + 1))
    assert more == (problems[-1]["code"] == "too_many_errors")
    assert not more or problems[-1]["line"] is None


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"\r\n\r\n", b" \t \n\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\r\n"], ids=repr
)
async def test_a_file_without_requests(site, content):
    batch = await site.validated(content)
    assert batch["status"] == "failed"
    (problem,) = batch["errors"]["data"]
    assert (problem["code"], problem["line"], problem["param"]) == ("empty_file", None, None)


@pytest.mark.parametrize(
    "content",
    [
        jsonl(chat("a")),
        jsonl(chat("a"), end=b""),
        jsonl(chat("a"), end=b"\r\n"),
        b"\xef\xbb\xbf" + jsonl(chat("a")),
        b"\n\r\n  \n" + jsonl(chat("a")) + b"\n\t\n",
        b" " + jsonl(chat("a")),
    ],
    ids=["plain", "no last newline", "crlf", "bom", "blank lines", "space before"],
)
async def test_a_file_of_one_line(site, content):
    batch = await site.validated(content)
    assert batch["status"] == "in_progress", batch["errors"]
    assert batch["request_counts"]["total"] == 1


async def test_a_line_may_have_the_limit_and_not_a_byte_more(site):
    def line(custom_id, size):
        item = chat(custom_id, messages=[{"role": "user", "content": ""}])
        item["body"]["messages"][0]["content"] = "x" * (size - len(json.dumps(item)))
        return json.dumps(item).encode()

    longest = 4 * 2**20
    batch = await site.validated(jsonl(line("a", longest), end=b"\r\n"))
    assert batch["status"] == "in_progress", batch["errors"]
    batch = await site.validated(jsonl(chat("a"), line("b", longest + 1), b"{", chat("c")))
    found = [(problem["line"], problem["code"], problem["param"]) for problem in batch["errors"]["data"]]
    assert found == [(2, "line_too_long", None), (3, "invalid_json_line", None)]


async def test_too_many_requests(site):
    site.set(max_requests=3)
    assert (await site.validated(chats(3)))["status"] == "in_progress"
    batch = await site.validated(b"\n" + chats(4))
    assert batch["status"] == "failed"
    (problem,) = batch["errors"]["data"]
    assert (problem["code"], problem["line"]) == ("too_many_requests_in_file", None)


async def test_requests_are_stored_as_they_were_written(each_site):
    text = '{"model" : "glm-flash", "messages":[{"role":"user","content":"\\ud800 \u2028 \u00e9"}], "top_k": null, "seed": 12345678901234567890123, "temperature": 0.10000000000000000001}'
    line = f'{{"custom_id": "\u00fc", "method": "POST", "url": "/v1/chat/completions", "body": {text}}}'
    batch = await each_site.validated(line.encode())
    assert batch["status"] == "in_progress", batch["errors"]
    assert batch["in_progress_at"] == batch["created_at"]
    (claimed,) = await each_site.claim(batch["id"])
    assert claimed.body == text.encode()
    results = (await each_site.call("GET", f"/v1/batches/{batch['id']}/results")).json()
    assert results["data"][0]["custom_id"] == "\u00fc"


async def test_an_array_of_content_parts_is_taken(site):
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "https://x/y.png"}}]
    batch = await site.validated(jsonl(chat("a", messages=[{"role": "user", "content": parts}])))
    assert batch["status"] == "in_progress", batch["errors"]


async def test_a_model_and_its_alias_are_one(site):
    batch = await site.validated(jsonl(chat("a", model="glm-flash"), chat("b", model="glm-5.3-flash")))
    assert batch["status"] == "in_progress", batch["errors"]
    assert batch["model"] == "glm-5.3-flash"
    assert {claimed.model for claimed in await site.claim(batch["id"])} == {"glm-5.3-flash"}


async def test_a_model_the_account_or_key_may_not_use_does_not_exist(site):
    pro = await site.owner("pro", tier="pro")
    limited = await site.key_of(site.ada.account, models=["glm-5.3-flash"])
    for by, model in ((pro, "internal-only"), (limited, "qwen3.6-35b")):
        content = jsonl(chat("a", model=model))
        file = await site.upload(content, by=by)
        batch = (await site.post_batch(file["id"], by=by)).json()
        await site.work()
        answer = await site.call("GET", f"/v1/batches/{batch['id']}", by=by)
        (problem,) = answer.json()["errors"]["data"]
        assert (problem["code"], problem["message"]) == ("model_not_found", f"Line 1: Model '{model}' not found")


async def test_a_file_over_the_unfinished_limit(each_site):
    each_site.set(max_unfinished_requests=5)
    first = await each_site.validated(chats(3))
    assert first["status"] == "in_progress"
    second = await each_site.validated(chats(3))
    assert second["status"] == "failed"
    (problem,) = second["errors"]["data"]
    assert (problem["code"], problem["line"]) == ("too_many_unfinished_requests", None)
    assert len(await each_site.rows("SELECT number FROM requests")) == 3
    assert (await each_site.validated(chats(2)))["status"] == "in_progress"


async def test_the_limit_is_judged_again_when_the_batch_opens(each_site):
    each_site.set(max_unfinished_requests=5)
    batch = await each_site.new_batch(chats(3))
    write = each_site.store.write

    async def write_after_another(script, *arguments):
        if script.__name__ == "open_checked":
            each_site.store.write = write
            await each_site.create([chat(str(number)) for number in range(3)])
        return await write(script, *arguments)

    each_site.store.write = write_after_another
    await each_site.work(VALIDATE)
    ended = await each_site.get(batch["id"])
    assert ended["status"] == "failed"
    assert ended["errors"]["data"][0]["code"] == "too_many_unfinished_requests"
    assert len(await each_site.rows("SELECT number FROM requests")) == 3, "what it had stored is gone"


async def test_the_input_file_may_be_deleted_meanwhile(each_site):
    file = await each_site.upload(chats(5))
    batch = (await each_site.post_batch(file["id"])).json()
    await each_site.call("DELETE", f"/v1/files/{file['id']}")
    await each_site.sweep()
    assert (await each_site.content(file["id"])).status_code == 404
    assert await each_site.chunks() == 1, "the batch has still to read them"
    await each_site.work()
    assert (await each_site.get(batch["id"]))["request_counts"]["total"] == 5
    await each_site.sweep()
    assert await each_site.chunks() == 0


async def test_the_input_file_may_expire_meanwhile(site):
    fields = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
    file = await site.upload(chats(5), **fields)
    batch = (await site.post_batch(file["id"])).json()
    site.clock.advance(3600)
    await site.sweep()
    await site.work()
    assert (await site.get(batch["id"]))["status"] == "in_progress"


async def test_a_batch_in_progress_needs_its_file_no_more(each_site):
    batch = await each_site.validated(chats(2))
    assert (await each_site.call("DELETE", f"/v1/files/{batch['input_file_id']}")).status_code == 200
    await each_site.sweep()
    assert await each_site.chunks() == 0
    await each_site.run(batch["id"])
    await each_site.work()
    ended = await each_site.get(batch["id"])
    assert (ended["status"], ended["input_file_id"]) == ("completed", batch["input_file_id"])


async def test_a_key_revoked_meanwhile_fails_the_batch(each_site):
    batch = await each_site.new_batch(chats(2))
    other = await each_site.key_of(each_site.ada.account)
    await each_site.context.store.write(accounts.revoke_key, each_site.ada.key.id)
    for batch_id in await each_site.context.store.read(sweeps.owners_gone, 10):
        await each_site.context.store.write(
            ending.fail, batch_id, "owner_unauthorized", "The key is gone", each_site.context.policy
        )
    await each_site.work()
    ended = (await each_site.call("GET", f"/v1/batches/{batch['id']}", by=other)).json()
    assert (ended["status"], ended["error"]["code"], ended["errors"]) == ("failed", "owner_unauthorized", None)
    assert await each_site.rows("SELECT number FROM requests") == []


async def test_a_drained_model_is_unavailable(site):
    site.context.drained = frozenset({"glm-5.3-flash"})
    batch = await site.validated(chats(1))
    assert batch["errors"]["data"][0]["code"] == "model_unavailable"


async def test_what_a_message_repeats_can_be_stored(each_site):
    line = '{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"\\ud800\\u0000"},"\\ud800\\u0000":1}'
    batch = await each_site.validated(line.encode())
    assert [problem["code"] for problem in batch["errors"]["data"]] == ["unknown_parameter", "model_not_found"]
    assert batch["errors"]["data"][0]["param"] == "\ufffd\ufffd"
