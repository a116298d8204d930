"""How fast tiny requests are dispatched when the model costs nothing: a file batch of 20,000, 64 at once, from `in_progress`
to its final status, beside the bare loop.

The bare loop runs before and after the daemon, so that a change of the machine's mood in between counts for both.
"""

from collections.abc import Mapping
from functools import partial

from frame.ceiling import ceiling
from frame.row import Figure, Row
from frame.stand import bodies_file, scratch, stand, tiny
from frame.upstreams import Nginx
from frame.watch import CpuWatch, peak_mib
from frame.yardstick import bare_loop

REQUESTS = 20_000
AT_ONCE = 64
WARM_UP = 500


def measure(store: str) -> Mapping[str, float]:
    with scratch() as folder, Nginx.running(folder) as nginx:
        bodies = bodies_file(folder, REQUESTS)
        with stand(nginx.url, concurrency=AT_ONCE, store=store) as daemon:
            daemon.run_file(daemon.upload(tiny(WARM_UP)))
            before = bare_loop("h11", nginx.port, AT_ONCE, bodies)
            with CpuWatch(daemon.process.pid) as cpu, CpuWatch(daemon.database_pid) as database:
                batch = daemon.run_file(daemon.upload(tiny(REQUESTS)))
            after = bare_loop("h11", nginx.port, AT_ONCE, bodies)
            times = daemon.times(batch)
            memory = peak_mib(daemon.process.pid)
        fastest = bare_loop("httptools", nginx.port, AT_ONCE, bodies)
        most = ceiling(nginx.port, connections=AT_ONCE, depth=16)
    rate = REQUESTS / (times.ended - times.began)
    cpu_us = cpu.between(times.began, times.ended) / REQUESTS * 1e6
    database_us = database.between(times.began, times.ended) / REQUESTS * 1e6
    bare, bare_us = (before.rate + after.rate) / 2, (before.cpu_us + after.cpu_us) / 2
    found = {
        f"dispatch_{store}": rate / bare,
        "dispatch_cpu_sqlite" if store == "sqlite" else "CPU time, ratio to the bare loop's": cpu_us / bare_us,
        "requests/s": rate,
        "requests/s, bare loop": bare,
        "requests/s, bare loop with httptools": fastest.rate,
        "requests/s, nginx at most": most,
        "µs CPU a request": cpu_us,
        "µs CPU a request, bare loop": bare_us,
        "µs CPU a request, PostgreSQL": database_us,
        "seconds in which the result files were written": times.ended - times.finalizing,
        "MiB peak": memory,
    }
    if store == "sqlite":  # in the daemon's own process
        del found["µs CPU a request, PostgreSQL"]
    return found


_TITLE = "Dispatch, tiny requests, a file batch of 20,000, {}: ratio to the bare loop"
_CPU_TITLE = "CPU time of the daemon for each of them, {}: ratio to the bare loop's"

SQLITE = Row(
    "dispatch",
    (
        Figure("dispatch_sqlite", _TITLE.format("SQLite"), at_least=0.5),
        Figure("dispatch_cpu_sqlite", _CPU_TITLE.format("SQLite"), at_most=2),
    ),
    partial(measure, "sqlite"),
)
POSTGRESQL = Row(
    "dispatch-postgresql",
    (Figure("dispatch_postgresql", _TITLE.format("PostgreSQL"), at_least=0.3),),
    partial(measure, "postgresql"),
)
