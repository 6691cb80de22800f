"""`Box`: a half-open range of whole voxels on each axis."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import add, mul
from typing import Any


@dataclass(frozen=True, slots=True)
class Box:
    """Voxels `lo <= i < hi` on each axis.

    `lo` may be negative: a box can lie partly or wholly outside the array it is meant for. A box with `hi <= lo` on
    some axis is empty; its shape is 0 there.
    """

    lo: tuple[int, ...]
    hi: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.lo) != len(self.hi):
            raise ValueError(f"box corners differ in length: lo {self.lo}, hi {self.hi}")

    @classmethod
    def of_shape(cls, shape: Sequence[int]) -> Box:
        """The box of a whole array of `shape`."""
        return cls((0,) * len(shape), tuple(int(n) for n in shape))

    @classmethod
    def of_chunk(cls, index: Sequence[int], chunk: Sequence[int]) -> Box:
        """The full-size box of chunk `index` on a grid of `chunk` voxels (it may overhang the array)."""
        if len(index) != len(chunk):
            raise ValueError(f"chunk index {tuple(index)} and chunk shape {tuple(chunk)} differ in length")
        lo = tuple(map(mul, index, chunk))
        return cls(lo, tuple(map(add, lo, chunk)))

    @property
    def ndim(self) -> int:
        return len(self.lo)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(max(0, h - b) for b, h in zip(self.lo, self.hi, strict=True))

    @property
    def size(self) -> int:
        """How many voxels it holds (a Python integer, so it cannot overflow)."""
        count = 1
        for n in self.shape:
            count *= n
        return count

    @property
    def is_empty(self) -> bool:
        return any(h <= b for b, h in zip(self.lo, self.hi, strict=True))

    def grow(self, low: Sequence[int], high: Sequence[int] | None = None) -> Box:
        """`low` more voxels before each axis and `high` (default: the same) after; negative numbers shrink."""
        high = low if high is None else high
        return Box(
            tuple(b - g for b, g in zip(self.lo, low, strict=True)),
            tuple(h + g for h, g in zip(self.hi, high, strict=True)),
        )

    def shift(self, offset: Sequence[int]) -> Box:
        return Box(
            tuple(b + o for b, o in zip(self.lo, offset, strict=True)),
            tuple(h + o for h, o in zip(self.hi, offset, strict=True)),
        )

    def intersect(self, other: Box) -> Box:
        """What both hold. Empty (`lo == hi` on the axes where they miss each other) when they do not meet."""
        if len(self.lo) != len(other.lo):
            raise ValueError(f"boxes {self} and {other} differ in their number of axes")
        # `map` on the whole tuples: this runs several times for every chunk.
        lo = tuple(map(max, self.lo, other.lo))
        return Box(lo, tuple(map(max, lo, map(min, self.hi, other.hi))))

    def contains(self, other: Box) -> bool:
        return all(a <= b for a, b in zip(self.lo, other.lo, strict=True)) and all(
            a >= b for a, b in zip(self.hi, other.hi, strict=True)
        )

    def slices(self, origin: Sequence[int] | None = None) -> tuple[slice, ...]:
        """Slices for an array whose first voxel is `origin` (default 0)."""
        origin = (0,) * self.ndim if origin is None else origin
        return tuple(slice(b - o, h - o) for b, h, o in zip(self.lo, self.hi, origin, strict=True))

    def index(self, origin: Sequence[int] | None = None) -> tuple[Any, ...]:
        """As `slices`, of the last axes of an array: channel axes before them are taken whole."""
        return (..., *self.slices(origin))

    def chunk_range(self, chunk: Sequence[int]) -> Box:
        """The box of chunk indices that this box touches, on a grid of `chunk` voxels from 0."""
        lo = tuple(b // c for b, c in zip(self.lo, chunk, strict=True))
        hi = tuple(b if h <= l0 else -(-h // c) for b, l0, h, c in zip(lo, self.lo, self.hi, chunk, strict=True))
        return Box(lo, hi)

    def indices(self) -> Iterator[tuple[int, ...]]:
        """Every voxel index in C order (of a box of chunk indices: every chunk)."""
        return itertools.product(*(range(b, h) for b, h in zip(self.lo, self.hi, strict=True)))

    def pieces(self, chunk: Sequence[int], most: int) -> Iterator[Box]:
        """Parts that make up this box, cut along chunk borders, of at most `most` chunks each, in C order."""
        chunks = self.chunk_range(chunk)
        if chunks.size <= most:
            if chunks.size:
                yield self
            return
        # The axis along which parts hold several chunks; whole along later axes, one chunk thick along earlier ones.
        whole, axis = 1, self.ndim - 1
        while axis > 0 and whole * chunks.shape[axis] <= most:
            whole *= chunks.shape[axis]
            axis -= 1
        step = max(1, most // whole) if self.ndim else 1
        starts = [range(b, h) for b, h in zip(chunks.lo[:axis], chunks.hi[:axis], strict=True)]
        along = range(chunks.lo[axis], chunks.hi[axis], step) if self.ndim else range(1)
        for index in itertools.product(*starts, along):
            lo = (*index, *chunks.lo[axis + 1 :])
            hi = (*(i + 1 for i in index[:-1]), index[-1] + step, *chunks.hi[axis + 1 :])
            part = Box(
                tuple(b * c for b, c in zip(lo, chunk, strict=True)),
                tuple(h * c for h, c in zip(hi, chunk, strict=True)),
            )
            yield part.intersect(self)

    def __str__(self) -> str:
        return ",".join(f"{b}:{h}" for b, h in zip(self.lo, self.hi, strict=True))
