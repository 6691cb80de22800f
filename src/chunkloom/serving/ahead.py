"""Coarse chunks around those that somebody looks at, made before they are asked for.

A coarse chunk made from fine ones takes long, and a view that moves or zooms out asks for its neighbours next. They
are claimed in the background: they run when nobody waits for anything, and are given up when the view is elsewhere.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator

from chunkloom.engine.demand import Claim, Scheduler
from chunkloom.engine.formats import ChunkKey
from chunkloom.errors import CancelledWorkError
from chunkloom.geometry import Box
from chunkloom.serving.served import ServedVolume

MOST = 16
"""Chunks that wait to be made ahead; those of the oldest view are given up first."""

Place = tuple[str, int, tuple[int, int, int]]


class Ahead:
    """Makes chunks ahead on a scheduler. They go to the caches of their volumes, and nowhere else."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self._lock = threading.Lock()
        self._waiting: OrderedDict[Place, Claim] = OrderedDict()

    def seen(self, served: ServedVolume, key: ChunkKey) -> None:
        """Somebody asked for a chunk, which has been made."""
        if key.level < served.volume.own_levels or served.volume.cost(key.level) == 0:
            return
        for level, index in _around(served, key):
            self._claim(served, level, index)

    def close(self) -> None:
        """Give up everything."""
        with self._lock:
            claims = list(self._waiting.values())
            self._waiting.clear()
        for claim in claims:
            claim.release()

    def _claim(self, served: ServedVolume, level: int, index: tuple[int, int, int]) -> None:
        place = (served.digest, level, index)
        described, volume = served.volume.levels[level], served.volume
        box = Box.of_chunk(index, described.spatial_chunk).intersect(described.box)
        with self._lock:
            if place in self._waiting:
                self._waiting.move_to_end(place)
                return
        try:
            claim = self.scheduler.claim(
                ("ahead", *place),
                lambda work: volume.read_box(level, box, work).nbytes,
                level=level,
                cost=volume.cost(level),
                client="ahead",
                background=True,
            )
        except CancelledWorkError:
            return
        given_up = []
        with self._lock:
            self._waiting[place] = claim
            while len(self._waiting) > MOST:
                given_up.append(self._waiting.popitem(last=False)[1])
        claim.future.add_done_callback(lambda _: self._done(place, claim))
        for old in given_up:
            old.release()

    def _done(self, place: Place, claim: Claim) -> None:
        with self._lock:
            if self._waiting.get(place) is claim:
                del self._waiting[place]


def _around(served: ServedVolume, key: ChunkKey) -> Iterator[tuple[int, tuple[int, int, int]]]:
    """The chunks over the faces of one, and the one that holds it on the next coarser level: that first."""
    levels = served.volume.levels
    if key.level + 1 < len(levels):
        fine, coarse = levels[key.level], levels[key.level + 1]
        factor = [round(a / b) for a, b in zip(coarse.voxel_size_nm, fine.voxel_size_nm, strict=True)]
        z, y, x = (
            i * c // f // d
            for i, c, f, d in zip(key.index, fine.spatial_chunk, factor, coarse.spatial_chunk, strict=True)
        )
        yield key.level + 1, (z, y, x)
    for axis in range(3):
        for step in (-1, 1):
            index = list(key.index)
            index[axis] += step
            if 0 <= index[axis] < levels[key.level].chunk_grid[axis]:
                yield key.level, (index[0], index[1], index[2])
