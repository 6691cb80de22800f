"""Coarser arrays of a store, each made from the written one before it: mean for images, mode for labels and masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from chunkloom.engine.pipeline import halving
from chunkloom.engine.volume import Array, Kind, Level, Volume, make_digest
from chunkloom.geometry import Box

if TYPE_CHECKING:
    from chunkloom.engine.demand import Work


def coarser(level: Level) -> tuple[Level, tuple[int, ...]]:
    """The next coarser level of an array, and its factor (z, y, x): axes with the smallest voxels are halved."""
    factor = halving(level)
    shape = tuple(-(-n // f) for n, f in zip(level.spatial_shape, factor, strict=True))
    return replace(level, shape=(*level.channels, *shape), grid=level.grid.downsampled(factor)), factor


def coarser_box(box: Box, factor: Sequence[int]) -> Box:
    """The coarse voxels that hold any of a box's."""
    return Box(
        tuple(b // f for b, f in zip(box.lo, factor, strict=True)),
        tuple(-(-h // f) for h, f in zip(box.hi, factor, strict=True)),
    )


class Halved(Volume):
    """Level `number` of a volume, `factor` times coarser, as a volume of one level.

    A coarse voxel at the end counts only the fine voxels that are there.
    """

    def __init__(self, source: Volume, number: int, level: Level, factor: Sequence[int], kind: Kind) -> None:
        self._source, self._number, self._factor = source, number, tuple(factor)
        self.levels = (level,)
        self.kind = kind

    @property
    def stage_digest(self) -> str:
        return make_digest([self._source.stage_digest, "halved", self._number, list(self._factor), self.kind])

    def read_box(self, level: int, box: Box, work: Work) -> Array:
        from chunkloom.kernels import downsample

        fine = Box(
            tuple(b * f for b, f in zip(box.lo, self._factor, strict=True)),
            tuple(h * f for h, f in zip(box.hi, self._factor, strict=True)),
        ).intersect(self._source.levels[self._number].box)
        data = self._source.read_box(self._number, fine, work)
        work.check()
        reduce = downsample.mean if self.kind == "image" else downsample.mode
        return reduce(data, self._factor)
