"""Stored datasets as volumes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from chunkloom.engine.chunked import ChunkedVolume
from chunkloom.engine.sources.array import kind_of
from chunkloom.engine.sources.schemes import open_by_scheme
from chunkloom.engine.sources.states import FileStates, state_of, together
from chunkloom.engine.volume import Array, Kind, Level, Volume, make_digest
from chunkloom.errors import ChunkReadError, FormatError, ParameterError
from chunkloom.geometry import Box

if TYPE_CHECKING:
    from chunkloom.engine.demand import Work
    from chunkloom.io.source import OpenedPyramid, StoredArray


LARGEST_KEPT_CHUNK = 64 << 20
FEW = 64
"""Chunks whose states are looked at one by one."""
MANY = 100_000
"""More chunks than this are not looked at: a far level of a volume of terabytes."""


class DatasetVolume(ChunkedVolume):
    """A stored pyramid. Made with `open_volume`. Its decoded chunks are kept: neighbours ask for them again."""

    def __init__(self, opened: OpenedPyramid, kind: Kind | None = None, voxel_size_nm: Sequence[float] | None = None):
        super().__init__(None)
        self.opened = opened
        self.arrays = opened.levels
        self.levels = tuple(
            Level(
                shape=array.meta.shape,
                dtype=np.dtype(array.meta.dtype),
                chunk_shape=(*array.meta.shape[:-3], *array.meta.chunk_shape[-3:]),
                axes=array.meta.axes,
                grid=array.meta.grid,
            )
            for array in opened.levels
        )
        for array, level in zip(opened.levels, self.levels, strict=True):
            if level.dtype.kind not in "buif":
                raise FormatError(f"{array.meta.path} holds {level.dtype}: expected numbers (bool, integers or floats)")
            if level.box.is_empty:
                raise FormatError(f"{array.meta.path} holds no voxels: its shape is {level.shape}")
        self.kind = kind or kind_of(self.levels[0].dtype)
        self.warnings = opened.warnings
        self._digest = make_digest([array.identity() for array in opened.levels])
        self._states = FileStates() if opened.levels[0].is_local else None
        self._documents = state_of(file for array in opened.levels for file in array.documents())

    @property
    def stage_digest(self) -> str:
        return self._digest

    def stored(self, level: int) -> StoredArray | None:
        return self.arrays[level]

    @property
    def changes(self) -> bool:
        return self._states is not None

    def state(self, level: int, box: Box) -> str:
        if self._states is None:
            return ""
        array = self.arrays[level]
        chunks = box.chunk_range(self.levels[level].spatial_chunk)
        if chunks.size <= FEW:
            # Each has been looked at a moment ago for its neighbour.
            return together([self.chunk_state(level, (z, y, x)) for z, y, x in chunks.indices()])
        if chunks.size > MANY:
            return ""
        return self._states.of((level, chunks.lo, chunks.hi), lambda: array.files(box))

    def chunk_state(self, level: int, index: tuple[int, int, int]) -> str:
        if self._states is None:
            return ""
        array, group = self.arrays[level], (level, index)
        return self._states.seen(group) or self._states.of(group, lambda: array.files(self._box(level, index)))

    def look_again(self) -> None:
        """Look at the files anew at the next question for their state."""
        if self._states is not None:
            self._states.forget()

    def check(self) -> None:
        """Return when the metadata are still those by which chunks are read; looked at now and then.

        Raises
        ------
        ChunkReadError
            When they were written anew since they were read: then chunks may mean something else.
        """
        if self._states is None or self._states.seen("documents"):
            return
        documents = [file for array in self.arrays for file in array.documents()]
        if self._states.of("documents", lambda: documents) != self._documents:
            for file in documents:
                if not os.path.exists(file):
                    raise ChunkReadError(f"{file} is gone: chunks beside it cannot be told from missing ones")
            raise ChunkReadError(
                f"{self.arrays[0].meta.path}: its metadata were written anew since it was opened: open it again "
                "(restart, or replace the volume)"
            )

    def keeps(self, level: int) -> bool:
        return self.levels[level].chunk_nbytes <= LARGEST_KEPT_CHUNK

    def compute(self, level: int, box: Box, work: Work) -> Array:
        work.check()
        self.check()
        return self.arrays[level].read(box)


def open_volume(
    path: str | os.PathLike[str],
    *,
    voxel_size_nm: Sequence[float] | float | None = None,
    match: Literal["floor", "exact", "nearest"] = "floor",
    select: Mapping[str, int] | None = None,
    kind: Kind | None = None,
    dimension_separator: Literal[".", "/"] | None = None,
) -> Volume:
    """Open a stored dataset (or a `synthetic://` one) as a volume.

    Parameters
    ----------
    path
        A folder or URL: a group with a pyramid, or one array.
    voxel_size_nm
        Begin at the level for this voxel size (z, y, x, or one number) instead of the finest.
    match
        Which level that is: "floor" the coarsest no coarser on any axis, "exact", or "nearest".
    select
        A position on each axis that is not wanted whole, such as ``{"c": 1, "t": 0}``.
    kind
        "image", "labels" or "mask"; by the dtype when left out.
    dimension_separator
        Of zarr v2 chunk keys, where the metadata does not say.

    Raises
    ------
    VolumeNotFoundError
        Nothing there, or no volume.
    FormatError
        Metadata that breaks its format's rules.
    """
    text = os.fspath(path)
    elsewhere = open_by_scheme(text)
    if elsewhere is not None:
        volume: Volume = elsewhere
        if select:
            raise ParameterError(f"{text}: select takes positions on axes of stored arrays, not of this source")
    elif text.startswith("synthetic://"):
        from chunkloom.engine.sources.synthetic import open_synthetic

        volume = open_synthetic(text)
        if select:
            raise ParameterError(f"{text} has axes z, y, x alone: there is no {', '.join(select)} to select on")
    else:
        from chunkloom.io.source import open_levels

        volume = DatasetVolume(open_levels(text, select=select, dimension_separator=dimension_separator), kind)
    if voxel_size_nm is None:
        return volume
    from chunkloom.engine.sources.level import LevelView, level_for

    wanted = (float(voxel_size_nm),) * 3 if isinstance(voxel_size_nm, int | float) else tuple(voxel_size_nm)
    return LevelView(volume, level_for(volume, wanted, match))
