"""The output file: the journal's lines in the input's order, whole or not at all."""

import os
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from fibatchd import rawjson
from fibatchd.errors import FibatchdError, InvalidJson
from fibatchd.oneshot.journal import Journal, sync_folder


def write_output(path: Path, journal: Journal) -> None:
    """Write the output from a journal that has all of it, whole or not at all, and remove the journal.

    Raises FibatchdError where it cannot be written.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        with open(partial, "wb") as file:
            file.writelines(journal.lines())
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        sync_folder(path.parent)
        journal.remove()
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise FibatchdError(f"{path} cannot be written: {error.strerror}") from None


def answers(path: Path, custom_ids: Iterator[str]) -> bool:
    """Whether the file at `path` holds the output for requests of these ids, one for each, in order."""
    with open(path, "rb") as file:
        return all(
            line is not None and wanted is not None and _custom_id(line) == wanted
            for line, wanted in zip_longest(file, custom_ids)
        )


def _custom_id(line: bytes) -> object:
    """Return what an output line answers, None where the line is none."""
    try:
        members = rawjson.split_object(line)
        return rawjson.decode(members["custom_id"]) if {"response", "error"} <= members.keys() else None
    except (InvalidJson, KeyError):
        return None
