"""How long chunks took to make, as a histogram in plain numbers: no metrics library on the way of a chunk."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable
from typing import TypeVar

from chunkloom.engine.demand import Work

T = TypeVar("T")

# Upper bounds in seconds: a stored chunk passed on takes milliseconds, a model's tile seconds.
BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Times:
    """Counts of durations, `counts[i]` of them at most `BOUNDS_S[i]`, and above all bounds in the last one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0

    def timed(self, run: Callable[[Work], T]) -> Callable[[Work], T]:
        """`run`, with the time of each call that gives a result counted."""

        def measured(work: Work) -> T:
            began = time.perf_counter()
            result = run(work)
            took = time.perf_counter() - began
            with self._lock:
                self.counts[bisect_left(BOUNDS_S, took)] += 1
                self.total_s += took
            return result

        return measured

    def snapshot(self) -> tuple[list[int], float]:
        """Counts and their sum in seconds, at one moment."""
        with self._lock:
            return list(self.counts), self.total_s
