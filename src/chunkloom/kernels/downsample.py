"""Coarser versions of a block: means for images, modes for labels.

Both cut the block's last three axes into boxes of `factors` voxels, beginning at the block's first voxel, and
give one voxel a box. The last box of an axis may be cut short; it then counts only the voxels that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Index = tuple[Any, ...]


def mean(block: Array, factors: Sequence[int]) -> Array:
    """Mean of each box, in the block's dtype; integers are exact and rounded half to even."""
    return _per_box(block, factors, _mean)


def mode(block: Array, factors: Sequence[int]) -> Array:
    """Most frequent value of each box, in the block's dtype; of equally frequent ones the smallest."""
    return _per_box(block, factors, _mode)


def _per_box(block: Array, factors: Sequence[int], reduce: Callable[[list[Array]], Array]) -> Array:
    """Apply `reduce` to the whole boxes, and to those that the ends cut short, one kind at a time."""
    factors = [int(f) for f in factors]
    if len(factors) != 3 or min(factors) < 1:
        raise ValueError(f"factors must be three whole numbers of at least 1, got {factors}")
    spatial = block.shape[-3:]
    coarse = [-(-n // f) for n, f in zip(spatial, factors, strict=True)]
    out = np.empty((*block.shape[:-3], *coarse), block.dtype)
    for parts in product(*(_parts(n, f) for n, f in zip(spatial, factors, strict=True))):
        source: Index = (..., *(part.voxels for part in parts))
        target: Index = (..., *(part.boxes for part in parts))
        out[target] = reduce(_members(block[source], [part.edge for part in parts]))
    return out


class _Part(NamedTuple):
    """A stretch of an axis whose boxes all have one edge."""

    voxels: slice
    boxes: slice
    edge: int


def _parts(length: int, factor: int) -> list[_Part]:
    """The stretch of whole boxes along an axis, and that of the one that is cut short."""
    count = length // factor
    whole = count * factor
    parts = [_Part(slice(0, whole), slice(0, count), factor)] if whole else []
    if length > whole:
        parts.append(_Part(slice(whole, length), slice(count, count + 1), length - whole))
    return parts


def _members(block: Array, edges: Sequence[int]) -> list[Array]:
    """One array for each place within a box: the voxels at that place of all boxes; views."""
    members = []
    for starts in product(*(range(edge) for edge in edges)):
        every: Index = (..., *(slice(start, None, edge) for start, edge in zip(starts, edges, strict=True)))
        members.append(block[every])
    return members


def _mean(members: list[Array]) -> Array:
    dtype, count = members[0].dtype, len(members)
    if dtype.kind == "f":
        total = _sum(members, np.float64 if dtype.itemsize > 4 else np.float32)
        return np.asarray(total / count).astype(dtype)
    if dtype.kind == "b":
        return _mean([member.view(np.uint8) for member in members]).view(np.bool_)
    wide: Any = np.uint64 if dtype.kind == "u" else np.int64
    if dtype.itemsize < 8:
        whole, rest = np.divmod(_sum(members, wide), wide(count))
    else:
        # A sum of 64-bit values would not fit into 64 bits: sum quotients and remainders by themselves.
        split = [np.divmod(member, wide(count)) for member in members]
        carried, rest = np.divmod(_sum([remainder for _, remainder in split], wide), wide(count))
        whole = _sum([quotient for quotient, _ in split], wide) + carried
    twice = rest * wide(2)
    up = (twice > count) | ((twice == count) & (whole % wide(2) == 1))
    return np.asarray(whole + up.astype(wide)).astype(dtype)


def _sum(arrays: list[Array], dtype: Any) -> Array:
    total = arrays[0].astype(dtype)
    for array in arrays[1:]:
        total += array
    return total


def _mode(members: list[Array]) -> Array:
    ordered = np.sort(np.stack(members), axis=0)
    best = ordered[0].copy()
    run = np.ones(best.shape, np.int32)
    longest = run.copy()
    for before, value in pairwise(ordered):
        run = np.where(value == before, run + 1, 1)
        longer = run > longest
        np.copyto(best, value, where=longer)
        np.copyto(longest, run, where=longer)
    return np.asarray(best)
