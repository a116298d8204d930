"""Content codings: what is decoded, how it may be cut, and that a bomb is noticed piece by piece."""

import gzip
import zlib

import pytest

from fibatchd.errors import AnswerBroken
from fibatchd.upstream.coding import Inflater

TEXT = b'{"object":"chat.completion"}' * 40
GZIPPED = gzip.compress(TEXT, mtime=0)  # the same in every process that collects the tests
ENCODED = {b"gzip": GZIPPED, b"X-GZip": GZIPPED, b"deflate": zlib.compress(TEXT)}


@pytest.mark.parametrize("coding", ENCODED)
def test_decodes_wherever_it_is_cut(coding: bytes) -> None:
    data = ENCODED[coding]
    for cut in range(1, len(data)):
        assert b"".join(Inflater(coding).decode([data[:cut], data[cut:]], last=True)) == TEXT


@pytest.mark.parametrize("coding", ENCODED)
def test_every_truncation_is_noticed(coding: bytes) -> None:
    data = ENCODED[coding]
    for cut in range(1, len(data)):
        inflater = Inflater(coding)
        assert TEXT.startswith(b"".join(inflater.decode([data[:cut]], last=False)))
        with pytest.raises(AnswerBroken, match="ends early"):
            list(inflater.decode([], last=True))


def test_gzip_members_follow_each_other() -> None:
    data = gzip.compress(b"one ") + gzip.compress(b"two")
    for cut in range(1, len(data)):
        assert b"".join(Inflater(b"gzip").decode([data[:cut], data[cut:]], last=True)) == b"one two"


@pytest.mark.parametrize("data", [b"hi", GZIPPED[:-8] + b"\0" * 8, GZIPPED + b"more", zlib.compress(TEXT)])
def test_what_is_not_gzip_is_refused(data: bytes) -> None:
    with pytest.raises(AnswerBroken):
        list(Inflater(b"gzip").decode([data], last=True))


@pytest.mark.parametrize("coding", [b"br", b"zstd", b"gzip, gzip", b"compress", b"", b"\xff"])
def test_other_codings_are_refused(coding: bytes) -> None:
    with pytest.raises(AnswerBroken, match="not asked for"):
        Inflater(coding)


def test_body_of_no_bytes_is_let_pass() -> None:
    assert list(Inflater(b"gzip").decode([], last=True)) == []


def test_a_bomb_comes_in_pieces() -> None:
    pieces = Inflater(b"gzip").decode([gzip.compress(bytes(10_000_000))], last=True)
    assert len(next(pieces)) <= 65536  # and the reader may stop here
    assert max(map(len, pieces)) <= 65536


def test_what_was_flushed_is_decoded_at_once() -> None:
    compressor = zlib.compressobj(wbits=31)
    inflater = Inflater(b"gzip")
    for event in (b"data: one\n\n", b"data: two\n\n"):
        data = compressor.compress(event) + compressor.flush(zlib.Z_SYNC_FLUSH)
        assert b"".join(inflater.decode([data], last=False)) == event
