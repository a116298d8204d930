"""JSON answers that a page polls: each has an entity tag, and one that the client has already is not sent again
(`If-None-Match`, RFC 9110, section 13.1.2)."""

import hashlib

from quart import Response, request

from fibatchd.web.render import encode


def json_answer(value: object) -> Response:
    """Answer the current request with a value as JSON, or with JSON text as it stands; 304 where nothing has changed."""
    body = value if isinstance(value, bytes) else encode(value)
    etag = hashlib.blake2b(body, digest_size=16).hexdigest()
    headers = {"ETag": f'"{etag}"', "Cache-Control": "private, no-cache"}
    if request.method in ("GET", "HEAD") and request.if_none_match.contains_weak(etag):
        return not_modified(headers)
    return Response(body, 200, headers, content_type="application/json")


def not_modified(headers: dict[str, str]) -> Response:
    """Answer 304, with those headers of the 200 that a client keeps with what it has."""
    answer = Response(b"", 304, headers)
    del answer.headers["Content-Type"]
    del answer.headers["Content-Length"]  # it would be that of the 200
    return answer
