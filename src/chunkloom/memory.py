"""How much memory there is, and how freed memory is kept for the next chunk."""

from __future__ import annotations

import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8


def free_memory() -> int | None:
    """Bytes of memory that can be had without swapping, or None where the system does not say."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def keep_freed_memory() -> None:
    """Let the C library keep freed chunks for the next one instead of giving each back to the system.

    A process that makes and frees arrays of some hundred kilobytes all the time otherwise spends up to half of it
    on page faults (`benchmarks/serve.py`, re-encoded chunks). Called once, before threads start, by commands that
    work chunk by chunk; does nothing without glibc.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for option, value in ((M_MMAP_THRESHOLD, 32 << 20), (M_TRIM_THRESHOLD, 256 << 20), (M_ARENA_MAX, 1)):
        mallopt(option, value)
