"""`ArrayMeta`: one record for an array of any format, and the functions that read it.

Reads metadata only, never voxels.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chunkloom.geometry import Grid
from chunkloom.io.layout import Format
from chunkloom.io.placement import SPACE


@dataclass(frozen=True)
class ArrayMeta:
    """An array and its place in the world.

    Attributes
    ----------
    path : where it is; can be opened again.
    shape, chunk_shape, axes : one entry per axis, in stored order (N5 and precomputed turned to z, y, x).
    dtype : native byte order.
    voxel_size_nm, corner_nm : of the space axes, in z, y, x order; the corner is the lower corner of voxel 0.
    codec : how chunks are encoded, for people.
    """

    path: str
    format: Format
    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    axes: tuple[str, ...]
    voxel_size_nm: tuple[float, float, float]
    corner_nm: tuple[float, float, float]
    codec: str
    warnings: tuple[str, ...] = field(default=())

    @property
    def grid(self) -> Grid:
        return Grid(self.voxel_size_nm, self.corner_nm)

    @property
    def spatial_axes(self) -> tuple[str, ...]:
        """The space axes in stored order."""
        return tuple(axis for axis in self.axes if axis in SPACE)

    @property
    def spatial_shape(self) -> tuple[int, ...]:
        """Voxels along z, y, x."""
        return tuple(self.shape[self.axes.index(axis)] for axis in SPACE)

    @property
    def spatial_chunk_shape(self) -> tuple[int, ...]:
        """Chunk size along z, y, x."""
        return tuple(self.chunk_shape[self.axes.index(axis)] for axis in SPACE)


def read_array_meta(path: str | os.PathLike[str]) -> ArrayMeta:
    """The metadata of the array at `path`; of a pyramid, of its finest level.

    Raises
    ------
    VolumeNotFoundError
        When nothing is there, or no volume.
    FormatError
        When the metadata breaks the format's rules.
    AccessError, ChunkReadError
        When the place refuses, or does not answer.
    """
    return list_levels(path)[0]


def list_levels(path: str | os.PathLike[str]) -> tuple[ArrayMeta, ...]:
    """The metadata of all levels at `path`, finest first; a single array gives one. Errors as `read_array_meta`."""
    from chunkloom.io.discover import find_pyramid
    from chunkloom.io.paths import parse_path

    return tuple(level.meta for level in find_pyramid(parse_path(path)).levels)
