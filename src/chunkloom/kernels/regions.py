"""Size, place and extent of every object in a block of labels, and the same of several blocks put together.

Counts and sums are whole numbers, so that blocks put together in any order equal the whole, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Regions(NamedTuple):
    """Objects, sorted by id; n rows.

    `sums` are the voxels' indices along z, y, x added up, `begin` and `end` the half-open extent; (n, 3) int64 each.
    """

    ids: NDArray[np.uint64]
    voxels: NDArray[np.int64]
    sums: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]


def no_regions() -> Regions:
    """Of nothing."""
    empty = np.zeros((0, 3), np.int64)
    return Regions(np.zeros(0, np.uint64), np.zeros(0, np.int64), empty, empty, empty)


def regions(labels: NDArray[Any], corner: Sequence[int] = (0, 0, 0)) -> Regions:
    """Every id but 0 of labels `(z, y, x)` whose first voxel is `corner`.

    Works on runs of equal ids along x, of which there are far fewer than voxels.
    """
    if labels.size == 0:
        return no_regions()
    flat = np.ascontiguousarray(labels).reshape(-1)
    begins = np.empty(flat.shape, np.bool_)
    begins[1:] = flat[1:] != flat[:-1]
    begins[:: labels.shape[2]] = True
    first = np.flatnonzero(begins)
    length = np.diff(first, append=flat.size)
    some = flat[first] != 0
    first, length = first[some], length[some]
    row, x = np.divmod(first, labels.shape[2])
    z, y = np.divmod(row, labels.shape[1])
    z, y, x = (place + int(c) for place, c in zip((z, y, x), corner, strict=True))
    sums = np.stack([z * length, y * length, x * length + length * (length - 1) // 2], axis=1)
    begin = np.stack([z, y, x], axis=1)
    end = np.stack([z + 1, y + 1, x + length], axis=1)
    return _gathered(Regions(flat[first].astype(np.uint64), length, sums, begin, end))


def merged(parts: Sequence[Regions]) -> Regions:
    """The objects of several blocks: those with the same id are one."""
    if not parts:
        return no_regions()
    return _gathered(Regions(*(np.concatenate(column) for column in zip(*parts, strict=True))))


def _gathered(rows: Regions) -> Regions:
    """One row for each id."""
    if len(rows.ids) == 0:
        return no_regions()
    order = np.argsort(rows.ids, kind="stable")
    ids = rows.ids[order]
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    return Regions(
        ids[starts],
        np.add.reduceat(rows.voxels[order], starts),
        np.add.reduceat(rows.sums[order], starts, axis=0),
        np.minimum.reduceat(rows.begin[order], starts, axis=0),
        np.maximum.reduceat(rows.end[order], starts, axis=0),
    )
