"""How much memory this process may still take, as the system limits it: by RLIMIT_AS, and by the control groups it is in.

An allocation that fails deep inside a library may end the process, and one that passes a control group's limit does; so
whoever is about to need much asks first. Without limits, or where /proc does not tell, there is always room.
"""

import math
import os
import resource
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_STATM = Path("/proc/self/statm")
_MEMBERSHIPS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def room() -> float:
    """Return how many bytes more there may be; infinite where nothing limits them. Takes some 20 µs."""
    addresses, _ = resource.getrlimit(resource.RLIMIT_AS)
    limited = addresses != resource.RLIM_INFINITY
    group = group_limit()
    if not limited and group == math.inf:
        return math.inf
    try:
        mapped, resident, *_ = (int(pages) * _PAGE for pages in _STATM.read_text().split())
    except OSError:
        return math.inf
    return min(addresses - mapped if limited else math.inf, group - resident)


@cache
def group_limit() -> float:
    """Return the least limit of the control groups that this process is in, their parents included; as it was at first."""
    return min(_limits(_MEMBERSHIPS, _GROUPS), default=math.inf)


def _limits(memberships: Path, groups: Path) -> Iterator[float]:
    """Give the limits that are set, of cgroup v2 (`0::/path`) and of v1's memory controller (`4:memory:/path`)."""
    try:
        lines = memberships.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            root, name = groups, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = groups / "memory", "memory.limit_in_bytes"
        else:
            continue
        folder = root / path.lstrip("/")
        for parent in (folder, *folder.parents):
            try:
                text = (parent / name).read_text().strip()
            except OSError:  # it is not there, or another namespace's
                text = "max"
            if text != "max":
                yield int(text)
            if parent == root:
                break
