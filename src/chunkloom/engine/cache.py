"""Caches bounded by bytes: decoded chunks per stage, with one computation per chunk however many ask.

Cached arrays are read-only. Knows nothing of what it keeps but its size.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkloom.engine.volume import Array
from chunkloom.errors import CancelledWorkError
from chunkloom.memory import free_memory

if TYPE_CHECKING:
    from chunkloom.engine.demand import Work
    from chunkloom.engine.disk import DiskCache


LOOK_S = 0.05
"""How often one that waits for another's computation looks whether anybody still waits for it."""


class ByteCache:
    """A least-recently-used cache of at most `limit` bytes. Safe to use from threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.hits = self.misses = 0
        self._held: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Any | None:
        with self._lock:
            found = self._held.get(key)
            if found is None:
                self.misses += 1
                return None
            self._held.move_to_end(key)
            self.hits += 1
            return found[0]

    def peek(self, key: Hashable) -> Any | None:
        """What is kept under `key`, as `get`, but neither counted nor made younger."""
        with self._lock:
            found = self._held.get(key)
            return None if found is None else found[0]

    def put(self, key: Hashable, value: Any, nbytes: int) -> None:
        """Keep `value`; what was used longest ago goes. A value larger than the limit is not kept."""
        with self._lock:
            old = self._held.pop(key, None)
            if old is not None:
                self.used -= old[1]
            if nbytes > self.limit:
                return
            self._held[key] = (value, nbytes)
            self.used += nbytes
            while self.used > self.limit:
                _, (_, size) = self._held.popitem(last=False)
                self.used -= size

    def drop(self, key: Hashable) -> None:
        """Forget what is kept under `key`, if anything."""
        with self._lock:
            old = self._held.pop(key, None)
            if old is not None:
                self.used -= old[1]

    def values(self) -> list[Any]:
        """All that is kept."""
        with self._lock:
            return [value for value, _ in self._held.values()]

    def shrink(self, limit: int) -> None:
        """From now on at most `limit` bytes; what was used longest ago goes."""
        with self._lock:
            self.limit = limit
            while self.used > limit:
                _, (_, size) = self._held.popitem(last=False)
                self.used -= size

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
            self.used = 0

    def __len__(self) -> int:
        return len(self._held)


class _Flight:
    """One computation under way, and those who wait for it."""

    __slots__ = ("failure", "finished", "value")

    def __init__(self) -> None:
        self.finished = threading.Event()
        self.value: Array | None = None
        self.failure: BaseException | None = None


class ChunkCache:
    """Decoded chunks: found, or computed once for all threads that ask at the same time.

    A failure is shared by those who wait when it happens; the next to ask computes again. When the one computing
    gives up because its own client left, another of those waiting computes.

    Parameters
    ----------
    limit
        Most bytes in memory. Default: a quarter of what is free, at most 4 GiB.
    disk
        Where chunks that took long are kept too.
    """

    def __init__(self, limit: int | None = None, disk: DiskCache | None = None) -> None:
        self.kept = ByteCache(default_limit() if limit is None else limit)
        self.disk = disk
        self._flights: dict[Hashable, _Flight] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, compute: Callable[[], Array], work: Work | None = None) -> Array:
        """The read-only array kept under `key`, else `compute()`, kept if it fits.

        While another thread computes it, `work.check()` is called now and then: it raises to stop waiting.
        """
        while True:
            held = self.kept.get(key)
            if held is not None:
                return held  # type: ignore[no-any-return]
            with self._lock:
                flight = self._flights.get(key)
                leads = flight is None
                if flight is None:
                    # Its leader may have finished between the look above and this one.
                    held = self.kept.peek(key)
                    if held is not None:
                        return held  # type: ignore[no-any-return]
                    flight = self._flights[key] = _Flight()
            if leads:
                return self._lead(key, flight, compute)
            while not flight.finished.wait(None if work is None else LOOK_S):
                assert work is not None
                work.check()
            if isinstance(flight.failure, CancelledWorkError):
                continue
            if flight.failure is not None:
                raise flight.failure
            assert flight.value is not None
            return flight.value

    def _lead(self, key: Hashable, flight: _Flight, compute: Callable[[], Array]) -> Array:
        try:
            array = compute()
            if array.flags.writeable:
                array.setflags(write=False)
            flight.value = array
            self.kept.put(key, array, array.nbytes)
            return array
        except BaseException as failure:
            flight.failure = failure
            raise
        finally:
            with self._lock:
                del self._flights[key]
            flight.finished.set()


def default_limit() -> int:
    """A quarter of free memory, up to 4 GiB."""
    free = free_memory()
    return min(4 << 30, (free or 4 << 30) // 4)


def own(array: Array) -> Array:
    """`array`, or a copy where it shares memory that somebody can write to, or much more than its own."""
    deepest = array
    while isinstance(deepest.base, np.ndarray):
        deepest = deepest.base
    shared = deepest is not array and (deepest.flags.writeable or deepest.nbytes > array.nbytes * 1.25)
    return array.copy() if shared else array
