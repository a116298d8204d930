"""Fields of server-sent events: a name that only begins like `data` is another field."""

import pytest

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


def test_blank_lines_are_no_events():
    events = EventSplitter()
    assert list(events.feed(b"data: 1\n\n" + b"\r" * 1000 + b"data: 2\r\n\r")) == [
        b"data: 1\n\n" + b"\r" * 1000,
        b"data: 2\r\n\r",
    ]
    assert list(events.feed(b"\ndata: 3\n")) == []
    assert list(events.close()) == [b"\ndata: 3\n"]
