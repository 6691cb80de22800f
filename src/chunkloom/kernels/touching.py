"""Which objects of one labelling lie in or next to those of another, and which objects share faces inside a mask.

Counts are whole numbers of voxels or faces, so that blocks put together in any order equal the whole, exactly. Knows
arrays, not what the objects are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Ids = NDArray[np.uint64]

_STEPS = ((1, 1, 1), (0, 1, 1), (2, 1, 1), (1, 0, 1), (1, 2, 1), (1, 1, 0), (1, 1, 2))


class Touches(NamedTuple):
    """Pairs of ids, sorted, each once; n rows.

    `counts` is (n, 3): how many voxels of object `a` lie in or border on `b` (or how many faces `a` and `b` share);
    how many of these say side 1, and how many side 2.
    """

    a: Ids
    b: Ids
    counts: Ints


def no_touches() -> Touches:
    """Of nothing."""
    return Touches(np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros((0, 3), np.int64))


def touches(objects: NDArray[Any], others: NDArray[Any], sides: NDArray[Any] | None = None) -> Touches:
    """Which `others` the voxels of `objects` lie in, or border on over a face.

    Parameters
    ----------
    objects : (z, y, x) array of ids
        0 is nothing.
    others : (z + 2, y + 2, x + 2) array of ids
        The same place with a voxel more around it.
    sides : array like `others`, optional
        1 and 2 name a side, everything else none. A voxel of `others` says the side it is on; where it says none and
        the voxel of `objects` beside it lies in no other, that one says it.

    Returns
    -------
    Touches
        `a` of `objects`, `b` of `others`. A voxel counts once for each other it touches, and once for each side of it.
        Every object has a row with `b` 0, too, that counts all its voxels.
    """
    where = np.nonzero(objects)
    if len(where[0]) == 0:
        return no_touches()
    a = objects[where].astype(np.uint64)
    near = np.stack([others[_at(where, step)] for step in _STEPS], axis=1).astype(np.uint64)
    found = [(a, near, 0)]
    if sides is not None:
        said = np.stack([sides[_at(where, step)] for step in _STEPS], axis=1)
        own = np.where(near[:, :1] == 0, said[:, :1], 0)
        said = np.where((said == 1) | (said == 2), said, own)
        found += [(a, np.where(said == side, near, 0).astype(np.uint64), side) for side in (1, 2)]
    rows = [(a, np.zeros_like(a), np.tile(np.array([[1, 0, 0]]), (len(a), 1))), *(_each_once(*each) for each in found)]
    return _gathered(*(np.concatenate(column) for column in zip(*rows, strict=True)))


def shared_faces(labels: NDArray[Any], mask: NDArray[Any], sides: NDArray[Any] | None = None) -> Touches:
    """Which ids share faces, where `mask` is not 0 on either side of the face.

    Parameters
    ----------
    labels, mask, sides : (z + 1, y + 1, x + 1) arrays
        A block with one voxel more at each upper end, so that every face is in one block.

    Returns
    -------
    Touches
        `a` less than `b`. Side 1 counts faces where `a` is on side 1 and `b` on side 2, side 2 the reverse.
    """
    here = (slice(None, -1),) * 3
    rows = []
    for axis in range(3):
        next_: Any = tuple(slice(1, None) if i == axis else slice(None, -1) for i in range(3))
        u, v = labels[here], labels[next_]
        some = (u != v) & (u != 0) & (v != 0) & ((mask[here] != 0) | (mask[next_] != 0))
        p, q = u[some].astype(np.uint64), v[some].astype(np.uint64)
        counts = np.zeros((len(p), 3), np.int64)
        counts[:, 0] = 1
        if sides is not None:
            s, t = sides[here][some], sides[next_][some]
            forward, back = (s == 1) & (t == 2), (s == 2) & (t == 1)
            counts[:, 1] = np.where(p < q, forward, back)
            counts[:, 2] = np.where(p < q, back, forward)
        rows.append((np.minimum(p, q), np.maximum(p, q), counts))
    return _gathered(*(np.concatenate(column) for column in zip(*rows, strict=True)))


def merged_touches(parts: Sequence[Touches]) -> Touches:
    """Those of several blocks: the same pair is one."""
    if not parts:
        return no_touches()
    return _gathered(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _at(where: tuple[Any, ...], step: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(w + s for w, s in zip(where, step, strict=True))


def _each_once(a: Ids, near: Ids, side: int) -> tuple[Ids, Ids, Ints]:
    """A row for each voxel and each different id next to it."""
    near = np.sort(near, axis=1)
    first = near != 0
    first[:, 1:] &= near[:, 1:] != near[:, :-1]
    voxel, place = np.nonzero(first)
    counts = np.zeros((len(voxel), 3), np.int64)
    counts[:, side] = 1
    return a[voxel], near[voxel, place], counts


def _gathered(a: Ids, b: Ids, counts: Ints) -> Touches:
    if len(a) == 0:
        return no_touches()
    order = np.lexsort((b, a))
    a, b = a[order], b[order]
    starts = np.flatnonzero(np.concatenate([[True], (a[1:] != a[:-1]) | (b[1:] != b[:-1])]))
    return Touches(a[starts], b[starts], np.add.reduceat(counts[order], starts, axis=0))
