"""What a chat stream's server sends beside chunks: its errors, a byte order mark, counts that make no sense, more behind the
end. None of it reaches a client as the server wrote it."""

import pytest

from fibatchd.config import CHAT_COMPLETIONS, Model, Upstream
from fibatchd.domain.requests import Usage
from fibatchd.inference.chat import ChatCompletions
from fibatchd.inference.endpoint import BrokenReply, Call, Route

UPSTREAM = Upstream(url="http://up/v1", endpoints=(CHAT_COMPLETIONS,), model="up")
ROUTE = Route(Model(id="public", endpoints=(CHAT_COMPLETIONS,), upstreams=(UPSTREAM,)), UPSTREAM)
CHUNK = b'data: {"model":"up","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
SEEN = CHUNK.replace(b"up", b"public")
DONE = b"data: [DONE]\n\n"


def editor(*, asked=False):
    return ChatCompletions().editor(Call("", b"", memo=asked), ROUTE)


@pytest.mark.parametrize(
    "error",
    [
        b'{"error":{"message":"up at 10.0.0.7 broke"}}',
        b'{"error":"up broke","choices":[]}',
        b'{"choices":[],"error":true}',
    ],
)
def test_an_error_in_mid_stream_breaks_it_and_is_not_repeated(error):
    stream = editor()
    assert stream.feed(CHUNK) == SEEN
    with pytest.raises(BrokenReply):
        stream.feed(b"data: %b\n\n" % error + DONE)


def test_an_error_that_is_null_is_none():
    chunk = b'data: {"choices":[],"error":null}\n\n'
    assert editor().feed(chunk) == chunk


@pytest.mark.parametrize("cut", range(5))
def test_a_byte_order_mark_before_the_first_event_is_taken_off(cut):
    stream = editor()
    text = b"\xef\xbb\xbf" + CHUNK + CHUNK + DONE
    assert stream.feed(text[:cut]) + stream.feed(text[cut:]) + stream.close() == SEEN + SEEN + DONE


def test_a_byte_order_mark_anywhere_else_is_no_part_of_an_event_stream():
    mark = b"\xef\xbb\xbf: x\n\n"
    assert editor().feed(CHUNK + mark) == SEEN + mark


@pytest.mark.parametrize(
    "counts", [b'{"prompt_tokens":-5,"completion_tokens":1}', b'{"prompt_tokens":"x"}', b"{}", b"7"]
)
def test_counts_without_sense_are_kept_back_like_any_that_nobody_asked_for(counts):
    chunk = b'data: {"choices":[],"usage":%b}\n\n' % counts
    for asked, seen in ((False, b""), (True, chunk)):
        stream = editor(asked=asked)
        assert stream.feed(chunk) == seen
        assert stream.usage is None


def test_counts_without_sense_do_not_undo_earlier_ones():
    stream = editor()
    stream.feed(b'data: {"choices":[{}],"usage":{"prompt_tokens":3,"completion_tokens":1}}\n\n')
    stream.feed(b'data: {"choices":[{}],"usage":{}}\n\n')
    assert stream.usage == Usage(3, 0, 1)


def test_nothing_comes_behind_the_end():
    stream = editor()
    assert stream.feed(CHUNK + DONE + CHUNK + b": up\n\n" + b"junk") + stream.close() == SEEN + DONE


@pytest.mark.parametrize(
    "data", [b'{"choices":[{"delta":{"content":"\xff"}}]}', b'{"choices":[NaN]}', b"[" * 600 + b"]" * 600]
)
def test_what_is_no_json_breaks_the_stream(data):
    with pytest.raises(BrokenReply):
        editor().feed(b"data: %b\n\n" % data)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (None, b'{"include_usage":true}'),
        (b"null", b'{"include_usage":true}'),
        (b'{"x":"\\ud800", "n":123456789012345678901234567890, "f": 1.500}', None),
        (b'{"include_usage": false,"x":1e5}', b'{"include_usage": true,"x":1e5}'),
        (b'{"include_usage":null}', b'{"include_usage":true}'),
        (b'{"include_usage" : true}', b'{"include_usage" : true}'),
    ],
)
def test_usage_is_asked_for_and_the_other_options_stay_as_they_are_written(given, sent):
    options = b"" if given is None else b',"stream_options":' + given
    call = ChatCompletions().call(b'{"model":"public","stream":true%b}' % options, ROUTE, {}, stream=True)
    sent = given[:-1] + b',"include_usage":true}' if sent is None else sent
    assert call.body == b'{"model":"up","stream":true,"stream_options":%b}' % sent
    assert call.memo is (given == sent)
