"""The journal: what was written is there again, whatever became of the end of the file."""

import fcntl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fibatchd.errors import FibatchdError
from fibatchd.oneshot.journal import Journal, discard
from fibatchd.oneshot.output import answers, write_output

LINES = [b'{"custom_id":"%d","response":null,"error":"%b"}\n' % (n, b" \\n" * n) for n in range(5)]


def fill(path, indices):
    journal = Journal(path, "id:m", len(LINES))
    journal.append([(index, LINES[index]) for index in indices])
    journal.close()
    return path.read_bytes()


def reopened(path):
    journal = Journal(path, "id:m", len(LINES))
    found = {index for index in range(len(LINES)) if index in journal}
    assert journal.done == len(found)
    journal.close()
    return found


def test_records_are_there_again(tmp_path):
    fill(tmp_path / "j", [3, 0])
    assert reopened(tmp_path / "j") == {0, 3}
    fill(tmp_path / "j", [1])
    assert reopened(tmp_path / "j") == {0, 1, 3}


def test_what_a_run_is_at_work_on_is_not_discarded(tmp_path):
    discard(tmp_path / "j")
    journal = Journal(tmp_path / "j", "id:m", len(LINES))
    with pytest.raises(FibatchdError, match="another run is at work on it"):
        discard(tmp_path / "j")
    journal.close()
    discard(tmp_path / "j")
    assert not (tmp_path / "j").exists()


def test_a_journal_that_its_run_removes_meanwhile_is_not_written_to(tmp_path, monkeypatch):
    fill(tmp_path / "j", [0])
    locked = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", lambda *args: ((tmp_path / "j").unlink(missing_ok=True), locked(*args)))
    with pytest.raises(FibatchdError, match="another run is at work on it"):
        Journal(tmp_path / "j", "id:m", len(LINES))


def test_the_output_is_in_order(tmp_path):
    fill(tmp_path / "j", [3, 0, 4])
    journal = Journal(tmp_path / "j", "id:m", len(LINES))
    journal.append([(2, LINES[2]), (1, LINES[1])])
    write_output(tmp_path / "out", journal)
    assert (tmp_path / "out").read_bytes() == b"".join(LINES)
    assert not (tmp_path / "j").exists()


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_record_that_was_cut_runs_again(tmp_path, cut):
    whole = fill(tmp_path / "j", [0, 1, 2])
    (tmp_path / "j").write_bytes(whole[:-cut])
    ends = [whole.index(LINES[index]) + len(LINES[index]) for index in range(3)]
    assert reopened(tmp_path / "j") == {index for index in range(3) if ends[index] <= len(whole) - cut}
    fill(tmp_path / "j", range(5))
    assert reopened(tmp_path / "j") == set(range(5))


@given(st.data())
def test_any_byte_changed(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("journal") / "j"
    whole = bytearray(fill(path, [0, 1, 2, 3]))
    header = whole.index(b"\n") + 1
    position = data.draw(st.integers(header, len(whole) - 1))
    whole[position] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)
    journal = Journal(path, "id:m", len(LINES))
    sound = [index for index in range(5) if index in journal]
    assert len(sound) < 4
    journal.append([(index, LINES[index]) for index in range(5) if index not in sound])
    assert b"".join(journal.lines()) == b"".join(LINES)
    journal.close()


@pytest.mark.parametrize("cut", range(20))
def test_a_header_that_was_cut(tmp_path, cut):
    whole = fill(tmp_path / "j", [])
    (tmp_path / "j").write_bytes(whole[:cut])
    assert reopened(tmp_path / "j") == set()
    assert fill(tmp_path / "j", [1]).startswith(whole)


@pytest.mark.parametrize(("identity", "total"), [("other:m", 5), ("id:", 5), ("id:m", 6)])
def test_the_journal_of_another_run(tmp_path, identity, total):
    before = fill(tmp_path / "j", [1])
    with pytest.raises(FibatchdError, match="another input or model"):
        Journal(tmp_path / "j", identity, total)
    assert (tmp_path / "j").read_bytes() == before


def test_one_run_at_a_time(tmp_path):
    journal = Journal(tmp_path / "j", "id:m", 1)
    with pytest.raises(FibatchdError, match="another run"):
        Journal(tmp_path / "j", "id:m", 1)
    journal.close()


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FibatchdError, match="cannot be used"):
        Journal(tmp_path / "no" / "j", "id:m", 1)


def test_answers(tmp_path):
    out = tmp_path / "out"
    out.write_bytes(b"".join(LINES))
    ids = [str(n) for n in range(5)]
    assert answers(out, iter(ids))
    assert not answers(out, iter(ids[:4]))
    assert not answers(out, iter([*ids, "5"]))
    assert not answers(out, iter(reversed(ids)))
    out.write_bytes(b"".join(LINES).replace(b"response", b"body"))  # the input itself
    assert not answers(out, iter(ids))
    out.write_bytes(b"something else\n" * 5)
    assert not answers(out, iter(ids))
