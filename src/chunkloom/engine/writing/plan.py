"""`Plan`: what a materialize will do, said before it starts. Pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chunkloom.engine.writing.region import Region, most_held
from chunkloom.errors import ParameterError

DEFAULT_MEMORY = 1 << 30
# A served chunk, the stored bytes it is made of, a piece it completes, and that one encoded.
ON_THEIR_WAY = 4


@dataclass(frozen=True)
class ArrayPlan:
    """The plan of one array.

    Attributes
    ----------
    needed
        Served chunks to compute.
    total, files
        Chunks of the array to write, and files they are in (fewer with shards). Empty ones may be left out.
    bytes_at_most
        Bytes of those files before they are packed.
    held
        The most pieces that wait for their last part, by the walk alone.
    in_memory
        How many of them may wait in memory; None where all may. The others wait on disk.
    cache_bytes
        What chunks kept by the volume's ops and sources may take; None where they are left as they are.
    peak_bytes
        Memory at most: what waits, what is on its way, and `cache_bytes`.
    concurrency
        Served chunks computed at a time: as asked, or fewer to keep to the limit.
    """

    needed: int
    total: int
    files: int
    bytes_at_most: int
    held: int
    in_memory: int | None
    cache_bytes: int | None
    peak_bytes: int
    concurrency: int

    @property
    def spills(self) -> bool:
        """Whether pieces will wait on disk."""
        return self.in_memory is not None

    @property
    def disk_bytes(self) -> int:
        """Disk that waiting pieces take at most, beside the target."""
        return 0 if self.in_memory is None else max(0, self.held - self.in_memory) * (self.bytes_at_most // self.files)

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "needed": self.needed,
            "total": self.total,
            "files": self.files,
            "bytes_at_most": self.bytes_at_most,
            "held": self.held,
            "in_memory": self.held if self.in_memory is None else self.in_memory,
            "spills": self.spills,
            "disk_bytes": self.disk_bytes,
            "peak_bytes": self.peak_bytes,
            "concurrency": self.concurrency,
        }


def plan_array(region: Region, *, concurrency: int, memory_limit: int | None) -> ArrayPlan:
    """The plan of a region.

    Parameters
    ----------
    concurrency
        Served chunks computed at a time.
    memory_limit
        Bytes that everything takes together, the volume's caches among it. None: 1 GiB, without the caches.

    Raises
    ------
    ParameterError
        Where one chunk at a time does not fit.
    """
    limit = DEFAULT_MEMORY if memory_limit is None else memory_limit
    caches = None if memory_limit is None else limit // 4
    piece = region.piece_nbytes
    unit = max(piece, region.level.chunk_nbytes)
    needed, files = region.chunks.size, region.pieces.size
    by_walk = most_held(region)
    # Out of turn, each chunk beyond the first can leave as many pieces waiting as it is a part of.
    parts = max(len(region.overlaps(index)) for index in _corners(region))

    def held_with(lanes: int) -> int:
        return 0 if by_walk == 0 else min(files, by_walk + (lanes - 1) * parts)

    lanes = max(1, min(concurrency, needed))
    room = limit - (caches or 0)
    everything = held_with(lanes) * piece + lanes * ON_THEIR_WAY * unit
    if everything <= room or (by_walk == 0 and memory_limit is None):
        return _plan(region, lanes, held_with(lanes), None, caches, everything)
    while lanes > 1 and lanes * ON_THEIR_WAY * unit + piece > room:
        lanes -= 1
    least = ON_THEIR_WAY * unit + (piece if by_walk else 0)
    if least > room:
        raise ParameterError(
            f"memory_limit is {limit} bytes: one chunk of {unit} bytes at a time takes {least + (caches or 0)}; "
            "give at least that, or a volume with smaller chunks"
        )
    way = lanes * ON_THEIR_WAY * unit
    buffers = (room - way) // piece
    held = held_with(lanes)
    if held <= buffers:
        return _plan(region, lanes, held, None, caches, held * piece + way)
    return _plan(region, lanes, held, buffers, caches, buffers * piece + way)


def _plan(region: Region, lanes: int, held: int, buffers: int | None, caches: int | None, nbytes: int) -> ArrayPlan:
    files = region.pieces.size
    return ArrayPlan(
        needed=region.chunks.size,
        total=region.total,
        files=files,
        bytes_at_most=files * region.piece_nbytes,
        held=held,
        in_memory=buffers,
        cache_bytes=caches,
        peak_bytes=nbytes + (caches or 0),
        concurrency=lanes,
    )


def _corners(region: Region) -> list[tuple[int, ...]]:
    """Chunks at the begin, in the middle and at the end of the walk."""
    lo, hi = region.chunks.lo, region.chunks.hi
    return [lo, tuple((a + b) // 2 for a, b in zip(lo, hi, strict=True)), tuple(h - 1 for h in hi)]
