"""The spatial index of a collection of points or lines, level by level, as Neuroglancer's annotation format has it.

Each annotation is in one level; there it is listed in every cell it passes through. A coarse level holds a random
share of all, so few that a cell is quick to load and many enough to show where they are; finer levels hold the rest.
Pure arrays: knows no files and no networks. Source of the method: the spatial index of the precomputed annotation
format (Neuroglancer, src/datasource/precomputed/annotation.rst).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
Ints = NDArray[np.int64]

LIMIT = 5000
"""Annotations in a cell, about, of all levels but the last."""

LEVELS = 10
_MOST_LISTED = 50_000_000
_AT_ONCE = 1 << 18


@dataclass(frozen=True, eq=False)
class IndexLevel:
    """One level: a grid of cells from the lower bound of the collection on.

    Attributes
    ----------
    shape : tuple of int
        Cells along each axis.
    size : tuple of float
        Of a cell.
    limit : int
        Most annotations in a cell.
    """

    shape: tuple[int, ...]
    size: tuple[float, ...]
    limit: int
    _cells: Ints
    _ends: Ints
    _members: Ints

    def cell(self, at: tuple[int, ...]) -> Ints | None:
        """The annotations of a cell, by number, in random order; None for a cell outside the grid."""
        if len(at) != len(self.shape) or any(not 0 <= i < n for i, n in zip(at, self.shape, strict=True)):
            return None
        code = int(np.ravel_multi_index(at, self.shape))
        place = int(np.searchsorted(self._cells, code))
        if place == len(self._cells) or self._cells[place] != code:
            return np.zeros(0, np.int64)
        return self._members[self._ends[place] : self._ends[place + 1]]


def spatial_index(
    begin: Points, end: Points | None, lower: Points, upper: Points, limit: int = LIMIT
) -> list[IndexLevel]:
    """The levels, coarse to fine.

    Parameters
    ----------
    begin, end : (N, 3) arrays
        Points; or with `end`, the two ends of lines.
    lower, upper : (3,) arrays
        A box that holds all of them, of a size more than 0 on each axis.
    """
    rng = np.random.default_rng(0)
    left, shape = rng.permutation(len(begin)), np.ones(3, np.int64)
    levels: list[IndexLevel] = []
    while True:
        size = (upper - lower) / shape
        which, cell = _crossed(begin[left], None if end is None else end[left], lower, size, shape)
        _, counts = np.unique(cell, return_counts=True)
        most = int(counts.max()) if len(counts) else 0
        last = most <= limit or len(levels) == LEVELS - 1 or 2 * len(cell) > _MOST_LISTED
        chosen = np.ones(len(left), bool) if last else rng.random(len(left)) < limit / most
        levels.append(_level(left, chosen, which, cell, size, shape))
        if last:
            return levels
        left = left[~chosen]
        shape = np.where(size > size.max() / np.sqrt(2), 2 * shape, shape)


def _level(left: Ints, chosen: NDArray[np.bool_], which: Ints, cell: Ints, size: Points, shape: Ints) -> IndexLevel:
    listed = chosen[which]
    which, cell = which[listed], cell[listed]
    order = np.argsort(cell, kind="stable")  # within a cell: in the random order of `left`
    cells, starts = np.unique(cell[order], return_index=True)
    ends = np.append(starts, len(order)).astype(np.int64)
    limit = int(np.diff(ends).max()) if len(cells) else 0
    return IndexLevel(
        tuple(int(n) for n in shape), tuple(float(n) for n in size), max(1, limit), cells, ends, left[which[order]]
    )


def _crossed(begin: Points, end: Points | None, lower: Points, size: Points, shape: Ints) -> tuple[Ints, Ints]:
    """Pairs (annotation, cell it passes through), annotations in their order."""

    def cell_of(points: Points) -> Ints:
        return np.clip(np.floor((points - lower) / size), 0, shape - 1).astype(np.int64)

    if end is None:
        return np.arange(len(begin)), _code(cell_of(begin), shape)
    found = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for start in range(0, len(begin), _AT_ONCE):
        a, b = begin[start : start + _AT_ONCE], end[start : start + _AT_ONCE]
        which, middles = _stretches(a, b, cell_of(np.minimum(a, b)), cell_of(np.maximum(a, b)), lower, size)
        found.append((which + start, _code(cell_of(middles), shape)))
    which, codes = (np.concatenate(column) for column in zip(*found, strict=True))
    return which, codes


def _stretches(a: Points, b: Points, first: Ints, last: Ints, lower: Points, size: Points) -> tuple[Ints, Points]:
    """The middle of each stretch of a line between two planes of the grid that it crosses one after the other."""
    along = b - a
    lines, at = [np.arange(len(a)), np.arange(len(a))], [np.zeros(len(a)), np.ones(len(a))]
    for axis in range(3):
        count = last[:, axis] - first[:, axis]
        which = np.repeat(np.arange(len(a)), count)
        plane = first[which, axis] + 1 + np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        lines.append(which)
        at.append((lower[axis] + plane * size[axis] - a[which, axis]) / along[which, axis])
    line, place = np.concatenate(lines), np.clip(np.concatenate(at), 0, 1)
    order = np.lexsort((place, line))
    line, place = line[order], place[order]
    real = (line[1:] == line[:-1]) & (place[1:] - place[:-1] > 1e-12)
    which = line[1:][real]
    middle = (place[1:][real] + place[:-1][real]) / 2
    return which, a[which] + middle[:, None] * along[which]


def _code(cells: Ints, shape: Ints) -> Ints:
    code: Any = (cells[:, 0] * shape[1] + cells[:, 1]) * shape[2] + cells[:, 2]
    return np.asarray(code, np.int64)
