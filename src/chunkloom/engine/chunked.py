"""`ChunkedVolume`: a volume made chunk by chunk, whose chunks are kept, and the cache they share."""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from chunkloom.engine.cache import ChunkCache, own
from chunkloom.engine.volume import Array, Level, Volume
from chunkloom.geometry import Box

if TYPE_CHECKING:
    from chunkloom.engine.demand import Work

_process_cache: ChunkCache | None = None


def process_cache() -> ChunkCache:
    """The cache that pipelines of this process share unless given one of their own."""
    global _process_cache
    if _process_cache is None:
        _process_cache = ChunkCache()
    return _process_cache


def use_process_cache(cache: ChunkCache) -> None:
    """Make `cache` the one that pipelines made from now on share."""
    global _process_cache
    _process_cache = cache


class ChunkedVolume(Volume):
    """A volume made chunk by chunk: what stored datasets, stages and pyramids have in common.

    `compute` makes any box; chunks of levels that it `keeps` stay in the cache, and boxes are put together
    from them.
    """

    def __init__(self, cache: ChunkCache | None) -> None:
        self.cache = cache or process_cache()

    def compute(self, level: int, box: Box, work: Work) -> Array:
        raise NotImplementedError

    def keeps(self, level: int) -> bool:
        raise NotImplementedError

    def takes_long(self, level: int) -> bool:
        """Whether a chunk takes so long to make that it is kept on disk too, where there is a cache on disk."""
        return False

    def read_box(self, level: int, box: Box, work: Work) -> Array:
        if not self.keeps(level):
            return self.compute(level, box, work)
        described = self.levels[level]
        # Plain tuples: this runs for 27 chunks where an op looks around one.
        spans = [_spans(b, h, c) for b, h, c in zip(box.lo, box.hi, described.spatial_chunk, strict=True)]
        if all(len(axis) == 1 for axis in spans):
            ((z, _, z_from),), ((y, _, y_from),), ((x, _, x_from),) = spans
            alone: Array = self._chunk(level, (z, y, x), work)[..., z_from, y_from, x_from]
            return alone
        out = np.empty((*described.channels, *box.shape), described.dtype)
        for (z, z_to, z_from), (y, y_to, y_from), (x, x_to, x_from) in itertools.product(*spans):
            work.check()
            out[..., z_to, y_to, x_to] = self._chunk(level, (z, y, x), work)[..., z_from, y_from, x_from]
        return out

    def _chunk(self, level: int, index: tuple[int, int, int], work: Work) -> Array:
        """A chunk, cut where the level ends; read-only."""
        # The state first: what is read while a file is written is kept as what was there before.
        key = (self.stage_digest, level, index, self.chunk_state(level, index))

        disk = self.cache.disk if self.takes_long(level) else None

        def make() -> Array:
            held = None if disk is None else disk.get(key)
            if held is not None:
                return held
            made = own(np.ascontiguousarray(self.compute(level, self._box(level, index), work)))
            if disk is not None:
                disk.put(key, made)
            return made

        found = self.cache.get(key, make, work)
        self.note(level, index, found)
        return found

    def chunk_state(self, level: int, index: tuple[int, int, int]) -> str:
        """`state` of a chunk."""
        return self.state(level, self._box(level, index)) if self._changing else ""

    @cached_property
    def _changing(self) -> bool:
        return self.changes

    def _box(self, level: int, index: tuple[int, int, int]) -> Box:
        described = self.levels[level]
        return Box.of_chunk(index, described.spatial_chunk).intersect(described.box)

    def note(self, level: int, index: tuple[int, int, int], chunk: Array) -> None:
        """Told of every chunk that is read, computed now or before, perhaps by another volume like this one."""


def of_whole_chunks(level: Level, box: Box) -> Box:
    """The voxels of all chunks of `level` that `box` touches."""
    chunks, size = box.chunk_range(level.spatial_chunk), level.spatial_chunk
    lo = tuple(n * c for n, c in zip(chunks.lo, size, strict=True))
    hi = tuple(n * c for n, c in zip(chunks.hi, size, strict=True))
    return Box(lo, hi).intersect(level.box)


def _spans(begin: int, end: int, chunk: int) -> list[tuple[int, slice, slice]]:
    """The chunks along one axis that hold voxels begin … end: number, where in the box, where in the chunk."""
    found = []
    for i in range(begin // chunk, -(-end // chunk)):
        lo, hi = max(begin, i * chunk), min(end, (i + 1) * chunk)
        found.append((i, slice(lo - begin, hi - begin), slice(lo - i * chunk, hi - i * chunk)))
    return found
