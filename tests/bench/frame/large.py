"""Inputs as large as the default limits let them be: 50,000 requests in 32 MiB, as one call or as a file."""

import json

LARGEST = 32 * 2**20
_FRAME = 32
"""Bytes of a create call around its requests, and then some."""
_BOUNDARY = "a-line-that-no-file-has"


def create_call(count: int, size: int = LARGEST) -> bytes:
    """Return the body of a create call of so many requests, filled up to `size` bytes."""
    items = _filled([{"custom_id": _name(number), "body": _body(number)} for number in range(count)], size)
    return b'{"requests": [%b]}' % b", ".join(items)


def input_file(count: int, size: int = LARGEST) -> bytes:
    """Return an input file of so many lines, filled up to `size` bytes."""
    lines = [
        {"custom_id": _name(number), "method": "POST", "url": "/v1/chat/completions", "body": _body(number)}
        for number in range(count)
    ]
    return b"\n".join(_filled(lines, size))


def form_with_file(file: bytes) -> tuple[bytes, str]:
    """Return an upload's body and its content type."""
    head = (
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="in.jsonl"\r\n'
        "Content-Type: application/jsonl\r\n\r\n"
    )
    return b"%b%b\r\n--%b--\r\n" % (
        head.encode(),
        file,
        _BOUNDARY.encode(),
    ), f"multipart/form-data; boundary={_BOUNDARY}"


def _name(number: int) -> str:
    return f"q-{number}"


def _body(number: int) -> dict[str, object]:
    return {"model": "m", "messages": [{"role": "user", "content": f"say {number}: FILLING"}]}


def _filled(items: list[dict[str, object]], size: int) -> list[bytes]:
    texts = [json.dumps(item).encode() for item in items]
    missing = max(0, size - _FRAME - sum(len(text) + len(", ") for text in texts)) // len(texts)
    return [text.replace(b"FILLING", b"x" * (len(b"FILLING") + missing)) for text in texts]
