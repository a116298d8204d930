"""Reads a `multipart/form-data` body (RFC 7578) part by part while it arrives; Werkzeug's decoder finds the boundaries."""

from collections.abc import AsyncGenerator, AsyncIterable, Iterator
from dataclasses import dataclass

from quart import Request
from werkzeug.exceptions import HTTPException
from werkzeug.sansio.multipart import Data, Epilogue, Event, Field, File, MultipartDecoder, NeedData, Preamble

from fibatchd.plugin_api import ApiError

LONGEST_BOUNDARY = 200
MOST_PARTS = 20
STEP_BYTES = 64 * 1024
MOST_HELD_BYTES = 2 * STEP_BYTES
"""What the decoder holds back at most: the headers of one part, or bytes that may be the start of a boundary."""


@dataclass(frozen=True, slots=True)
class Part:
    """The head of a part; its bytes follow. `filename` is None where it has none."""

    name: str
    filename: str | None


async def read_parts(request: Request, body: AsyncIterable[bytes]) -> AsyncGenerator[Part | bytes, None]:
    """Give the head of each part, then its bytes in pieces. Raises ApiError 400 for a body that is not well formed, or that
    ends before its last boundary."""
    decoder = MultipartDecoder(_boundary(request), MOST_HELD_BYTES, max_parts=MOST_PARTS)
    ended = False
    async for received in body:
        for start in range(0, len(received), STEP_BYTES):
            if ended:
                break  # what stands behind the last boundary is to be ignored (RFC 2046, 5.1.1)
            for event in _events(decoder, received[start : start + STEP_BYTES]):
                if isinstance(event, Part | bytes):
                    yield event
                ended = ended or event is _END
    if not ended:
        raise malformed("it ends before its last boundary")


_END = Epilogue(b"")


def _events(decoder: MultipartDecoder, data: bytes) -> Iterator[Part | bytes | Epilogue]:
    """Feed the decoder, and give what it found. Its own errors for what a client sent are ValueErrors and HTTP errors."""
    try:
        decoder.receive_data(data)
        while not isinstance(event := decoder.next_event(), NeedData):
            if (found := _translated(event)) is not None:
                yield found
            if decoder.state.name == "EPILOGUE":
                yield _END
                return
    except (ValueError, HTTPException):
        raise malformed("it cannot be parsed") from None


def _translated(event: Event) -> Part | bytes | None:
    match event:
        case File(name=str(name), filename=filename):
            return Part(name, filename)
        case Field(name=str(name)):
            return Part(name, None)
        case Data(data=data):
            return data or None
        case Preamble():
            return None
    raise ValueError("a part without a name")


def _boundary(request: Request) -> bytes:
    boundary = request.mimetype_params.get("boundary", "")
    if request.mimetype != "multipart/form-data":
        raise malformed("its Content-Type must be multipart/form-data")
    if not boundary or len(boundary) > LONGEST_BOUNDARY or not boundary.isascii():
        raise malformed("its Content-Type must name the boundary")
    return boundary.encode()


def malformed(why: str) -> ApiError:
    """Return the refusal of a body that is no form."""
    return ApiError(400, f"The body is not a well-formed multipart form: {why}", code="invalid_multipart")
