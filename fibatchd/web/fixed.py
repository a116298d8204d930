"""Answers whose bytes never change: ETag, conditional requests and byte ranges (RFC 9110, sections 13 and 14).

A download of many results that breaks is resumed by its client with `Range` and `If-Range`.
"""

import re
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from urllib.parse import quote

from quart import Response
from werkzeug.datastructures import Headers

from fibatchd.errors import ApiError
from fibatchd.web.ahead import Ahead
from fibatchd.web.conditional import not_modified

Chunks = Callable[[int, int], AsyncGenerator[bytes, None]]
"""(first, last) -> the bytes from position `first` to `last`, both included."""

_RANGE = re.compile(r"bytes=\s*(\d*)-(\d*)\s*", re.ASCII)
_MOST_DIGITS = 18
_NOT_PLAIN = re.compile(r"[^ !#-$&-\[\]-~]")  # quotes, backslashes, percent signs, controls, all beyond ASCII


@dataclass(frozen=True, slots=True)
class FixedBytes:
    """A representation that never changes: its SHA-256 in hex, its size, and its media type and file name."""

    sha256: str
    size: int
    content_type: str
    filename: str


def fixed_answer(content: FixedBytes, chunks: Chunks, method: str, headers: Headers) -> Response:
    """Answer a GET or HEAD: 200, 206 or 304, as the request's headers ask; ApiError 412 or 416 where they ask for what is
    not there. Several ranges are answered whole."""
    etag = f'"{content.sha256}"'
    common = {"ETag": etag, "Accept-Ranges": "bytes", "Cache-Control": "private"}
    if (condition := headers.get("If-Match")) is not None and not _matches(condition, etag, weak=False):
        raise ApiError(412, "What stands here is not what If-Match names", code="precondition_failed", headers=common)
    if (condition := headers.get("If-None-Match")) is not None and _matches(condition, etag, weak=True):
        return not_modified(common)
    wanted = None
    if method == "GET" and headers.get("If-Range", etag).strip() == etag:
        wanted = _range(headers.get("Range", ""), content.size)
    if wanted is not None and wanted[0] > wanted[1]:
        message = f"Range: there are {content.size} bytes, and none of them is asked for"
        common["Content-Range"] = f"bytes */{content.size}"
        raise ApiError(416, message, code="range_not_satisfiable", param="Range", headers=common)
    common["Content-Disposition"] = disposition(content.filename)
    if wanted is None:
        return _answer(200, common, content, chunks, 0, content.size - 1, method)
    first, last = wanted
    common["Content-Range"] = f"bytes {first}-{last}/{content.size}"
    return _answer(206, common, content, chunks, first, last, method)


def disposition(filename: str) -> str:
    """Return a Content-Disposition for any file name (RFC 6266): what is not plain ASCII goes into `filename*` (RFC 8187),
    with a fallback beside it for clients that do not read that."""
    plain = _NOT_PLAIN.sub("_", filename)
    if plain == filename:
        return f'attachment; filename="{filename}"'
    encoded = quote(filename.encode(errors="replace"), safe="!#$&+-.^_`|~")
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}"


def _answer(
    status: int, headers: dict[str, str], content: FixedBytes, chunks: Chunks, first: int, last: int, method: str
) -> Response:
    body = Ahead(chunks(first, last)) if method == "GET" and last >= first else b""
    answer = Response(body, status, headers, content_type=content.content_type)
    answer.content_length = last - first + 1
    return answer


def _matches(condition: str, etag: str, *, weak: bool) -> bool:
    """Whether a list of entity tags, or `*`, names this one; `weak` lets `W/"…"` do (RFC 9110, 8.8.3.2)."""
    tags = [tag.strip() for tag in condition.split(",")]
    return "*" in tags or etag in tags or (weak and f"W/{etag}" in tags)


def _range(header: str, size: int) -> tuple[int, int] | None:
    """Return the single range that is asked for, both ends included; None where there is none to be answered by itself; an
    empty one where it lies behind the end."""
    asked = _RANGE.fullmatch(header)
    if asked is None or asked[1] == asked[2] == "" or max(len(asked[1]), len(asked[2])) > _MOST_DIGITS:
        return None
    if asked[1] == "":
        count = min(int(asked[2]), size)
        return (size - count, size - 1) if count else (size, size - 1)
    first = int(asked[1])
    last = int(asked[2]) if asked[2] else size - 1
    if asked[2] and last < first:
        return None
    return first, min(last, size - 1)
