"""The whole life of file batches through the OpenAI SDK, of whatever release the interpreter has.

files_flow.py BASE_URL KEY
"""

import io
import json
import sys
import time
from importlib.metadata import version

import openai

FINAL = ("completed", "failed", "expired", "cancelled")


def line(custom_id, content, **body):
    body = {"model": "glm-5.3-flash", "messages": [{"role": "user", "content": content}], **body}
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body}


def jsonl(lines):
    return "".join(json.dumps(item) + "\n" for item in lines).encode()


def ended(client, batch):
    deadline = time.monotonic() + 60
    while batch.status not in FINAL:
        assert time.monotonic() < deadline, batch
        time.sleep(0.05)
        batch = client.batches.retrieve(batch.id)
    return batch


def create(client, file, **more):
    return client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", **more
    )


def read(client, file_id):
    return [json.loads(text) for text in client.files.content(file_id).text.splitlines()]


def refusal(kind, call):
    """The error that a call is refused with."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"nothing was refused with {kind}")


def whole_life(client):
    file = client.files.create(
        file=("in.jsonl", jsonl([line("a", "one \u2028 two"), line("b", "refuse this")])), purpose="batch"
    )
    assert (file.object, file.purpose, file.filename, file.status) == ("file", "batch", "in.jsonl", "processed")
    assert client.files.retrieve(file.id).bytes == file.bytes
    assert client.files.wait_for_processing(file.id).id == file.id
    batch = ended(client, create(client, file, metadata={"run": "1"}))
    assert (batch.status, batch.metadata, batch.errors) == ("completed", {"run": "1"}, None), batch
    counts = batch.request_counts
    assert (counts.total, counts.completed, counts.failed) == (2, 1, 1)
    (good,), (bad,) = read(client, batch.output_file_id), read(client, batch.error_file_id)
    assert good["custom_id"] == "a"
    assert good["response"]["body"]["choices"][0]["message"]["content"]
    assert (bad["response"]["status_code"], bad["response"]["body"]["error"]["code"]) == (400, "invalid_request")
    assert client.batches.cancel(batch.id).status == "completed"
    assert client.files.delete(batch.output_file_id).deleted
    error = refusal(openai.NotFoundError, lambda: client.files.content(batch.output_file_id))
    assert error.request_id.startswith("req_")
    assert "no file" in str(error)
    return file


def nameless(client):
    file = client.files.create(file=io.BytesIO(jsonl([line("a", "x")])), purpose="batch")
    assert file.filename == "upload"
    assert client.files.content(file.id).read() == jsonl([line("a", "x")])


def expiring(client):
    file = client.files.create(
        file=("e.jsonl", b"{}"), purpose="batch",
        extra_body={"expires_after": {"anchor": "created_at", "seconds": 3600}},
    )  # fmt: skip
    assert file.expires_at == file.created_at + 3600


def invalid(client):
    file = client.files.create(
        file=("bad.jsonl", b"nonsense\n" + jsonl([line("a", "x", stream=True)])), purpose="batch"
    )
    batch = ended(client, create(client, file))
    assert batch.status == "failed"
    found = [(problem.line, problem.code, problem.param) for problem in batch.errors.data]
    assert found == [(1, "invalid_json_line", None), (2, "streaming_unsupported", "body.stream")], found
    assert (batch.output_file_id, batch.error_file_id) == (None, None)


def cancelled(client):
    file = client.files.create(
        file=("slow.jsonl", jsonl([line(str(n), "take your time") for n in range(100)])), purpose="batch"
    )
    batch = create(client, file)
    batch = client.batches.cancel(batch.id)
    assert batch.status in ("cancelling", "cancelled")


def refused(client):
    missing = type("Missing", (), {"id": "file-" + "0" * 32})
    error = refusal(openai.BadRequestError, lambda: create(client, missing))
    assert (error.code, error.param) == ("invalid_value", "input_file_id")


def once(client, file):
    headers = {"Idempotency-Key": "the same"}
    first, second = [create(client, file, extra_headers=headers) for _ in range(2)]
    assert first.id == second.id


def pagers(client):
    def uploads(**options):
        return [file.id for file in client.files.list(purpose="batch", **options) if file.id not in before]

    before: set[str] = set()
    before = set(uploads())
    made = [client.files.create(file=(f"{n}.jsonl", jsonl([line("a", "x")])), purpose="batch").id for n in range(250)]
    assert uploads() == made[::-1]
    small = uploads(extra_query={"limit": 40})
    # Releases before 1.55 do not page files.
    assert small in (made[::-1], made[::-1][:40])
    batches = [create(client, type("File", (), {"id": made[n]})).id for n in range(45)]
    listed = [batch.id for batch in client.batches.list(limit=20)]
    assert listed[:45] == batches[::-1]
    assert len(listed) == len(set(listed))


def main():
    base, key = sys.argv[1:3]
    client = openai.OpenAI(base_url=f"{base}/v1", api_key=key, max_retries=0)
    file = whole_life(client)
    for part in (nameless, expiring, invalid, refused):
        part(client)
    once(client, file)
    pagers(client)
    cancelled(client)
    print("ok", version("openai"))


if __name__ == "__main__":
    main()
