"""Reads a `multipart/form-data` body (RFC 7578) part by part while it arrives; the `multipart` package finds the boundaries.

(Quart's own decoder, Werkzeug's, is passed over: up to 3.1.9 it adds a byte to a file where a piece of the body ends inside
a boundary.)
"""

from collections.abc import AsyncGenerator, AsyncIterable, Iterator
from dataclasses import dataclass

from multipart import MultipartError, MultipartSegment, PushMultipartParser
from quart import Request
from werkzeug.http import parse_options_header

from fibatchd.plugin_api import ApiError

LONGEST_BOUNDARY = 200
LONGEST_HEAD_LINE = 16 * 1024
MOST_PARTS = 20
STEP_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Part:
    """The head of a part; its bytes follow. `filename` is None where it has none."""

    name: str
    filename: str | None


async def read_parts(request: Request, body: AsyncIterable[bytes]) -> AsyncGenerator[Part | bytes, None]:
    """Give the head of each part, then its bytes in pieces of at most some 64 KiB. Raises ApiError 400 for a body that is
    not well formed, or that ends before its last boundary."""
    parser = _parser(request)
    async for received in body:
        for start in range(0, len(received), STEP_BYTES):
            if parser.closed:
                break
            for found in _found(parser, received[start : start + STEP_BYTES]):
                yield found
    _close(parser)


def _parser(request: Request) -> PushMultipartParser:
    boundary = request.mimetype_params.get("boundary", "")
    if request.mimetype != "multipart/form-data":
        raise malformed("its Content-Type must be multipart/form-data")
    if not boundary or len(boundary) > LONGEST_BOUNDARY or not boundary.isascii() or not boundary.isprintable():
        raise malformed("its Content-Type must name the boundary")
    return PushMultipartParser(boundary, max_header_size=LONGEST_HEAD_LINE, max_segment_count=MOST_PARTS)


def _found(parser: PushMultipartParser, data: bytes) -> Iterator[Part | bytes]:
    """Feed the parser, and give what it found."""
    try:
        for event in parser.parse(data):
            if isinstance(event, MultipartSegment):
                yield _part(event)
            elif event is not None:
                yield event
    except MultipartError as error:
        # Behind the first argument there may be what a client wrote.
        raise malformed(str(error.args[0])) from None


def _close(parser: PushMultipartParser) -> None:
    try:
        parser.close()
    except MultipartError:
        raise malformed("it ends before its last boundary") from None


def _part(segment: MultipartSegment) -> Part:
    if not segment.name:
        raise malformed("a part has no name")
    filename = segment.filename
    head = segment.header("Content-Disposition")
    if "*" in head:
        # `filename*` (RFC 8187), which the parser leaves out. RFC 7578 forbids it, and clients send it all the same.
        filename = parse_options_header(head)[1].get("filename", filename)
    return Part(segment.name, filename)


def malformed(why: str) -> ApiError:
    """Return the refusal of a body that is no form."""
    return ApiError(400, f"The body is not a well-formed multipart form: {why}", code="invalid_multipart")
