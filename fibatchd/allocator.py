"""Settings of the C library's allocator, so that memory goes back to the system when a large body is done with.

glibc learns from the first large block that is freed to cut the next ones out of its heaps, up to 32 MiB, and has a heap
for each thread: a few bodies of 30 MiB leave a process at half a gigabyte for good. With a fixed threshold a large block
is a mapping of its own, which is gone when it is freed. Without its learning, though, glibc gives back whatever is free at
a heap's end at once, and faults it in anew for the next piece of some hundred KiB: that has a fixed threshold, too.
"""

import ctypes

# mallopt(3); the numbers are those of glibc's malloc.h.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8

MAPPED_BYTES = 2**20
"""Blocks from this size on are mapped. Faulting in their pages costs little beside what is done with a megabyte."""
KEPT_BYTES = 4 * 2**20
"""A heap's free end is kept up to this size. To fault in pages takes longer than to read results into them."""
ARENAS = 2


def give_back_large_blocks() -> bool:
    """Set the process's allocator; return whether it took the settings. Others than glibc (musl's, say) need none."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return all(
        [
            mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES),
            mallopt(M_TRIM_THRESHOLD, KEPT_BYTES),
            mallopt(M_ARENA_MAX, ARENAS),
        ]
    )
