"""How late the event loop is: a task that wants to run twice a second, and notes how much later it did.

Whatever holds the loop (a body parsed where it should not be, a call that blocks) holds everything up for so long.
"""

import math

import trio

from fibatchd.metrics import Distribution

PERIOD_S = 0.5
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Heartbeat:
    """A service."""

    name = "heartbeat"

    def __init__(self) -> None:
        self.lag = Distribution(BOUNDS)
        """Seconds."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Beat until cancelled."""
        task_status.started()
        while True:
            due = math.floor(trio.current_time() / PERIOD_S + 1) * PERIOD_S  # every second one is a beat, see `beat`
            await trio.sleep_until(due)
            self.lag.observe(max(0.0, trio.current_time() - due))
