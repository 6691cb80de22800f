"""The seeds that the cells of synthetic tissue grow from, and which of them make one cell.

One seed lies in every place of a grid, jittered. Some seeds are roots; most others join a neighbour that is one, and
all that join a root make one cell with it. A seed depends on its place alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chunkloom.engine.sources.lattice import mix, subkey, unit, words_at, words_on
from chunkloom.engine.volume import Array

SPACING = 28
"""Edge of the seeds' grid, finest voxels."""
QUARTER = 4
"""Seeds lie at whole numbers of 1/4 finest voxel."""

_ROOTS = 0.36  # The part of seeds that are roots.
_WEIGHTS = 300.0  # Weights run from minus to plus this, finest voxels squared.
_STEPS = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]])


@dataclass(frozen=True)
class Seeds:
    """Every seed of a box of the seeds' grid, in C order.

    `place` is the grid place of each (3, n); `position` in 1/4 finest voxel (3, n); `weight` in finest voxels
    squared; `root` the index of the seed each is joined to, its own for a root. `words` are random. The outermost
    seeds are there to be roots, and are not joined to any themselves.
    """

    lo: tuple[int, int, int]
    shape: tuple[int, int, int]
    place: Array
    position: Array
    weight: Array
    root: Array
    words: Array

    @property
    def ids(self) -> Array:
        """uint64 id of the cell of each seed; never 0."""
        return _ids_of(list(self.place[:, self.root]))

    @property
    def strides(self) -> tuple[int, int, int]:
        return (self.shape[1] * self.shape[2], self.shape[2], 1)

    def window(self, edge: int) -> Array:
        """Index steps from a seed to all of a cube of `edge` grid places that begins with it."""
        z, y, x = (np.arange(edge, dtype=np.int32) * stride for stride in self.strides)
        return np.asarray((z[:, None, None] + y[:, None] + x).ravel())

    @property
    def places(self) -> Array:
        """Positions in finest voxels, float32 (3, n)."""
        return np.asarray(self.position.astype(np.float32) * np.float32(1 / QUARTER))


def make_seeds(key: int, lo: Sequence[int], hi: Sequence[int]) -> Seeds:
    """The seeds of a box of grid places, and one more on each side."""
    first = (lo[0] - 1, lo[1] - 1, lo[2] - 1)
    shape = (hi[0] - lo[0] + 2, hi[1] - lo[1] + 2, hi[2] - lo[2] + 2)
    place = np.indices(shape).reshape(3, -1) + np.array(first)[:, None]
    words = words_on(subkey(key, 1), first, [a + n for a, n in zip(first, shape, strict=True)]).ravel()
    position = np.empty(place.shape, np.int32)
    edge = SPACING * QUARTER
    jitter = words
    for axis in range(3):
        jitter = mix(jitter + np.uint32(axis + 1))
        position[axis] = place[axis] * edge + edge // 10 + (jitter % np.uint32(edge * 4 // 5)).astype(np.int32)
    spread = unit(mix(words ^ np.uint32(0x5EED)))
    weight = np.rint((spread * 2 - 1) * np.float32(_WEIGHTS)).astype(np.float32)
    return Seeds(first, shape, place, position, weight, _roots(words, shape), words)


def _roots(words: Array, shape: tuple[int, int, int]) -> Array:
    is_root, first, second = _joins(words)
    root = np.arange(len(words), dtype=np.int32)
    inner = np.zeros(shape, bool)
    inner[1:-1, 1:-1, 1:-1] = True
    joining = np.flatnonzero(inner.ravel() & ~is_root)
    steps = _STEPS @ np.array([shape[1] * shape[2], shape[2], 1])
    a, b = joining + steps[first[joining]], joining + steps[second[joining]]
    root[joining] = np.where(is_root[a], a, np.where(is_root[b], b, joining))
    return root


def _joins(words: Array) -> tuple[Array, Array, Array]:
    """Whether a seed is a root, and the two neighbours (of `_STEPS`) it would join else.

    A seed that is no root joins the first of the two that is, and stands alone where neither is.
    """
    draw = mix(words + np.uint32(77))
    return (draw & 0xFFFF) < int(_ROOTS * 0x10000), (draw >> 16 & 0xFF) % 6, (draw >> 24) % 6


def _ids_of(place: Sequence[Array]) -> Array:
    """uint64 id of the cell of a root: its grid place, 16 bits an axis; never 0."""
    z, y, x = ((p + 16).astype(np.uint64) for p in place)
    return np.asarray(z << 32 | y << 16 | x)


def far_ids(key: int, at: Sequence[Array]) -> Array:
    """An id for voxels larger than cells: of the cell of the seed whose grid place holds the centre of the voxel.

    The cell lies in the voxel or at its side. Seeds are made one by one here: a box of such voxels holds too many.
    """
    places = np.meshgrid(*(np.floor(places / SPACING).astype(np.int64) for places in at), indexing="ij")
    place = np.stack([p.ravel() for p in places])
    seeds = subkey(key, 1)
    is_root, *steps = _joins(words_at(seeds, *place))
    done = is_root.copy()
    root = place.copy()
    for step in steps:
        there = place + _STEPS[step].T
        joins = ~done & _joins(words_at(seeds, *there))[0]
        root[:, joins] = there[:, joins]
        done |= joins
    return _ids_of(list(root)).reshape(places[0].shape)
