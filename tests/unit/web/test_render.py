"""What no test of the whole API reaches: values at the edges of what is written."""

import json

import msgspec
import pytest

from fibatchd import rawjson
from fibatchd.domain.requests import Failure, Result
from fibatchd.store.results import Piece
from fibatchd.web import work
from fibatchd.web.render import error_object, list_frame, list_object, output_line, output_lines, result_objects

EVIL = '\u2028 \u2029 \x85 \n \r " \\ \0 😀'


def result(status="completed", *, code=None, http=None, **more):
    failure = None if code is None else Failure(code, f"it said {EVIL}", http)
    fields = {"number": 7, "custom_id": EVIL, "request_id": "req_1", "status_code": None, "body": None}
    return Result(status=status, failure=failure, **fields | more)


@pytest.mark.parametrize(
    "shown",
    [
        result(status_code=200, body=b'{\n"a":\r\n"\xe2\x80\xa8\xc2\x85"}'),
        result("failed", code="invalid_request", http=422),
        result("failed", code="upstream_error", http=502, request_id=None),
        result("failed", code="result_too_large"),
        result("cancelled", code="batch_cancelled"),
        result("expired", code="batch_expired", request_id=None),
    ],
)
def test_an_output_line_is_one_line(shown):
    line = output_line(shown).decode()
    assert line.endswith("\n")
    assert len(line.splitlines()) == 1
    read = json.loads(line)
    assert read["custom_id"] == EVIL
    assert (read["response"] is None) != (read["error"] is None)


KINDS = [
    result(status_code=200, body=b'{"a":1.10}'),
    result(status_code=201, body=b"[]", request_id=None),
    result("failed", code="invalid_request", http=422),
    result("failed", code="timeout"),
    result("failed", code="result_too_large", http=502),
    result("cancelled", code="batch_cancelled"),
    result("expired", code="batch_expired", request_id=None),
]


def whole_object(shown):
    """A line as it is when all of it is written by an encoder, but the answer."""
    line = {"id": f"batch_req_{shown.number}", "custom_id": shown.custom_id, "response": None, "error": None}
    failure = shown.failure
    if failure is None:
        line["response"] = {
            "status_code": shown.status_code,
            "request_id": shown.request_id,
            "body": msgspec.Raw(shown.body),
        }
    elif failure.status is None or failure.code == "result_too_large":
        line["error"] = {"code": failure.code, "message": failure.message}
    else:
        body = error_object(failure.status, failure.message, None, failure.code)
        line["response"] = {"status_code": failure.status, "request_id": shown.request_id, "body": body}
    return rawjson.jsonl_line(msgspec.json.encode(line)) + b"\n"


@pytest.mark.parametrize("name", ["q-1", "", 'a "b" \\ / \x7f', "\0\t\n\r\b\f\x1f", "é 日本 😀", EVIL, "q" * 512])
def test_lines_are_those_that_an_encoder_writes(name):
    shown = [msgspec.structs.replace(kind, custom_id=name, number=10**index) for index, kind in enumerate(KINDS)]
    assert output_lines(Piece.of(*shown)) == b"".join(map(whole_object, shown))
    assert [output_line(one) for one in shown] == [whole_object(one) for one in shown]


@pytest.mark.parametrize("name", ["q-1", 'a "b" \\ \0', EVIL])
def test_items_of_a_page_are_those_that_an_encoder_writes(name):
    shown = [msgspec.structs.replace(kind, custom_id=name, number=10**index) for index, kind in enumerate(KINDS)]
    items = json.loads(b"[%b]" % result_objects(Piece.of(*shown)))
    for item, one in zip(items, shown, strict=True):
        assert list(item) == ["id", "custom_id", "status", "response", "error"]
        assert (item["id"], item["custom_id"], item["status"]) == (f"batch_req_{one.number}", name, one.status)
        answer = {
            "status_code": one.status_code,
            "request_id": one.request_id,
            "body": one.body and json.loads(one.body),
        }
        assert item["response"] == (answer if one.status == "completed" else None)
        assert (item["error"] is None) == (one.status in ("completed", "cancelled"))
        if item["error"] is not None:
            told = [one.failure.code, one.failure.message, one.failure.status]
            assert list(item["error"].values()) == (told if one.failure.status is not None else told[:2])


@pytest.mark.parametrize("inside", ["", "é 日本 \xa0 \u2019", "\n", "\r", "\x85", "\u2028", "\u2029"])
def test_lines_written_together_are_those_written_one_by_one(inside):
    between, within = (inside, "") if inside in "\n\r" else ("", inside)
    odd = result(status_code=200, custom_id="q", body=f'{{"a":{between}"{within}"}}'.encode())
    plain = result(status_code=200, custom_id="p", body=b"{}")
    lines = output_lines(Piece.of(plain, odd, plain))
    assert lines == b"".join(map(whole_object, [plain, odd, plain]))
    assert len(lines.decode().splitlines()) == 3


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (403, "permission_error"),
        (404, "invalid_request_error"),
        (429, "rate_limit_error"),
        (504, "server_error"),
    ],
)
def test_an_http_failure_in_an_output_line(status, kind):
    read = json.loads(output_line(result("failed", code="some_code", http=status)))
    assert read["response"]["status_code"] == status
    error = read["response"]["body"]["error"]
    assert (error["type"], error["code"], error["param"]) == (kind, "some_code", None)


def test_a_result_too_large_has_no_response_even_with_a_status():
    read = json.loads(output_line(result("failed", code="result_too_large", http=502)))
    assert (read["response"], read["error"]["code"]) == (None, "result_too_large")


def test_a_result_that_is_retried_shows_what_went_wrong():
    read = json.loads(result_objects(Piece.of(result("queued", code="timeout", http=504))))
    assert (read["status"], read["response"], read["error"]["status"]) == ("queued", None, 504)


@pytest.mark.parametrize("items", [[], [b"{}"], [b"{}", b"[1]"]])
def test_a_list_and_its_frame_agree(items):
    ids = [f"id_{n}" for n in range(len(items))]
    whole = list_object(items, ids, has_more=True)
    before, behind = list_frame(ids[0] if ids else None, ids[-1] if ids else None, has_more=True)
    assert whole == before + b",".join(items) + behind
    assert list(json.loads(whole)) == ["object", "data", "has_more", "first_id", "last_id"]


@pytest.mark.parametrize(
    "sizes",
    [
        [],
        [10],
        [10] * 2500,
        [work.PIECE_BYTES] * 3,
        [work.PIECE_BYTES - 1, 5, 5],
        [5] * 999 + [work.PIECE_BYTES * 2] + [5],
    ],
)
def test_pieces_cover_everything_in_bounds(sizes):
    items = [msgspec.Raw(b"x" * size) for size in sizes]
    cut = list(work.pieces(items))
    assert [item for _, piece in cut for item in piece] == items
    assert [start for start, _ in cut] == [sum(len(piece) for _, piece in cut[:n]) for n in range(len(cut))]
    for _, piece in cut:
        assert 1 <= len(piece) <= work.PIECE_ITEMS
        assert sum(map(len, piece[:-1])) < work.PIECE_BYTES
