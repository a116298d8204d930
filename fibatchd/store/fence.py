"""The fence: a daemon whose leases ran out takes nothing more, however late it wakes up.

Whatever gives a daemon something to hold (requests, jobs, places) begins here. The lock conflicts with taking over and
forgetting the daemon, and not with its own renewals: so nothing is ever held by a daemon that nobody will take over.
"""

from fibatchd.errors import LeaseLost
from fibatchd.store.interface import NOW, Query, Script


def pass_fence(daemon: int) -> Script[float]:
    """Return the store's time, the daemon's leases being good until the transaction ends. Raises LeaseLost."""
    ((now,),) = yield NOW
    if not (yield Query("SELECT 1 FROM daemons WHERE id = ? AND deadline > ? FOR KEY SHARE", (daemon, now))):
        raise LeaseLost("this daemon's leases ran out")
    return float(now)
