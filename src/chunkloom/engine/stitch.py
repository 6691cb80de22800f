"""`Stitcher`: served chunks in, complete pieces of an array out.

Each served chunk is copied, once, into every piece it is a part of. A piece whose last part is in is given back and
forgotten. Buffers are allocated when a part holds a value other than the fill value; with a limit on their number, the
parts of further pieces wait on `Scratch`, each written once and read once.

Knows nothing of where served chunks come from or where pieces go.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from chunkloom.engine.volume import Array
from chunkloom.engine.writing.region import Index, Overlap, Region
from chunkloom.geometry import Box


class Scratch(Protocol):
    """Room on disk for pieces that wait, in slots of one piece each. Safe to use from threads."""

    def take(self) -> int:
        """A free slot."""

    def give(self, slot: int) -> None:
        """`slot` is free again."""

    def write(self, slot: int, offset: int, data: memoryview) -> None: ...

    def read(self, slot: int, offset: int, count: int) -> bytes: ...


@dataclass(frozen=True)
class Completed:
    """A piece with all its parts in.

    Attributes
    ----------
    piece
        Its index.
    voxels
        The whole piece, or the served chunk that it is (cut where the level ends); None where every voxel has the fill
        value. Valid until `release` is called.
    """

    piece: Index
    voxels: Array | None
    release: Callable[[], None] = lambda: None


@dataclass
class _Part:
    """A piece that waits."""

    left: int
    buffer: Array | None = None
    slot: int | None = None
    used: int = 0
    on_disk: list[tuple[int, tuple[int, ...], tuple[Any, ...]]] = field(default_factory=list)


class Stitcher:
    """Takes served chunks in any order, from any thread.

    Parameters
    ----------
    fill
        The fill value: what is outside the box, and what chunks that are None hold.
    buffers
        How many pieces may be in memory, those given back and not released among them. None: as many as it takes.
    scratch
        Where the others wait; needed with `buffers`.

    Attributes
    ----------
    held, most_held
        Pieces started and not complete: now, and at most so far.
    spilled
        Pieces that waited on disk so far.
    """

    def __init__(
        self, region: Region, fill: Any = 0, *, buffers: int | None = None, scratch: Scratch | None = None
    ) -> None:
        if buffers is not None and scratch is None:
            raise ValueError("a limit on buffers needs scratch")
        self.region = region
        self.fill = np.asarray(fill, region.array.dtype)
        self.held = self.most_held = self.spilled = 0
        self._buffers = buffers
        self._scratch = scratch
        self._parts: dict[Index, _Part] = {}
        self._free: list[Array] = []
        self._in_use = 0
        self._lock = threading.Lock()

    def add(self, chunk: Index, voxels: Array | None, wanted: Callable[[Index], bool] | None = None) -> list[Completed]:
        """Copy a served chunk to where it belongs; returns the pieces it completes, in C order.

        Parameters
        ----------
        voxels
            The chunk, cut where the level ends, channel axes first; None where all is fill.
        wanted
            Whether a piece is to be made at all; all are when left out.
        """
        if voxels is not None and self.is_fill(voxels):
            voxels = None
        completed = []
        for overlap in self.region.overlaps(chunk):
            if wanted is not None and not wanted(overlap.piece):
                continue
            if self.region.passes(overlap.piece):
                completed.append(Completed(overlap.piece, voxels))
                continue
            done = self._add_part(chunk, overlap, voxels)
            if done is not None:
                completed.append(done)
        return completed

    def is_fill(self, voxels: Array) -> bool:
        """Whether every voxel is the fill value, bit for bit (-0.0 is not 0)."""
        pattern = self.fill.tobytes()
        if voxels[(0,) * voxels.ndim].tobytes() != pattern:
            return False
        flat = np.ascontiguousarray(voxels).reshape(-1)
        if not any(pattern):
            return not flat.view(np.uint8).any()
        word = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[flat.dtype.itemsize]
        return bool((flat.view(word) == np.frombuffer(pattern, word)[0]).all())

    def _add_part(self, chunk: Index, overlap: Overlap, voxels: Array | None) -> Completed | None:
        region = self.region
        whole = region.piece_box(overlap.piece)
        target = overlap.box.index(whole.lo)
        with self._lock:
            part = self._parts.get(overlap.piece)
            if part is None:
                part = self._parts[overlap.piece] = _Part(region.parts_of(overlap.piece))
                self.held += 1
                self.most_held = max(self.most_held, self.held)
            if voxels is not None and part.buffer is None and part.slot is None:
                self._find_room(part)
            offset = part.used
            if voxels is not None and part.slot is not None:
                shape = (*region.array.channels, *overlap.box.shape)
                part.used += overlap.box.size * region.piece_nbytes // whole.size
                part.on_disk.append((offset, shape, target))
        if voxels is not None:
            served = voxels[overlap.box.index(Box.of_chunk(chunk, region.level.spatial_chunk).lo)]
            if part.buffer is not None:
                part.buffer[target] = served
            elif part.slot is not None and self._scratch is not None:
                contiguous = np.ascontiguousarray(served)
                self._scratch.write(part.slot, offset, contiguous.reshape(-1).view(np.uint8).data)
        with self._lock:
            part.left -= 1
            if part.left:
                return None
            del self._parts[overlap.piece]
            self.held -= 1
        return self._complete(overlap.piece, part)

    def _find_room(self, part: _Part) -> None:
        if self._buffers is not None and self._in_use >= self._buffers and self._scratch is not None:
            part.slot = self._scratch.take()
            self.spilled += 1
            return
        part.buffer = self._take_buffer()

    def _take_buffer(self) -> Array:
        self._in_use += 1
        found = self._free.pop() if self._free else np.empty(self.region.piece_shape, self.region.array.dtype)
        found.fill(self.fill[()])
        return found

    def _complete(self, piece: Index, part: _Part) -> Completed:
        if part.slot is not None and self._scratch is not None:
            # One more than the limit, for as long as this thread takes to write it.
            voxels = np.full(self.region.piece_shape, self.fill[()], self.region.array.dtype)
            for offset, shape, target in part.on_disk:
                count = int(np.prod(shape)) * voxels.itemsize
                raw = self._scratch.read(part.slot, offset, count)
                voxels[target] = np.frombuffer(raw, voxels.dtype).reshape(shape)
            self._scratch.give(part.slot)
            return Completed(piece, None if self.is_fill(voxels) else voxels)
        if part.buffer is None:
            return Completed(piece, None)
        buffer = part.buffer
        if self.is_fill(buffer):
            self._release(buffer)
            return Completed(piece, None)
        return Completed(piece, buffer, lambda: self._release(buffer))

    def _release(self, buffer: Array) -> None:
        with self._lock:
            self._in_use -= 1
            self._free.append(buffer)
