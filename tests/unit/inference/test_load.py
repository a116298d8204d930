"""The interactive load of a model: three sources, and word of every change."""

import pytest

from fibatchd.inference.load import Load


@pytest.fixture
def told():
    return []


@pytest.fixture
def load(told):
    return Load(told.append)


def test_what_the_upstream_reports_includes_the_peers(load):
    load.set_peers({"a": 2, "b": 1, "d": 3})
    load.report("a", 4)
    load.report("d", 1)
    with load.enter("a"), load.enter("a"):
        assert (load.interactive("a"), load.interactive("b"), load.interactive("c")) == (6, 1, 0)
        assert load.own() == {"a": 2}
    assert (load.interactive("a"), load.interactive("d")) == (4, 3)
    assert load.own() == {}


def test_one_that_fails_is_over_too(load):
    with pytest.raises(RuntimeError), load.enter("a"):
        raise RuntimeError
    assert load.interactive("a") == 0


def test_each_change_is_told_once(load, told):
    with load.enter("a"):
        assert told == ["a"]
    load.set_peers({"b": 1, "c": 2})
    assert (told[:2], sorted(told[2:])) == (["a", "a"], ["b", "c"])
    told.clear()
    load.set_peers({"b": 1, "c": 1})
    load.report("d", 0)
    load.report("d", 5)
    load.report("d", 5)
    assert told == ["c", "d"]
    told.clear()
    load.set_peers({})
    assert sorted(told) == ["b", "c"]
