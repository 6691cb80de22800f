"""`Region`: what one array of a materialize covers. Voxels, served chunks, pieces of the array, and the walk.

Pure arithmetic: knows nothing of values, stores or threads. A *piece* is what is written at a time: a chunk of the
array, or a whole shard of chunks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from chunkloom.engine.volume import Array, Level
from chunkloom.errors import ParameterError
from chunkloom.geometry import Box

Extent = Literal["box", "level"]
Index = tuple[int, ...]
MOST_COUNTED = 4 << 20


@dataclass(frozen=True, slots=True)
class Overlap:
    """Where a served chunk and a piece meet: the piece, and the voxels they share, in voxels of the level."""

    piece: Index
    box: Box


@dataclass(frozen=True)
class Axis:
    """One axis of a region.

    Attributes
    ----------
    served : the served chunk's length.
    piece : the piece's length.
    lo, hi : voxels of the level that are written.
    origin : voxel of the level that voxel 0 of the array is.
    pieces : indices of pieces that are written, half-open.
    chunks : indices of served chunks that are read, half-open.
    level : the level's length.
    """

    served: int
    piece: int
    lo: int
    hi: int
    origin: int
    pieces: tuple[int, int]
    chunks: tuple[int, int]
    level: int

    def piece_range(self, index: int) -> tuple[int, int]:
        """Voxels of the level in piece `index` that are written, half-open."""
        begin = self.origin + index * self.piece
        return max(self.lo, begin), min(self.hi, begin + self.piece)

    def chunks_of(self, index: int) -> tuple[int, int]:
        """Served chunks that piece `index` is made of, half-open."""
        begin, end = self.piece_range(index)
        return begin // self.served, (end - 1) // self.served + 1

    def pieces_of(self, chunk: int) -> tuple[int, int]:
        """Pieces that served chunk `chunk` is a part of, half-open."""
        begin, end = max(self.lo, chunk * self.served), min(self.hi, (chunk + 1) * self.served)
        return (begin - self.origin) // self.piece, (end - 1 - self.origin) // self.piece + 1

    def passes(self, index: int) -> bool:
        """Whether piece `index` is one served chunk: the same voxels, and where it overhangs the level ends too."""
        begin = self.origin + index * self.piece
        return (
            self.piece == self.served
            and begin % self.served == 0
            and (begin + self.piece <= self.hi or self.hi == self.level)
        )

    @cached_property
    def split(self) -> bool:
        """Whether some piece is made of more than one served chunk."""
        return any(b - a > 1 for a, b in map(self.chunks_of, range(*self.pieces)))

    @property
    def count(self) -> int:
        """Pieces along the axis."""
        return self.pieces[1] - self.pieces[0]


@dataclass(frozen=True)
class Region:
    """The voxels, chunks and array of one written array.

    Attributes
    ----------
    number
        Which level of the volume.
    level
        That level as it is served.
    extent
        "box": the array is exactly the box. "level": the array has the level's shape, with the box's pieces in it.
    box
        Voxels of the level that are written: the box, or with "level" the box rounded out to whole pieces.
    array
        The array that is written: shape, chunk shape, place. Its chunks are the inner chunks of a shard.
    piece
        What is written at a time, z, y, x: the array's chunk, or a shard.
    """

    number: int
    level: Level
    extent: Extent
    box: Box
    array: Level
    piece: tuple[int, ...]

    @cached_property
    def axes(self) -> tuple[Axis, Axis, Axis]:
        """z, y and x."""
        origin = self.box.lo if self.extent == "box" else (0, 0, 0)
        pieces = self.box.shift(tuple(-o for o in origin)).chunk_range(self.piece)
        chunks = self.box.chunk_range(self.level.spatial_chunk)
        made = [
            Axis(
                self.level.spatial_chunk[a],
                self.piece[a],
                self.box.lo[a],
                self.box.hi[a],
                origin[a],
                (pieces.lo[a], pieces.hi[a]),
                (chunks.lo[a], chunks.hi[a]),
                self.level.spatial_shape[a],
            )
            for a in range(3)
        ]
        return made[0], made[1], made[2]

    @property
    def pieces(self) -> Box:
        """Indices of the pieces that are written."""
        return Box(tuple(a.pieces[0] for a in self.axes), tuple(a.pieces[1] for a in self.axes))

    @property
    def chunks(self) -> Box:
        """Indices of the served chunks that are read."""
        return Box(tuple(a.chunks[0] for a in self.axes), tuple(a.chunks[1] for a in self.axes))

    @property
    def piece_shape(self) -> tuple[int, ...]:
        """Of a whole piece, channel axes first."""
        return (*self.array.channels, *self.piece)

    @property
    def piece_nbytes(self) -> int:
        return math.prod(self.piece_shape) * self.array.dtype.itemsize

    @property
    def order(self) -> tuple[int, ...]:
        """The axes to walk served chunks along, outermost first.

        Those that are not split in C order, then the split ones, the one with the most pieces first: no order of the
        axes keeps fewer pieces waiting.
        """
        whole = [a for a in range(3) if not self.axes[a].split]
        split = sorted((a for a in range(3) if self.axes[a].split), key=lambda a: -self.axes[a].count)
        return (*whole, *split)

    def walk(self, order: Sequence[int] | None = None) -> Iterator[Index]:
        """Every served chunk once, the last axis of `order` running fastest."""
        axes = self.order if order is None else tuple(order)
        for at in itertools.product(*(range(*self.axes[a].chunks) for a in axes)):
            yield tuple(at[axes.index(a)] for a in range(3))

    def chunk_box(self, index: Index) -> Box:
        """The voxels of a served chunk, cut where the level ends."""
        return Box.of_chunk(index, self.level.spatial_chunk).intersect(self.level.box)

    def overlaps(self, chunk: Index) -> list[Overlap]:
        """The pieces that a served chunk is a part of, in C order."""
        inside = Box.of_chunk(chunk, self.level.spatial_chunk).intersect(self.box)
        spans = [a.pieces_of(c) for a, c in zip(self.axes, chunk, strict=True)]
        if all(end - begin == 1 for begin, end in spans):
            return [Overlap(tuple(begin for begin, _ in spans), inside)]
        return [Overlap(i, inside.intersect(self.piece_box(i))) for i in itertools.product(*(range(*s) for s in spans))]

    def piece_box(self, piece: Index) -> Box:
        """The voxels of the level that a whole piece covers: it may overhang box and level."""
        lo = tuple(a.origin + i * a.piece for a, i in zip(self.axes, piece, strict=True))
        return Box(lo, tuple(b + a.piece for b, a in zip(lo, self.axes, strict=True)))

    def parts_of(self, piece: Index) -> int:
        """How many served chunks a piece is made of."""
        return math.prod(b - a for a, b in (x.chunks_of(i) for x, i in zip(self.axes, piece, strict=True)))

    def passes(self, piece: Index) -> bool:
        """Whether a piece is exactly one served chunk, overhang included."""
        return all(a.passes(i) for a, i in zip(self.axes, piece, strict=True))

    def inner_count(self, piece: Index) -> int:
        """How many chunks of the array lie in a piece: 1 but for shards."""
        count = 1
        for axis, (i, chunk) in enumerate(zip(piece, self.array.spatial_chunk, strict=True)):
            voxels = min(self.piece[axis], self.array.spatial_shape[axis] - i * self.piece[axis])
            count *= -(-voxels // chunk)
        return count

    @cached_property
    def total(self) -> int:
        """How many chunks of the array are written."""
        count = 1
        for axis, a in enumerate(self.axes):
            chunk = self.array.spatial_chunk[axis]
            end = min(self.array.spatial_shape[axis], a.pieces[1] * a.piece)
            count *= -(-(end - a.pieces[0] * a.piece) // chunk)
        return count

    def position(self, piece: Index) -> int:
        """The number of a piece among those that are written, in C order."""
        at = 0
        for a, i in zip(self.axes, piece, strict=True):
            at = at * a.count + i - a.pieces[0]
        return at

    def feeding(self, unfinished: Array) -> Array:
        """Which served chunks are parts of unfinished pieces.

        Parameters
        ----------
        unfinished
            bool, one for each piece, of the shape of `pieces`.

        Returns
        -------
        numpy.ndarray
            bool, one for each served chunk, of the shape of `chunks`.
        """
        found = unfinished.astype(bool)
        for number, a in enumerate(self.axes):
            spans = np.array([a.pieces_of(c) for c in range(*a.chunks)]) - a.pieces[0]
            pad = [(1, 0) if n == number else (0, 0) for n in range(3)]
            before: Any = np.pad(np.cumsum(found, axis=number, dtype=np.int64), pad)
            found = np.take(before, spans[:, 1], axis=number) > np.take(before, spans[:, 0], axis=number)
        return found


def most_held(region: Region, order: Sequence[int] | None = None) -> int:
    """The most pieces that are started and not complete during a walk of one served chunk at a time.

    Exact. Along an axis, piece i waits from the first to the last served chunk it is made of; how many wait at a
    chunk of the walk is the number of pieces whose first chunk has come less those whose last one has.
    """
    axes = [region.axes[a] for a in (region.order if order is None else order)]
    if not any(a.split for a in axes):
        return 0
    n2, n3 = axes[1].count, axes[2].count
    if (axes[1].chunks[1] - axes[1].chunks[0]) * (axes[2].chunks[1] - axes[2].chunks[0]) > MOST_COUNTED:
        return _bound(axes)
    (begun1, here1, ended1, there1), second, third = map(_begun_and_ended, axes)
    begun = second[0][:, None] * n3 + second[1][:, None] * (third[0] + third[1])
    ended = second[2][:, None] * n3 + second[3][:, None] * (third[2] + third[3])
    # Only differences count along the outermost axis, and they repeat.
    steps = {(int(b - e), int(h), int(t)) for b, h, e, t in zip(begun1, here1, ended1, there1, strict=True)}
    return max(int((waiting * n2 * n3 + here * begun - there * ended).max()) for waiting, here, there in steps)


def _bound(axes: Sequence[Axis]) -> int:
    """At least as many, without counting: for each split axis, the pieces of one step along it."""
    return sum(math.prod(b.count for b in axes[i + 1 :]) * _depth(a) for i, a in enumerate(axes) if a.split)


def _depth(axis: Axis) -> int:
    """How many pieces along an axis one served chunk can leave waiting."""
    return max(end - begin for begin, end in map(axis.pieces_of, range(*axis.chunks)))


def _begun_and_ended(axis: Axis) -> tuple[Array, Array, Array, Array]:
    """For each served chunk: pieces that began before it and at it, and that ended before it and at it."""
    size = axis.chunks[1] - axis.chunks[0]
    spans = np.array([axis.chunks_of(i) for i in range(*axis.pieces)]) - axis.chunks[0]
    at_begin = np.bincount(spans[:, 0], minlength=size)[:size]
    at_end = np.bincount(spans[:, 1] - 1, minlength=size)[:size]
    return np.cumsum(at_begin) - at_begin, at_begin, np.cumsum(at_end) - at_end, at_end


def region_of(
    level: Level,
    number: int,
    box: Box,
    *,
    extent: Extent = "box",
    chunk: Sequence[int] | None = None,
    shard: Sequence[int] | None = None,
) -> Region:
    """The region of a box of a level.

    Parameters
    ----------
    box
        Voxels of the level; must lie inside it (see `voxel_box`).
    chunk
        Chunk shape z, y, x of the array; the served chunk's when left out.
    shard
        Shard shape z, y, x, a multiple of `chunk`; None without shards.
    """
    if extent not in ("box", "level"):
        raise ParameterError(f"extent is {extent!r}: expected 'box' or 'level'")
    size = tuple(int(n) for n in (chunk or level.spatial_chunk))
    piece = _checked_shard(shard, size)
    if extent == "box":
        grid, shape, covered = level.grid.moved(box.lo), box.shape, box
    else:
        grid, shape = level.grid, level.spatial_shape
        pieces = box.chunk_range(piece)
        covered = Box(
            tuple(i * p for i, p in zip(pieces.lo, piece, strict=True)),
            tuple(i * p for i, p in zip(pieces.hi, piece, strict=True)),
        ).intersect(level.box)
    array = replace(level, shape=(*level.channels, *shape), chunk_shape=(*level.channels, *size), grid=grid)
    return Region(number, level, extent, covered, array, piece)


def _checked_shard(shard: Sequence[int] | None, chunk: tuple[int, ...]) -> tuple[int, ...]:
    if len(chunk) != 3 or any(n < 1 for n in chunk):
        raise ParameterError(f"chunk is {chunk}: expected three whole numbers of voxels (z, y, x)")
    if shard is None:
        return chunk
    size = tuple(int(n) for n in shard)
    if len(size) != 3 or any(n < 1 or n % c for n, c in zip(size, chunk, strict=True)):
        raise ParameterError(f"shard is {size}: expected a multiple of the chunk {chunk} along each of z, y, x")
    return size


def voxel_box(level: Level, box: Sequence[Sequence[float | None]] | Box | None) -> Box:
    """A box clipped to the level and rounded out to whole voxels. Sides that are None are the level's.

    Raises
    ------
    ParameterError
        Where no voxel is left, or the box is no box.
    """
    if box is None:
        return level.box
    pairs = list(zip(box.lo, box.hi, strict=True)) if isinstance(box, Box) else [tuple(pair) for pair in box]
    if len(pairs) != 3 or any(len(pair) != 2 for pair in pairs):
        raise ParameterError(f"box {box} is not three pairs of begin and end: expected ((z0, z1), (y0, y1), (x0, x1))")
    lo, hi = [], []
    for (begin, end), size in zip(pairs, level.spatial_shape, strict=True):
        sides = (0 if begin is None else begin, size if end is None else end)
        if any(isinstance(v, bool) or not isinstance(v, int | float | np.number) or math.isnan(v) for v in sides):
            raise ParameterError(f"box {box} holds {sides}: expected numbers of voxels")
        lo.append(math.floor(min(size, max(0, sides[0]))))
        hi.append(math.ceil(max(0, min(size, sides[1]))))
    found = Box(tuple(lo), tuple(hi))
    if found.is_empty:
        text = ",".join(f"{'' if b is None else b}:{'' if h is None else h}" for b, h in pairs)
        raise ParameterError(
            f"box {text} is outside the level or empty: the level is {level.box} (z, y, x); name a box that overlaps it"
        )
    return found
