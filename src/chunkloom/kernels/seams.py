"""Objects that continue in the next chunk, joined as chunks come: their borders, and which of them have met.

It knows chunk indices and arrays of ids, not where chunks come from nor who wants to know what belongs together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chunkloom.kernels.merge import Equivalences, erode_face, overlapping_pairs

Index = tuple[int, ...]
Plane = NDArray[np.uint64]
Listener = Callable[[], None]


class Border(NamedTuple):
    """The voxels of a chunk that touch the neighbour at `direction`: -1, 0 or 1 on each axis, not all 0.

    One direction other than 0 is a face, two an edge, three a corner.
    """

    chunk: Index
    direction: Index

    def opposite(self) -> Border:
        """The border of the neighbouring chunk that touches this one."""
        chunk = tuple(n + step for n, step in zip(self.chunk, self.direction, strict=True))
        return Border(chunk, tuple(-step for step in self.direction))


def borders_of(chunk: Index, labels: NDArray[Any], connectivity: int = 1) -> dict[Border, Plane]:
    """The outermost voxels of a chunk of labels `(z, y, x)`, as copies in uint64, without the axes they end.

    `connectivity` 1 gives the six faces (two axes each), 2 the twelve edges too (one axis), 3 the eight corners
    (none).
    """
    place = {-1: 0, 0: slice(None), 1: -1}
    borders = {}
    for direction in product((-1, 0, 1), repeat=labels.ndim):
        if 1 <= _distance(direction) <= connectivity:
            ends: Any = tuple(place[step] for step in direction)
            borders[Border(tuple(chunk), direction)] = np.array(labels[ends], np.uint64)
    return borders


def touching_pairs(
    border: Border, a: Plane, b: Plane, connectivity: int = 1, min_voxels: int = 1, min_fraction: float = 0.0
) -> NDArray[np.uint64]:
    """Pairs of ids that are one object over a border: `a` of its own chunk, `b` of the opposite one.

    Where one chunk is cut short, what both have counts. With `connectivity` above 1 voxels that touch over an edge
    (2) or a corner (3) count too.
    """
    common = tuple(slice(min(m, n)) for m, n in zip(a.shape, b.shape, strict=True))
    a, b = a[common], b[common]
    reach = connectivity - _distance(border.direction)
    if reach == 0:
        return overlapping_pairs(a, b, min_voxels, min_fraction)
    shifts = [shift for shift in product((-1, 0, 1), repeat=a.ndim) if _distance(shift) <= reach]
    ours = [a[tuple(_SHIFTED[step] for step in shift)].reshape(-1) for shift in shifts]
    theirs = [b[tuple(_SHIFTED[-step] for step in shift)].reshape(-1) for shift in shifts]
    return overlapping_pairs(np.concatenate(ours), np.concatenate(theirs), min_voxels, min_fraction)


_SHIFTED = {-1: slice(None, -1), 0: slice(None), 1: slice(1, None)}


def _distance(direction: Sequence[int]) -> int:
    """1 for neighbours over a face, 2 over an edge, 3 over a corner."""
    return sum(step != 0 for step in direction)


class Seams:
    """Which objects continue over the borders of chunks, found as these come: in any order, from any thread.

    Ids must be unique over all chunks. A chunk that comes again changes nothing. Each border is kept until its
    opposite comes.

    Parameters
    ----------
    connectivity : int
        1 joins over faces, 2 over edges too, 3 over corners too.
    min_voxels : int
        Least number of voxels in which two objects touch over a face.
    min_fraction : float
        Least share, 0 to 1, of the smaller one's voxels on the face that these are.
    erosion : int
        How often objects are eroded on a face before they are compared.

    Raises
    ------
    ValueError
        Least numbers or an erosion with a connectivity above 1: they are of faces only.
    """

    def __init__(self, connectivity: int = 1, min_voxels: int = 1, min_fraction: float = 0.0, erosion: int = 0) -> None:
        if connectivity not in (1, 2, 3):
            raise ValueError(f"connectivity is {connectivity}: expected 1 (faces), 2 (edges too) or 3 (corners too)")
        if min_voxels < 1:
            raise ValueError(f"min_voxels is {min_voxels}: expected at least 1")
        if not 0 <= min_fraction <= 1:
            raise ValueError(f"min_fraction is {min_fraction}: expected 0 to 1")
        if connectivity > 1 and (min_voxels > 1 or min_fraction > 0 or erosion > 0):
            raise ValueError(
                f"min_voxels {min_voxels}, min_fraction {min_fraction} and erosion {erosion} are of faces: "
                f"they need connectivity 1, not {connectivity}"
            )
        self.connectivity, self.min_voxels, self.min_fraction = connectivity, min_voxels, min_fraction
        self.erosion = erosion
        self._lock = threading.Lock()
        self._waiting: dict[Border, Plane] = {}
        self._seen: set[Index] = set()
        self._equivalences = Equivalences()
        self._listeners: list[Listener] = []

    def fresh(self) -> Seams:
        """Seams of the same rule that have seen no chunk."""
        return Seams(self.connectivity, self.min_voxels, self.min_fraction, self.erosion)

    def add(self, chunk: Sequence[int], labels: NDArray[Any]) -> int:
        """Take note of a chunk of labels `(z, y, x)`; how many groups of ids that joined."""
        if tuple(chunk) in self._seen:
            return 0
        return self.add_borders(borders_of(tuple(int(n) for n in chunk), labels, self.connectivity))

    def add_borders(self, borders: Mapping[Border, Plane]) -> int:
        """As `add`, for all borders of a chunk as `borders_of` has cut them out, perhaps in another process."""
        if self.erosion:
            borders = {border: erode_face(plane, self.erosion) for border, plane in borders.items()}
        with self._lock:
            new = {border: plane for border, plane in borders.items() if border.chunk not in self._seen}
            self._seen.update(border.chunk for border in new)
            joined = sum(self._meet(border, plane) for border, plane in new.items())
            listeners = list(self._listeners) if joined else []
        for listener in listeners:
            listener()
        return joined

    def _meet(self, border: Border, plane: Plane) -> int:
        other = self._waiting.pop(border.opposite(), None)
        if other is None:
            self._waiting[border] = plane
            return 0
        pairs = touching_pairs(border, plane, other, self.connectivity, self.min_voxels, self.min_fraction)
        return self._equivalences.unite_pairs(pairs)

    def groups(self) -> list[list[int]]:
        """Ids that are one object, of those seen so far: groups of more than one id, sorted, by their smallest."""
        with self._lock:
            return self._equivalences.groups()

    def table(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Sorted ids and what each becomes: arguments of `chunkloom.kernels.labels.relabel`."""
        with self._lock:
            return self._equivalences.table()

    def listen(self, listener: Listener) -> Listener:
        """Call `listener` whenever a chunk joins objects, from that chunk's thread: it must return at once.

        What is returned ends that when it is called.
        """
        with self._lock:
            self._listeners.append(listener)

        def end() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return end
