"""Going over a volume of synapses or contacts, chunk by chunk, with a segmentation beside it: what touches what.

The volumes may begin at different voxels of one lattice, and cover different parts of it. Knows volumes, not networks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkloom.engine.demand import UNCLAIMED
from chunkloom.engine.pipeline import read_padded
from chunkloom.engine.sweep import Each, in_threads
from chunkloom.engine.volume import Level, Volume
from chunkloom.errors import ParameterError
from chunkloom.geometry import Box
from chunkloom.kernels.touching import Touches, merged_touches, no_touches, shared_faces, touches

if TYPE_CHECKING:
    from chunkloom.engine.demand import Work

Progress = Callable[[int, int], None]
"""Told how many chunks are done, of how many."""

_MOST_WAITING = 1 << 20


def sweep_synapses(
    synapses: Volume,
    cells: Volume,
    sides: Volume | None = None,
    *,
    each: Each | None = None,
    work: Work = UNCLAIMED,
    progress: Progress | None = None,
) -> Touches:
    """Which cells (`b`) every synapse (`a`) touches, with how many voxels, of the finest level; exact for the whole."""
    level = labels_of(synapses, "the synapses")
    of_cells, of_sides = _beside(level, cells, "the segmentation"), _beside(level, sides, "the side volume")

    def look(part: Box) -> Touches:
        work.check()
        objects = synapses.read_box(0, part, work)
        if not objects.any():
            return no_touches()
        inside = _bounds(objects, part)  # what lies around it is small, and read for it alone
        around = Box(tuple(n - 1 for n in inside.lo), tuple(n + 1 for n in inside.hi))
        return touches(objects[inside.index(part.lo)], of_cells(around, work), of_sides(around, work))

    return _swept(level, look, each, progress)


def sweep_contacts(
    contacts: Volume,
    cells: Volume,
    sides: Volume | None = None,
    *,
    each: Each | None = None,
    work: Work = UNCLAIMED,
    progress: Progress | None = None,
) -> Touches:
    """Which cells share faces where `contacts` is not 0, and how many, of the finest level; exact for the whole."""
    level = labels_of(contacts, "the contacts")
    of_cells, of_sides = _beside(level, cells, "the segmentation"), _beside(level, sides, "the side volume")

    def look(part: Box) -> Touches:
        work.check()
        reach = Box(part.lo, tuple(n + 1 for n in part.hi))
        mask = read_padded(contacts, 0, reach, work, "constant")
        if not mask.any():
            return no_touches()
        return shared_faces(of_cells(reach, work), mask, of_sides(reach, work))

    return _swept(level, look, each, progress)


def _swept(level: Level, look: Callable[[Box], Touches], each: Each | None, progress: Progress | None) -> Touches:
    chunks = level.box.chunk_range(level.spatial_chunk)
    parts = (Box.of_chunk(index, level.spatial_chunk).intersect(level.box) for index in chunks.indices())
    waiting: list[Touches] = []
    rows, limit = 0, _MOST_WAITING
    for done, found in enumerate((each or in_threads())(look, parts), 1):
        waiting.append(found)
        rows += len(found.a)
        if rows > limit:
            waiting = [merged_touches(waiting)]
            rows = len(waiting[0].a)
            limit = max(_MOST_WAITING, 2 * rows)
        if progress is not None:
            progress(done, chunks.size)
    return merged_touches(waiting)


def labels_of(volume: Volume, what: str) -> Level:
    """The finest level of a volume of whole numbers z, y, x, or a `ParameterError`."""
    level = volume.level(0)
    if level.channels or level.dtype.kind not in "bui":
        raise ParameterError(
            f"{what}: expected labels z, y, x, found axes {', '.join(level.axes)} and dtype {level.dtype}"
        )
    return level


def _beside(level: Level, volume: Volume | None, what: str) -> Callable[[Box, Work], Any]:
    """What reads another volume at voxels of `level`: 0 outside it, None where there is none."""
    if volume is None:
        return lambda box, work: None
    other = labels_of(volume, what)
    if volume.seams is not None:
        raise ParameterError(f"{what}: its ids are those of chunks; write it with `chunkloom materialize` first")
    size, theirs = np.array(level.voxel_size_nm), np.array(other.voxel_size_nm)
    if (np.abs(size - theirs) > 1e-6 * size).any():
        raise ParameterError(
            f"{what} has voxels of {theirs.tolist()} nm (z, y, x), the other volume of {size.tolist()}: give "
            "volumes of the same voxels (a level of the pyramid, or `--op downsample` on the finer one)"
        )
    shift = (np.array(level.grid.corner_nm) - np.array(other.grid.corner_nm)) / size
    whole = np.rint(shift).astype(int)
    if (np.abs(shift - whole) > 1e-3).any():
        raise ParameterError(
            f"{what} begins at {list(other.grid.corner_nm)} nm (z, y, x), the other volume at "
            f"{list(level.grid.corner_nm)}: their voxels are {np.round(shift - whole, 3).tolist()} of a voxel apart"
        )

    def read(box: Box, work: Work) -> Any:
        moved = Box(*(tuple(int(n + s) for n, s in zip(end, whole, strict=True)) for end in (box.lo, box.hi)))
        return read_padded(volume, 0, moved, work, "constant")

    return read


def _bounds(objects: Any, part: Box) -> Box:
    """The smallest box that holds what is not 0."""
    lo, hi = [], []
    for axis in range(3):
        some = np.flatnonzero(objects.any(axis=tuple(a for a in range(3) if a != axis)))
        lo.append(part.lo[axis] + int(some[0]))
        hi.append(part.lo[axis] + int(some[-1]) + 1)
    return Box(tuple(lo), tuple(hi))
