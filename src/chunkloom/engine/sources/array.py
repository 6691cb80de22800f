"""Arrays as volumes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from chunkloom.engine.volume import SPATIAL, Array, Kind, Level, Volume
from chunkloom.errors import ParameterError
from chunkloom.geometry import Box, Grid

if TYPE_CHECKING:
    from chunkloom.engine.demand import Work


class ArrayVolume(Volume):
    """An array in memory as a volume of one level. Made with `array_volume`."""

    def __init__(self, array: Array, level: Level, kind: Kind) -> None:
        self._array = array
        self.levels = (level,)
        self.kind = kind

    @cached_property
    def stage_digest(self) -> str:
        digest = hashlib.blake2b(f"{self._array.dtype}{self._array.shape}".encode(), digest_size=8)
        digest.update(np.ascontiguousarray(self._array).view(np.uint8).data)
        return digest.hexdigest()

    def read_box(self, level: int, box: Box, work: Work) -> Array:
        found: Array = self._array[box.index()]
        return found


def array_volume(
    array: Array,
    *,
    voxel_size_nm: Sequence[float] = (1, 1, 1),
    corner_nm: Sequence[float] = (0, 0, 0),
    axes: Sequence[str] | None = None,
    kind: Kind | None = None,
    chunk: Sequence[int] = (64, 64, 64),
) -> Volume:
    """An array as a volume.

    Parameters
    ----------
    array
        Three spatial axes, and channel axes. Copied, so that later changes to it do not show.
    voxel_size_nm
        Of z, y, x.
    corner_nm
        Lower corner of voxel 0, z, y, x.
    axes
        A name for each axis of the array, "z", "y" and "x" among them. Default: channel axes first, then z, y, x.
    kind
        "image", "labels" or "mask". Default: labels for 32-bit and larger integers, mask for bool, else image.
    chunk
        Chunk shape z, y, x.

    Raises
    ------
    ParameterError
        Fewer than three axes, or names that do not fit.
    """
    array = np.asarray(array)
    if array.ndim < 3 or array.dtype.kind not in "buif":
        raise ParameterError(
            f"array of shape {array.shape} and dtype {array.dtype}: expected z, y, x (channels first) of numbers"
        )
    names = tuple(axes) if axes is not None else (*_channel_names(array.ndim - 3), *SPATIAL)
    if len(names) != array.ndim or len(set(names)) != len(names) or not set(SPATIAL) <= set(names):
        raise ParameterError(f"axes {names} do not name the {array.ndim} axes of the array, z, y and x among them")
    channels = [name for name in names if name not in SPATIAL]
    order = [names.index(name) for name in (*channels, *SPATIAL)]
    ordered = np.array(array.transpose(order), dtype=array.dtype.newbyteorder("="), order="C")
    ordered.setflags(write=False)
    level = Level(
        shape=ordered.shape,
        dtype=ordered.dtype,
        chunk_shape=(*ordered.shape[:-3], *(int(n) for n in chunk)),
        axes=(*channels, *SPATIAL),
        grid=Grid(tuple(voxel_size_nm), tuple(corner_nm)),
    )
    return ArrayVolume(ordered, level, kind or kind_of(ordered.dtype))


def kind_of(dtype: np.dtype[np.generic]) -> Kind:
    """What a dtype says of the data: bool is a mask, large integers are ids, the rest is an image."""
    if dtype.kind == "b":
        return "mask"
    return "labels" if dtype.kind in "iu" and dtype.itemsize >= 4 else "image"


def _channel_names(count: int) -> tuple[str, ...]:
    return ("c",) if count == 1 else tuple(f"c{i}" for i in range(count))
