"""When the work of every few seconds is done: on the same beats for all of it, so that an idle process wakes once for it all
and not for each. What wakes a process costs it more than most of this work does."""

import math

import trio


def beat(seconds: float) -> float:
    """Return the last whole second of trio's clock within this time, which is 1 second at least: a moment to sleep until."""
    return math.floor(trio.current_time() + seconds)
