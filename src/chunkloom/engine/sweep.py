"""Going over many chunks in threads, a few ahead of what has been taken.

Knows nothing of what is done with a chunk.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Each(Protocol):
    """How a function is applied to many items: `map`, `in_threads`, or one that waits in somebody's queue."""

    def __call__(self, function: Callable[[T], R], items: Iterable[T], /) -> Iterable[R]: ...


def in_threads(threads: int | None = None) -> Each:
    """As `map`, in `threads` threads (default: one per core), at most two items per thread ahead.

    Results come in the order of the items. The first failure is raised where its result would come, and what has not
    begun then never does.
    """
    count = threads or os.cpu_count() or 1

    def each(function: Callable[[T], R], items: Iterable[T], /) -> Iterator[R]:
        waiting: deque[Future[R]] = deque()
        with ThreadPoolExecutor(count, thread_name_prefix="chunkloom-sweep") as pool:
            try:
                for item in items:
                    waiting.append(pool.submit(function, item))
                    if len(waiting) >= 2 * count:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    return each
