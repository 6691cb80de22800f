"""Several volumes on one grid as the channels of one volume."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np

from chunkloom.engine.volume import Array, Level, Volume, joined_states, make_digest
from chunkloom.errors import ParameterError
from chunkloom.geometry import Box, same_voxel_size

if TYPE_CHECKING:
    from chunkloom.engine.demand import Work


class Stack(Volume):
    """Volumes one after the other along the first channel axis.

    A volume without a channel axis is one channel; one with a channel axis gives all of its own. It has as many levels
    as all of them have on the same grids.

    Parameters
    ----------
    volumes
        Of one dtype, and of one shape, voxel size and corner at the finest level.

    Raises
    ------
    ParameterError
        None at all; several channel axes; another dtype or grid than the first one's.
    """

    def __init__(self, volumes: Sequence[Volume]) -> None:
        if not volumes:
            raise ParameterError("a stack needs at least one volume")
        self.volumes = tuple(volumes)
        first = volumes[0].levels[0]
        for number, volume in enumerate(volumes):
            level = volume.levels[0]
            if len(level.channels) > 1:
                raise ParameterError(f"volume {number} of a stack has axes {level.axes}: expected one channel axis")
            if level.dtype != first.dtype:
                raise ParameterError(
                    f"volume {number} of a stack is {level.dtype}, the first is {first.dtype}: "
                    f"add cast:dtype={first.dtype} to it"
                )
            if not _same_grid(level, first):
                raise ParameterError(
                    f"volume {number} of a stack has shape {level.spatial_shape}, voxels of {level.voxel_size_nm} nm, "
                    f"corner {level.grid.corner_nm}; the first has {first.spatial_shape}, {first.voxel_size_nm} nm, "
                    f"{first.grid.corner_nm}: expected one grid"
                )
        at_each = zip(*(volume.levels for volume in volumes), strict=False)
        common = takewhile(lambda levels: all(_same_grid(level, levels[0]) for level in levels), at_each)
        self.levels = tuple(_stacked(levels) for levels in common)
        kinds = {volume.kind for volume in volumes}
        self.kind = kinds.pop() if len(kinds) == 1 else "image"
        self.warnings = tuple(dict.fromkeys(warning for volume in volumes for warning in volume.warnings))

    @cached_property
    def stage_digest(self) -> str:
        return make_digest(["stack", [volume.stage_digest for volume in self.volumes]])

    @property
    def parts(self) -> tuple[Volume, ...]:
        return self.volumes

    def state(self, level: int, box: Box) -> str:
        return joined_states([volume.state(level, box) for volume in self.volumes])

    def read_box(self, level: int, box: Box, work: Work) -> Array:
        out = np.empty((*self.levels[level].channels, *box.shape), self.levels[level].dtype)
        channel = 0
        for volume in self.volumes:
            work.check()
            count = _channels(volume.levels[level])
            out[channel : channel + count] = volume.read_box(level, box, work)
            channel += count
        return out


def _channels(level: Level) -> int:
    return level.channels[0] if level.channels else 1


def _same_grid(a: Level, b: Level) -> bool:
    # Corners agree when they differ by less than a millionth of a voxel.
    near = [
        abs(p - q) <= 1e-6 * size
        for p, q, size in zip(a.grid.corner_nm, b.grid.corner_nm, b.voxel_size_nm, strict=True)
    ]
    return a.spatial_shape == b.spatial_shape and same_voxel_size(a.voxel_size_nm, b.voxel_size_nm) and all(near)


def _stacked(levels: Sequence[Level]) -> Level:
    count = sum(_channels(level) for level in levels)
    first = levels[0]
    return dataclasses.replace(
        first,
        shape=(count, *first.spatial_shape),
        chunk_shape=(count, *first.spatial_chunk),
        axes=("c", *first.axes[-3:]),
    )
