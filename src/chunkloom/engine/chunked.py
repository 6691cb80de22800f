"""`ChunkedVolume`: a volume made chunk by chunk, whose chunks are kept, and the cache they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chunkloom.engine.cache import ChunkCache, own
from chunkloom.engine.volume import Array, Volume
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

    def read_box(self, level: int, box: Box, work: Work) -> Array:
        if not self.keeps(level):
            return self.compute(level, box, work)
        described = self.levels[level]
        chunk = described.spatial_chunk
        needed = box.chunk_range(chunk)
        if needed.size == 1:
            index = needed.lo
            part_of: Array = self._chunk(level, index, work)[box.index(Box.of_chunk(index, chunk).lo)]
            return part_of
        out = np.empty((*described.channels, *box.shape), described.dtype)
        for index in needed.indices():
            work.check()
            whole = Box.of_chunk(index, chunk)
            part = whole.intersect(box)
            out[part.index(box.lo)] = self._chunk(level, index, work)[part.index(whole.lo)]
        return out

    def _chunk(self, level: int, index: tuple[int, ...], work: Work) -> Array:
        """A chunk, cut where the level ends; read-only."""
        described = self.levels[level]
        box = Box.of_chunk(index, described.spatial_chunk).intersect(described.box)
        return self.cache.get(
            (self.stage_digest, level, index), lambda: own(np.ascontiguousarray(self.compute(level, box, work)))
        )
