"""Fields of server-sent events: a name that only begins like `data` is another field."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fibatchd.inference.endpoint import BrokenReply
from fibatchd.inference.sse import LONGEST_EVENT, EventSplitter


@pytest.mark.parametrize("event", [b"dataset: a\n\n", b"data-x: a\n\n", b"database\n\n"])
def test_a_field_of_a_longer_name_is_not_data(event):
    assert EventSplitter.data(event) is None


def test_only_one_space_is_taken_off():
    assert EventSplitter.data(b"data:a b \ndata\ndata: \n\n") == b"a b \n\n"


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_fields_of_an_event_whatever_ends_its_lines(end):
    event = end.join([b": x", b"event: ping", b"data: 1", b"data:2", b"", b""])
    assert (EventSplitter.name(event), EventSplitter.data(event)) == (b"ping", b"1\n2")


def test_an_event_without_end_is_not_held_without_end():
    events = EventSplitter()
    for _ in range(LONGEST_EVENT // 65536):
        assert list(events.feed(b"x" * 65536)) == []
    with pytest.raises(BrokenReply):
        list(events.feed(b"x"))


def test_an_event_that_is_too_long_is_refused_in_one_piece_as_well():
    longest = b"x" * (LONGEST_EVENT - 2) + b"\n\n"
    assert list(EventSplitter().feed(b": 1\n\n" + longest)) == [b": 1\n\n", longest]
    with pytest.raises(BrokenReply):
        list(EventSplitter().feed(b"x" + longest))


def test_blank_lines_are_no_events():
    events = EventSplitter()
    assert list(events.feed(b"data: 1\n\n" + b"\r" * 1000 + b"data: 2\r\n\r\n\r")) == [
        b"data: 1\n\n",
        b"\r" * 1000,
        b"data: 2\r\n\r\n",
        b"\r",
    ]
    assert list(events.feed(b"\ndata: 3\n")) == [b"\n"]
    assert list(events.close()) == [b"data: 3\n"]


@pytest.mark.parametrize("event", [b"data: 1\r\n\r", b"data: 1\r\r", b"data: 1\n\r"])
def test_a_cr_that_came_last_may_be_half_of_an_end(event):
    events = EventSplitter()
    assert list(events.feed(event)) == []
    assert list(events.feed(b"\ndata: 2")) == [event + b"\n"]

    events = EventSplitter()
    assert list(events.feed(event)) == []
    assert list(events.feed(b"data: 2")) == [event]

    events = EventSplitter()
    assert list(events.feed(event)) == []
    assert list(events.close()) == [event]


def split(pieces):
    """Events, and all bytes that came out."""
    events = EventSplitter()
    out = [event for piece in pieces for event in events.feed(piece)]
    out += events.close()
    return [event for event in out if event.strip(b"\r\n")], b"".join(out)


@given(st.lists(st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b"a"]), max_size=6).map(b"".join), max_size=12))
@example([b"a\r\n\r", b"\na\n\n"])
def test_events_are_the_same_wherever_the_stream_is_cut(pieces):
    stream = b"".join(pieces)
    assert split(pieces) == split([stream]) == split([stream[at : at + 1] for at in range(len(stream))])
    assert split(pieces)[1] == stream
