"""Random mutations of what the API takes: files by multipart, creates of every form. Nothing of it is answered with a 5xx."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CHAT = {"model": "parked", "messages": [{"role": "user", "content": "hi"}]}
INLINE = json.dumps({"requests": [{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": CHAT}], "metadata": {"k": "v"}}).encode()  # fmt: skip
MESSAGES = json.dumps({"requests": [{"custom_id": "a", "params": CHAT | {"max_tokens": 5}}]}).encode()
LINE = json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": CHAT}).encode()
FORM = (
    b'--b\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n'
    + LINE
    + b"\n"
    + LINE
    + b"\r\n--b--\r\n"
)
WEBHOOK = b'{"url":"https://example.com/hook"}'
TARGETS = {
    "inline": ("POST", "/v1/batches", INLINE, "application/json"),
    "of a file": ("POST", "/v1/batches", b'{"input_file_id":"file-1","endpoint":"/v1/chat/completions","completion_window":"24h"}', "application/json"),
    "messages": ("POST", "/v1/messages/batches", MESSAGES, "application/json"),
    "a form": ("POST", "/v1/files", FORM, "multipart/form-data; boundary=b"),
    "chat": ("POST", "/v1/chat/completions", json.dumps(CHAT | {"model": "m"}).encode(), "application/json"),
    "embeddings": ("POST", "/v1/embeddings", b'{"model":"m","input":["a",[1,2]]}', "application/json"),
    "responses": ("POST", "/v1/responses", b'{"model":"m","input":[{"role":"user","content":"x"}],"tools":[]}', "application/json"),
    "a webhook": ("PUT", "/v1/batch_webhook", WEBHOOK, "application/json"),
}  # fmt: skip
TOKENS = [
    b"null", b"true", b"-1", b"1e999", b"9" * 400, b"0.1", b'""', b'"\\ud800"', b'"\\u0000"', b"{}", b"[]", b"[[]]", b"{", b"}", b'"', b"\\", b",", b":", b"\xff", b"\xef\xbb\xbf", b"\0",
    b"\r\n", b"--b", b"--b--", b'name="file"', b"; filename*=UTF-8''%ff", b"\r\n\r\n", b'"a":1,', b'"model":"m",', b'"custom_id":"a",', b'"stream":true,', b"NaN", b"[" * 600, b" " * 100,
]  # fmt: skip


@st.composite
def mutations(draw, whole):
    """A few edits of the bytes: something is cut out, said twice, or put in."""
    data = whole
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + draw(st.sampled_from([0, 1, 5, 30])))))
        middle = draw(st.sampled_from(TOKENS) | st.just(data[start:end] * 2) | st.binary(max_size=4) | st.just(b""))
        data = data[:start] + middle + data[end:]
    return data


def check(site, target, examples, **how):
    method, path, whole, kind = TARGETS[target]

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None, **how)
    @given(mutations(whole))
    def run(data):
        answer = client.request(method, path, content=data, headers={"content-type": kind})
        assert answer.status_code < 500 or answer.status_code == 502, answer.text
        if answer.status_code >= 400:
            json.loads(answer.content)

    with site.client() as client:
        run()


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_of_it_is_a_fault_of_ours(site, target):
    check(site, target, 60, derandomize=True)


@pytest.mark.torture
@pytest.mark.parametrize("target", TARGETS)
def test_nothing_of_it_is_a_fault_of_ours_for_long(site, target):
    check(site, target, 5000)
