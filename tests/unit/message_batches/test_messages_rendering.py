"""Lines of results are those that an encoder writes, all but the message, which is kept as it came."""

import msgspec
import pytest
from fibatchd_plugins.message_batches.errors import error_object, type_of_code
from fibatchd_plugins.message_batches.rendering import result_lines

from fibatchd import rawjson
from fibatchd.domain.requests import Failure, Result
from fibatchd.store.results import Piece


def whole_object(result):
    match result.status:
        case "completed":
            shown = {"type": "succeeded", "message": msgspec.Raw(result.body)}
        case "cancelled" | "expired":
            shown = {"type": {"cancelled": "canceled", "expired": "expired"}[result.status]}
        case _:
            error = error_object(type_of_code(result.failure.code), result.failure.message, result.request_id)
            shown = {"type": "errored", "error": error}
    return rawjson.jsonl_line(msgspec.json.encode({"custom_id": result.custom_id, "result": shown})) + b"\n"


@pytest.mark.parametrize("body", [b'{"id":"msg_1"}', b'{\n"a":\r"\xc2\x85 \xe2\x80\xa8"}', '"é 日本 \u2019"'.encode()])
@pytest.mark.parametrize("name", ["q-1", 'a "b" \\ \0 \n', "é 日本 😀", "\x85 \u2028 \u2029"])
def test_each_outcome(name, body):
    failure = Failure("timeout", f"it said {name}", 504)
    results = [
        Result(1, name, "completed", "req_1", 200, body, None),
        Result(2, name, "failed", "req_2", None, None, failure),
        Result(3, name, "cancelled", None, None, None, Failure("batch_cancelled", "too late")),
        Result(4, name, "expired", None, None, None, Failure("batch_expired", "too late")),
        Result(5, name, "completed", None, 200, b"{}", None),
    ]
    lines = result_lines(Piece.of(*results))
    assert lines == b"".join(map(whole_object, results))
    assert len(lines.decode().splitlines()) == len(results)
