"""Talking to systemd: the notify protocol of sd_notify(3), over the datagram socket that it names."""

import os
import socket


def notify(state: str) -> None:
    """Send a state such as `READY=1`; nothing happens where systemd does not listen."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
        try:
            out.connect(address)
            out.sendall(state.encode())
        except OSError:
            return  # the manager is gone or busy; serving goes on


def watchdog_interval() -> float | None:
    """Return the seconds in which the watchdog wants to hear from this process, None where there is no watchdog."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    pid = os.environ.get("WATCHDOG_PID")
    if not microseconds.isdigit() or (pid and pid not in (str(os.getpid()), str(os.getppid()))):
        return None
    return int(microseconds) / 1e6
