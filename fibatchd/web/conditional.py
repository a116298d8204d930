"""JSON answers that a page polls: each has an entity tag, and one that the client has already is not sent again
(`If-None-Match`, RFC 9110, section 13.1.2)."""

import hashlib

from quart import Response, request

from fibatchd.web.render import encode


def json_answer(value: object) -> Response:
    """Answer the current request with a value as JSON, or with JSON text as it stands; 304 where nothing has changed."""
    body = value if isinstance(value, bytes) else encode(value)
    etag = hashlib.blake2b(body, digest_size=16).hexdigest()
    answer = Response(body, content_type="application/json")
    answer.headers["Cache-Control"] = "private, no-cache"
    answer.set_etag(etag)
    if request.method in ("GET", "HEAD") and request.if_none_match.contains_weak(etag):
        answer = Response(b"", 304, {"ETag": f'"{etag}"', "Cache-Control": "private, no-cache"})
        del answer.headers["Content-Type"]
        del answer.headers["Content-Length"]  # it would be that of the 200
    return answer
