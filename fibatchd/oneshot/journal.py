"""What a run has answered so far: a file beside the output that only grows, each record on disk before it counts.

A run that was cut, by a crash too, finds there what it need not ask again. A record is a line: the request's index, a
CRC-32 of both, the output line. The first record that is broken, and what follows it, is cut off; those requests run again.
"""

import fcntl
import os
import zlib
from array import array
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, BinaryIO

from fibatchd.errors import FibatchdError

_MAGIC = b"fibatchd-run 1"


class Journal:
    """The open journal of one run; one process at a time has it. Close it in the end."""

    def __init__(self, path: Path, identity: str, total: int) -> None:
        """Open or begin the journal at `path`.

        identity  what the run is about (its input's digest, its model); another run's journal is refused
        total     number of requests

        Raises FibatchdError where it is another run's, in use, or cannot be used.
        """
        self.path = path
        self._offsets = array("q", [-1]) * total
        self._end = 0
        self.done = 0
        with ExitStack() as failing:
            try:
                self._file: BinaryIO = failing.enter_context(open(path, "a+b", buffering=0))
                _lock(self._file, path)
                self._recover(b"%b %b %d\n" % (_MAGIC, identity.encode(), total))
            except OSError as error:
                raise FibatchdError(f"{path} cannot be used: {error.strerror}") from None
            failing.pop_all()  # it stays open for as long as the run lasts

    def __contains__(self, index: int) -> bool:
        return self._offsets[index] >= 0

    def append(self, records: Iterable[tuple[int, bytes]]) -> None:
        """Add output lines, with their ends, by index, and return when they are on disk. Raises OSError."""
        start = self._end
        text = bytearray()
        begun = []
        for index, line in records:
            begun.append((index, start + len(text)))
            text += b"%d %08x %b" % (index, zlib.crc32(line, index), line)
        view = memoryview(text)
        while view:
            view = view[self._file.write(view) :]
        os.fsync(self._file.fileno())
        self._end = start + len(text)
        for index, offset in begun:
            self._note(index, offset)

    def lines(self) -> Iterator[bytes]:
        """Give all output lines, with their ends, in the order of the requests. All must be there."""
        with open(self.path, "rb") as file:
            for offset in self._offsets:
                assert offset >= 0
                file.seek(offset)
                yield file.readline().split(b" ", 2)[2]

    def close(self) -> None:
        """Let another run have it."""
        self._file.close()

    def remove(self) -> None:
        """Delete the file: what it holds is elsewhere."""
        self.path.unlink(missing_ok=True)
        self.close()

    def _recover(self, header: bytes) -> None:
        """Read what is there, cut what is broken, begin it where nothing is."""
        with open(self.path, "rb") as file:
            first = file.readline()
            if first.endswith(b"\n"):
                if first != header:
                    raise FibatchdError(
                        f"{self.path} is the journal of a run with another input or model; remove it to begin anew"
                    )
                self._end = len(first)
                for record in file:
                    if (index := self._sound(record)) is None:
                        break
                    self._note(index, self._end)
                    self._end += len(record)
        self._file.truncate(self._end)
        if not self._end:
            self._file.write(header)
            self._end = len(header)
            os.fsync(self._file.fileno())
            sync_folder(self.path.parent)

    def _sound(self, record: bytes) -> int | None:
        """Return the record's index, None where it is broken."""
        parts = record.split(b" ", 2)
        if len(parts) != 3 or not parts[2].endswith(b"\n") or not parts[0].isdigit():
            return None
        index = int(parts[0])
        whole = index < len(self._offsets) and b"%08x" % zlib.crc32(parts[2], index) == parts[1]
        return index if whole else None

    def _note(self, index: int, offset: int) -> None:
        self.done += index not in self
        self._offsets[index] = offset


def discard(path: Path) -> None:
    """Remove a journal, if there is one. Raises FibatchdError where a run is at work on it, or it cannot be removed."""
    try:
        with open(path, "rb") as file:
            _lock(file, path)
            path.unlink()
    except FileNotFoundError:
        return
    except OSError as error:
        raise FibatchdError(f"{path} cannot be removed: {error.strerror}") from None


def _lock(file: IO[bytes], path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ours = os.fstat(file.fileno()).st_nlink > 0  # who had the lock before may have removed it meanwhile
    except BlockingIOError:
        ours = False
    if not ours:
        raise FibatchdError(f"{path}: another run is at work on it")


def sync_folder(folder: Path) -> None:
    """Make a new or renamed file in `folder` outlast a power failure. Raises OSError."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
