"""The second pass over labels made chunk by chunk: one id per object.

An op that joins objects over chunks (`Volume.seams`) shows each chunk's own ids. The first pass goes over all chunks of
a box once: which ids there are, which meet over borders. Their table, old id to final id, makes a volume of final ids,
and whoever writes that volume does the second pass. Knows nothing of writing, nor of where the work runs: what a chunk
tells (`look_at`) can be found in another process than the one that collects it (`Collected`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from chunkloom.engine.demand import UNCLAIMED
from chunkloom.engine.pipeline import Pyramid
from chunkloom.engine.sweep import Each, in_threads
from chunkloom.engine.volume import Array, Volume, make_digest
from chunkloom.errors import ParameterError
from chunkloom.geometry import Box
from chunkloom.kernels.labels import relabel
from chunkloom.kernels.seams import Border, Seams, borders_of

if TYPE_CHECKING:
    from chunkloom.engine.demand import Work

Progress = Callable[[int, int], None]
"""Told how many chunks are done, of how many, counting both passes."""


@dataclass(frozen=True)
class ChunkFound:
    """What the first pass takes note of in one chunk: the ids within the box, and the chunk's borders."""

    ids: NDArray[np.uint64]
    borders: dict[Border, NDArray[np.uint64]]


@dataclass(frozen=True)
class Table:
    """What each id becomes: `old` sorted and unique, `new` from 1 on without gaps."""

    old: NDArray[np.uint64]
    new: NDArray[np.uint64]

    @property
    def count(self) -> int:
        """How many objects there are."""
        return int(self.new.max()) if len(self.new) else 0

    def apply(self, labels: Array) -> NDArray[np.uint64]:
        """`labels` with every id replaced.

        Raises
        ------
        ParameterError
            For an id that the first pass did not see.
        """
        final = np.zeros(labels.shape, np.uint64)
        some = labels != 0
        ids = labels[some].astype(np.uint64, copy=False)
        place = np.searchsorted(self.old, ids)
        known = place < len(self.old)
        known[known] = self.old[place[known]] == ids[known]
        if not known.all():
            raise ParameterError(
                f"id {ids[~known][0]} was not there in the first pass: the data changed meanwhile; run both again"
            )
        final[some] = self.new[place]
        return final


def chunks_of(volume: Volume, box: Box | None = None) -> Box:
    """The indices of the chunks that either pass goes over: those of the finest level that `box` touches."""
    level = volume.levels[0]
    return (box or level.box).intersect(level.box).chunk_range(level.spatial_chunk)


def look_at(volume: Volume, index: tuple[int, ...], box: Box | None = None, work: Work = UNCLAIMED) -> ChunkFound:
    """The first pass over one chunk of `volume`. Only ids within `box` will get a final id."""
    level, seams = volume.levels[0], _seams_of(volume)
    whole = Box.of_chunk(index, level.spatial_chunk).intersect(level.box)
    labels = volume.read_box(0, whole, work).reshape(whole.shape)
    inside = whole if box is None else whole.intersect(box)
    ids = np.unique(labels[inside.index(whole.lo)]).astype(np.uint64)
    return ChunkFound(ids[ids != 0], borders_of(index, labels, seams.connectivity))


class Collected:
    """What the first pass has found in the chunks so far. `add` may be called from any thread."""

    def __init__(self, seams: Seams) -> None:
        self.seams = seams.fresh()
        self._ids: list[NDArray[np.uint64]] = []

    def add(self, found: ChunkFound) -> None:
        self._ids.append(found.ids)
        self.seams.add_borders(found.borders)

    def table(self) -> Table:
        """Final ids, numbered in the order of the objects' smallest ids: the same whatever the order of chunks."""
        none = np.zeros(0, np.uint64)
        old = np.unique(np.concatenate([none, *self._ids]))
        smallest = relabel(old, *self.seams.table())
        _, number = np.unique(smallest, return_inverse=True)
        return Table(old, number.astype(np.uint64) + np.uint64(1))


class Finalized(Volume):
    """The finest level of a volume of labels, with final ids.

    Voxels outside `box` are 0: nothing is known of them.
    """

    kind = "labels"

    def __init__(self, source: Volume, table: Table, box: Box | None = None) -> None:
        level = source.levels[0]
        self.source = source
        self.table = table
        self.box = (box or level.box).intersect(level.box)
        self.levels = (level,)
        self.warnings = source.warnings

    @cached_property
    def stage_digest(self) -> str:
        return make_digest([self.source.stage_digest, "finalized", list(self.box.lo), list(self.box.hi)])

    @property
    def parts(self) -> tuple[Volume, ...]:
        return (self.source,)

    def state(self, level: int, box: Box) -> str:
        return self.source.state(level, box)

    def read_box(self, level: int, box: Box, work: Work) -> Array:
        inside = box.intersect(self.box)
        out = np.zeros((*self.levels[0].channels, *box.shape), np.uint64)
        if not inside.is_empty:
            out[inside.index(box.lo)] = self.table.apply(self.source.read_box(level, inside, work))
        return out


def finalize(
    volume: Volume,
    box: Box | None = None,
    *,
    each: Each | None = None,
    work: Work = UNCLAIMED,
    progress: Progress | None = None,
) -> Volume:
    """`volume` with one id per object: does the first pass now, and whoever reads the result does the second.

    Objects are those of all chunks that `box` touches, whole chunks counted; the ids of those with a voxel in the box
    are 1 … n.

    Parameters
    ----------
    volume
        One whose `seams` are not None.
    box
        Voxels of the finest level, z, y, x; the whole of it when left out. Outside it the result is 0.
    each
        Applies a function to the index of each chunk: `map`, or `in_threads()` (the default).
    work
        Asked now and then whether somebody still waits.
    progress
        Called with the chunks done and twice the number of chunks: the second pass is the other half.

    Returns
    -------
    Volume
        uint64 labels on the grid and chunks of `volume`; with coarser levels (the most frequent id) where it has any.
    """
    collected = Collected(_seams_of(volume))
    chunks = chunks_of(volume, box)

    def look(index: tuple[int, ...]) -> ChunkFound:
        work.check()
        return look_at(volume, index, box, work)

    for done, found in enumerate((each or in_threads())(look, chunks.indices()), 1):
        collected.add(found)
        if progress is not None:
            progress(done, 2 * chunks.size)
    final = Finalized(volume, collected.table(), box)
    return Pyramid(final) if len(volume.levels) > 1 else final


def _seams_of(volume: Volume) -> Seams:
    if volume.seams is None:
        raise ParameterError("this volume has no objects to join over chunks: its ids stand as they are")
    level = volume.levels[0]
    if math.prod(level.channels) != 1:
        raise ParameterError(
            f"objects are joined in labels z, y, x: this volume has {level.channels} channels; choose the one with ids"
        )
    return volume.seams
