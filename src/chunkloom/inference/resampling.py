"""Voxels of another size computed from a level's: what is read for a box of them, and what becomes of it.

Chunk by chunk gives exactly the voxels of a whole: each depends on its own place alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunkloom.engine.sources.array import kind_of
from chunkloom.engine.volume import Array
from chunkloom.geometry import Box
from chunkloom.geometry.roi import snap


@dataclass(frozen=True)
class Resampling:
    """New voxels `factor` (z, y, x) times as large, from the same corner; `nearest` for labels.

    An axis whose factor is a whole number is averaged, any other is interpolated between voxel centres.
    """

    factor: tuple[float, ...]
    nearest: bool

    def shape_of(self, shape: Sequence[int]) -> tuple[int, ...]:
        """How many new voxels cover `shape`."""
        return tuple(math.ceil(snap(n / f)) for n, f in zip(shape, self.factor, strict=True))

    def needs(self, box: Box) -> Box:
        """The old voxels that make up those of `box`; may reach outside the data."""
        lo, hi = [], []
        for b, h, f in zip(box.lo, box.hi, self.factor, strict=True):
            lo.append(math.floor(snap(b * f)) - 1)
            hi.append(math.ceil(snap(h * f)) + 1)
        return Box(tuple(lo), tuple(hi))

    def compute(self, block: Array, read: Box, box: Box, shape: Sequence[int]) -> Array:
        """The new voxels of `box` from `block`, the old ones of `read`, in a level of `shape`; the dtype is kept."""
        if self.nearest:
            at = [self._nearest(axis, box, shape[axis]) - read.lo[axis] for axis in range(3)]
            index: tuple[Any, ...] = (..., *np.ix_(*at))
            return np.ascontiguousarray(block[index])
        out = block.astype(np.float64)
        for axis in range(3):
            along = out.ndim - 3 + axis
            out = self._along(np.moveaxis(out, along, -1), axis, read.lo[axis], box, shape[axis])
            out = np.moveaxis(out, -1, along)
        if block.dtype.kind in "ui":
            out = np.rint(out)
        return np.ascontiguousarray(out.astype(block.dtype))

    def _nearest(self, axis: int, box: Box, n: int) -> Array:
        """The old voxel in which each new voxel's centre lies."""
        centres = (np.arange(box.lo[axis], box.hi[axis]) + 0.5) * self.factor[axis]
        return np.asarray(np.clip(np.floor(np.round(centres, 9)).astype(int), 0, n - 1))

    def _along(self, data: Array, axis: int, first: int, box: Box, n: int) -> Array:
        """`data` (its last axis being `axis`, from old voxel `first` on) made into the new voxels of `box`."""
        factor, index = self.factor[axis], np.arange(box.lo[axis], box.hi[axis])
        whole = round(factor)
        if abs(factor - whole) < 1e-6:
            ends = np.minimum((index + 1) * whole, n)
            parts = [data[..., b - first : e - first].mean(-1) for b, e in zip(index * whole, ends, strict=True)]
            return np.stack(parts, -1)
        position = np.clip((index + 0.5) * factor - 0.5, 0, n - 1)
        low = np.minimum(np.floor(position).astype(int), n - 1)
        part = position - low
        high = np.minimum(low + 1, n - 1)
        return np.asarray(data[..., low - first] * (1 - part) + data[..., high - first] * part)


def resampling_between(old: Sequence[float], new: Sequence[float], dtype: np.dtype[Any]) -> Resampling:
    """From voxels of `old` nm to voxels of `new` nm; ids and masks take the nearest."""
    factor = tuple(snap(n / o) for o, n in zip(old, new, strict=True))
    return Resampling(factor, nearest=kind_of(dtype) != "image")
