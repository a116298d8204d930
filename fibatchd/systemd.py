"""Talking to systemd: the notify protocol of sd_notify(3), over the datagram socket that it names; and its journal."""

import os
import re
import socket
import struct
import time
from collections.abc import Mapping
from typing import IO, Any

JOURNAL = "/run/systemd/journal/socket"
_FIELD_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


def notify(*states: str) -> None:
    """Send states such as `READY=1` as one message; nothing happens where systemd does not listen."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
        # A manager whose queue is full must not hold the event loop up.
        out.setblocking(False)
        try:
            out.connect(address)
            out.sendall("\n".join(states).encode())
        except OSError:
            return  # the manager is gone or busy; serving goes on


def monotonic_usec() -> int:
    """Return CLOCK_MONOTONIC in microseconds, by which systemd tells a reload's begin from what came before it."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def watchdog_interval() -> float | None:
    """Return the seconds in which the watchdog wants to hear from this process, None where there is no watchdog."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    pid = os.environ.get("WATCHDOG_PID")
    if not microseconds.isdigit() or int(microseconds) == 0:
        return None
    if pid and pid != str(os.getpid()):
        return None
    return int(microseconds) / 1e6


def is_journal(stream: IO[Any]) -> bool:
    """Whether a stream goes to the journal: systemd names that connection's device and inode in JOURNAL_STREAM."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def journal_entry(fields: Mapping[str, object]) -> bytes:
    """Return fields, their names in capitals, in the form of systemd.io/JOURNAL_NATIVE_PROTOCOL; without those whose name the
    journal does not take."""
    return b"".join(
        b"%b\n%b%b\n" % (name.encode(), struct.pack("<Q", len(value)), value)
        for name, value in ((name, str(value).encode(errors="replace")) for name, value in fields.items())
        if _FIELD_NAME.fullmatch(name)
    )


def send_to_journal(entry: bytes) -> bool:
    """Send an entry to the journal, if that takes it at once; whether it has."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
            out.setblocking(False)
            return out.sendto(entry, JOURNAL) == len(entry)
    except OSError:
        return False  # not there, busy, or more than a datagram holds
