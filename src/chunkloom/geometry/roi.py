"""`Roi`: a half-open region of the world, in nanometres.

Behaves like the regions that scripts of this field know (`offset`, `shape`, `begin`, `end`, `get_*`, `grow`,
`intersect`, `snap_to_grid`), with one difference: coordinates are real numbers and stay so. 3.24 nm is 3.24 nm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

Coordinate = tuple[float, ...]


def coordinate(values: Any, ndim: int | None = None) -> Coordinate:
    """`values` (a number, or an iterable of them) as a tuple of floats, whole ones kept as integers."""
    if isinstance(values, int | float):
        values = (values,) * (ndim or 1)
    return tuple(int(v) if float(v).is_integer() else float(v) for v in values)


def snap(value: float, tolerance: float = 1e-6) -> float:
    """`value`, or the nearest whole number where it differs from it by float noise only."""
    whole = round(value)
    return whole if abs(value - whole) <= tolerance * max(1.0, abs(value) * 1e-6) else value


@dataclass(frozen=True, slots=True)
class Roi:
    """`offset <= position < offset + shape`, nm, axes z, y, x. A shape of 0 or less is an empty region."""

    offset: Coordinate
    shape: Coordinate

    def __init__(self, offset: Any, shape: Any) -> None:
        offset = coordinate(offset)
        shape = coordinate(shape, len(offset))
        if len(offset) != len(shape):
            raise ValueError(f"offset {offset} and shape {shape} differ in length")
        object.__setattr__(self, "offset", offset)
        object.__setattr__(self, "shape", shape)

    @classmethod
    def of(cls, other: Any) -> Roi:
        """A `Roi` of anything with `offset` and `shape`, such as a region of another library."""
        return other if isinstance(other, cls) else cls(tuple(other.offset), tuple(other.shape))

    @property
    def begin(self) -> Coordinate:
        return self.offset

    @property
    def end(self) -> Coordinate:
        return coordinate(o + s for o, s in zip(self.offset, self.shape, strict=True))

    @property
    def center(self) -> Coordinate:
        return coordinate(o + s / 2 for o, s in zip(self.offset, self.shape, strict=True))

    @property
    def dims(self) -> int:
        return len(self.offset)

    @property
    def size(self) -> float:
        return math.prod(self.shape)

    @property
    def empty(self) -> bool:
        return any(s <= 0 for s in self.shape)

    def get_begin(self) -> Coordinate:
        return self.begin

    def get_end(self) -> Coordinate:
        return self.end

    def get_offset(self) -> Coordinate:
        return self.offset

    def get_shape(self) -> Coordinate:
        return self.shape

    def get_center(self) -> Coordinate:
        return self.center

    def grow(self, amount_neg: Any = 0, amount_pos: Any = 0) -> Roi:
        """`amount_neg` more before and `amount_pos` more after, each a number or one per axis; negative shrinks."""
        neg, pos = coordinate(amount_neg, self.dims), coordinate(amount_pos, self.dims)
        return Roi(
            [o - n for o, n in zip(self.offset, neg, strict=True)],
            [s + n + p for s, n, p in zip(self.shape, neg, pos, strict=True)],
        )

    def shift(self, by: Any) -> Roi:
        return Roi([o + d for o, d in zip(self.offset, coordinate(by, self.dims), strict=True)], self.shape)

    def intersect(self, other: Any) -> Roi:
        """What both hold; of shape 0 where they miss each other."""
        other = Roi.of(other)
        begin = [max(a, b) for a, b in zip(self.begin, other.begin, strict=True)]
        end = [min(a, b) for a, b in zip(self.end, other.end, strict=True)]
        return Roi(begin, [max(0, e - b) for b, e in zip(begin, end, strict=True)])

    def intersects(self, other: Any) -> bool:
        return not self.intersect(other).empty

    def union(self, other: Any) -> Roi:
        """The smallest region that holds both."""
        other = Roi.of(other)
        begin = [min(a, b) for a, b in zip(self.begin, other.begin, strict=True)]
        end = [max(a, b) for a, b in zip(self.end, other.end, strict=True)]
        return Roi(begin, [e - b for b, e in zip(begin, end, strict=True)])

    def contains(self, other: Any) -> bool:
        """Whether a point, or the whole of another region, lies inside."""
        if hasattr(other, "shape") and hasattr(other, "offset"):
            inner = Roi.of(other)
            return all(a <= b for a, b in zip(self.begin, inner.begin, strict=True)) and all(
                a >= b for a, b in zip(self.end, inner.end, strict=True)
            )
        point = coordinate(other)
        return all(b <= p < e for b, p, e in zip(self.begin, point, self.end, strict=True))

    def snap_to_grid(self, voxel_size: Any, mode: Literal["grow", "shrink", "closest"] = "grow") -> Roi:
        """Begin and end moved to multiples of `voxel_size`: outward, inward, or to the closest.

        A region of which nothing is left under "shrink" has shape 0. Float noise (1e-6 voxel) does not move a corner.
        """
        size = coordinate(voxel_size, self.dims)
        rounding: dict[str, tuple[Callable[[float], int], Callable[[float], int]]] = {
            "grow": (math.floor, math.ceil),
            "shrink": (math.ceil, math.floor),
            "closest": (round, round),
        }
        if mode not in rounding:
            raise ValueError(f"unknown mode {mode!r}: expected grow, shrink or closest")
        low, high = rounding[mode]
        begin = [low(snap(b / s)) * s for b, s in zip(self.begin, size, strict=True)]
        end = [high(snap(e / s)) * s for e, s in zip(self.end, size, strict=True)]
        return Roi(begin, [max(0, e - b) for b, e in zip(begin, end, strict=True)])

    def __mul__(self, factor: Any) -> Roi:
        by = coordinate(factor, self.dims)
        return Roi(
            [o * f for o, f in zip(self.offset, by, strict=True)],
            [s * f for s, f in zip(self.shape, by, strict=True)],
        )

    def __truediv__(self, factor: Any) -> Roi:
        by = coordinate(factor, self.dims)
        return Roi(
            [o / f for o, f in zip(self.offset, by, strict=True)],
            [s / f for s, f in zip(self.shape, by, strict=True)],
        )

    def __add__(self, by: Iterable[float] | float) -> Roi:
        return self.shift(by)

    def __sub__(self, by: Iterable[float] | float) -> Roi:
        return self.shift(coordinate(-v for v in coordinate(by, self.dims)))
