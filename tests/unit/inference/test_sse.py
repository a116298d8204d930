"""Fields of server-sent events: a name that only begins like `data` is another field."""

import pytest

from fibatchd.inference.sse import EventSplitter


@pytest.mark.parametrize("event", [b"dataset: a\n\n", b"data-x: a\n\n", b"database\n\n"])
def test_a_field_of_a_longer_name_is_not_data(event):
    assert EventSplitter.data(event) is None


def test_only_one_space_is_taken_off():
    assert EventSplitter.data(b"data:a b \ndata\ndata: \n\n") == b"a b \n\n"
