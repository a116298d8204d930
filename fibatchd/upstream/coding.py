"""Content codings (RFC 9110, 8.4.1): a body is un-gzipped in bounded pieces while it arrives.

Bounded, because a few kilobytes of gzip can hold a gigabyte: the reader sees every 64 KiB and may stop.
"""

import zlib
from collections.abc import Iterable, Iterator

from fibatchd.errors import AnswerBroken

_PIECE = 65536
_WINDOW_BITS = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}


class Inflater:
    """Decodes one body. Made for the value of one `Content-Encoding` header.

    AnswerBroken: the coding is not gzip or deflate, or the body is not in it, or it ends early.
    """

    def __init__(self, coding: bytes) -> None:
        try:
            self._window_bits = _WINDOW_BITS[coding.lower()]
        except KeyError:
            raise AnswerBroken(f"content coding {coding.decode('latin-1')!r} was not asked for") from None
        self._stream = zlib.decompressobj(self._window_bits)
        self._begun = False

    def decode(self, pieces: Iterable[bytes], *, last: bool) -> Iterator[bytes]:
        """The decoded bytes of `pieces`, at most 64 KiB at a time; `last` says that the body ends with them."""
        for piece in pieces:
            yield from self._inflate(piece)
        # A body of no bytes at all is let pass: servers label empty answers too.
        if last and self._begun and not self._stream.eof:
            raise AnswerBroken("the compressed body ends early")

    def _inflate(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._stream.eof:  # gzip members may follow each other (RFC 1952, 2.2)
                self._stream = zlib.decompressobj(self._window_bits)
            self._begun = True
            try:
                decoded = self._stream.decompress(data, _PIECE)
            except zlib.error as error:
                raise AnswerBroken(f"the body is not in the coding announced: {error}") from None
            data = self._stream.unconsumed_tail or self._stream.unused_data
            if decoded:
                yield decoded
