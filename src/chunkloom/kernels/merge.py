"""Objects that belong together: which pairs overlap enough, union-find, equivalences.

One implementation serves every place that joins objects over chunk borders (`chunkloom.kernels.seams` knows those).
It knows planes and ids, not where they come from nor where equivalences go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.uint64]


def erode_face(plane: Plane, iterations: int) -> Plane:
    """Ids kept only where their four neighbours have the same id, `iterations` times.

    What lies beyond the edge of the face counts as more of the same, so that an object which runs on into the
    next chunk is not eroded there.
    """
    for _ in range(iterations):
        padded = np.pad(plane, 1, mode="edge")
        centre = padded[1:-1, 1:-1]
        neighbours = (padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:])
        same = np.logical_and.reduce([centre == neighbour for neighbour in neighbours])
        plane = np.where(same, centre, np.uint64(0))
    return plane


def overlapping_pairs(
    a: NDArray[Any], b: NDArray[Any], min_voxels: int = 1, min_fraction: float = 0.0
) -> NDArray[np.uint64]:
    """Pairs of ids at equal positions of two label arrays that count as one object.

    Parameters
    ----------
    a, b : arrays of one shape
        Touching faces, or two labellings of the same voxels. 0 belongs to nothing.
    min_voxels : int
        Least number of positions the two ids share.
    min_fraction : float
        Least share of the smaller of the two (within these arrays) that these positions are.

    Returns
    -------
    (n, 2) uint64 array
        Sorted pairs, one from `a` and one from `b`.
    """
    if a.shape != b.shape:
        raise ValueError(f"label arrays that touch must have one shape, got {a.shape} and {b.shape}")
    both = (a != 0) & (b != 0)
    touching = np.stack([a[both], b[both]], axis=1).astype(np.uint64)
    pairs, counts = np.unique(touching, axis=0, return_counts=True)
    keep = counts >= min_voxels
    if min_fraction > 0:
        smaller = np.minimum(_sizes(a, pairs[:, 0]), _sizes(b, pairs[:, 1]))
        keep &= counts >= min_fraction * smaller
    return np.asarray(pairs[keep])


def _sizes(labels: NDArray[Any], ids: NDArray[np.uint64]) -> NDArray[np.int64]:
    known, counts = np.unique(labels, return_counts=True)
    return np.asarray(counts[np.searchsorted(known.astype(np.uint64), ids)])


class Equivalences:
    """Which ids are one object: union-find over 64-bit ids. The smallest id stands for its group.

    Not locked; whoever shares one between threads locks around it.
    """

    def __init__(self, pairs: Iterable[Iterable[int]] = ()) -> None:
        self._parent: dict[int, int] = {}
        self.unite_pairs(pairs)

    def find(self, identifier: int) -> int:
        """The smallest id of the group; an id never seen is its own group."""
        parent = self._parent
        root = identifier
        while (above := parent.get(root, root)) != root:
            root = above
        while identifier != root:
            parent[identifier], identifier = root, parent[identifier]
        return root

    def unite(self, a: int, b: int) -> bool:
        """Make two ids one object. False if they were one already."""
        first, second = self.find(a), self.find(b)
        if first == second:
            return False
        low, high = min(first, second), max(first, second)
        self._parent[low] = low
        self._parent[high] = low
        return True

    def unite_pairs(self, pairs: Iterable[Iterable[int]]) -> int:
        """Unite every pair; the number of groups that this joined."""
        return sum(self.unite(int(a), int(b)) for a, b in pairs)

    def groups(self) -> list[list[int]]:
        """All groups of more than one id, each sorted, in the order of their smallest ids."""
        members: dict[int, list[int]] = {}
        for identifier in self._parent:
            members.setdefault(self.find(identifier), []).append(identifier)
        return [sorted(members[root]) for root in sorted(members)]

    def table(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Sorted ids and what each becomes: arguments of `chunkloom.kernels.labels.relabel`."""
        old = sorted(self._parent)
        return np.array(old, np.uint64), np.array([self.find(identifier) for identifier in old], np.uint64)

    def __len__(self) -> int:
        """Number of ids that belong to a group."""
        return len(self._parent)
