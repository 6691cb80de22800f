"""Which blocks are computed and where they are written: pure geometry.

Everything is in voxels of the output grid, z, y, x. Blocks lie on one grid from voxel 0 of the output array, so that
each is a chunk of it, and no two write the same file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chunkloom.blockwise.task import Fit
from chunkloom.errors import ParameterError
from chunkloom.geometry import Box, Grid, Roi
from chunkloom.geometry.roi import snap

Index = tuple[int, ...]


def fitted(lo: int, hi: int, block: int, fit: Fit, anchor: int = 0) -> list[tuple[int, int]]:
    """The blocks of an axis for a region [lo, hi), on the grid of `block` from `anchor`.

    "overhang": as many as cover it, whole, at most one more than fit; "shrink": the same, cut to the region; "valid":
    only those that lie inside. What a block writes is always cut to the region.
    """
    first, last = _range(lo, hi, block, fit, anchor)
    spans = [(anchor + i * block, anchor + (i + 1) * block) for i in range(first, last)]
    return [(max(a, lo), min(b, hi)) for a, b in spans] if fit == "shrink" else spans


def _range(lo: int, hi: int, block: int, fit: Fit, anchor: int) -> tuple[int, int]:
    if fit == "valid":
        first, last = -((anchor - lo) // block), (hi - anchor) // block
        return first, max(first, last)
    return (lo - anchor) // block, -((anchor - hi) // block)


@dataclass(frozen=True)
class Region:
    """A box to be written, the blocks (indices) that write it, and how many of its voxels none of them writes."""

    box: Box
    blocks: Box
    unwritten: int = 0


def region_of(box: Box, block: Sequence[int], fit: Fit) -> Region:
    """The blocks for a box."""
    spans = [_range(lo, hi, n, fit, 0) for lo, hi, n in zip(box.lo, box.hi, block, strict=True)]
    blocks = Box(tuple(a for a, _ in spans), tuple(b for _, b in spans))
    lo = tuple(a * n for a, n in zip(blocks.lo, block, strict=True))
    hi = tuple(b * n for b, n in zip(blocks.hi, block, strict=True))
    written = Box(lo, hi).intersect(box)
    return Region(written, blocks, box.size - written.size)


def inward(roi: Roi, grid: Grid) -> Box:
    """The whole voxels that lie inside a region of the world (nm)."""
    lo, hi = [], []
    for b, e, c, v in zip(roi.begin, roi.end, grid.corner_nm, grid.voxel_size_nm, strict=True):
        lo.append(math.ceil(snap((b - c) / v)))
        hi.append(math.floor(snap((e - c) / v)))
    return Box(tuple(lo), tuple(max(a, b) for a, b in zip(lo, hi, strict=True)))


@dataclass(frozen=True)
class Plan:
    """All of a run.

    Attributes
    ----------
    offset
        Voxel 0 of the output array, in voxels of the pipeline.
    shape
        Of the output array.
    block
        Voxels z, y, x of a block, and of a chunk.
    regions
        In voxels of the output array. A block that several touch belongs to the first.
    """

    offset: tuple[int, ...]
    shape: tuple[int, ...]
    block: tuple[int, ...]
    regions: tuple[Region, ...]

    def box(self, index: Sequence[int]) -> Box:
        """A block's voxels, cut to the array."""
        return Box.of_chunk(index, self.block).intersect(Box.of_shape(self.shape))

    def indices(self, number: int) -> Iterator[Index]:
        """The blocks of a region, without those that an earlier region has."""
        earlier = [region.blocks for region in self.regions[:number]]
        for index in self.regions[number].blocks.indices():
            point = Box(index, tuple(i + 1 for i in index))
            if not any(blocks.contains(point) for blocks in earlier):
                yield index

    def owns(self, number: int, index: Sequence[int]) -> bool:
        """The block belongs to this region, not to an earlier one."""
        point = Box(tuple(index), tuple(i + 1 for i in index))
        return not any(region.blocks.contains(point) for region in self.regions[:number])

    def written(self, index: Sequence[int]) -> list[Box]:
        """What of a block lies in regions, as boxes that may overlap."""
        box = self.box(index)
        parts = [box.intersect(region.box) for region in self.regions]
        return [part for part in parts if not part.is_empty]

    @property
    def unwritten(self) -> int:
        """Voxels of regions that no block writes (fit valid)."""
        return sum(region.unwritten for region in self.regions)


def make_plan(extent: Box, boxes: Sequence[Box], block: Sequence[int], fit: Fit, *, separate: bool) -> Plan:
    """The plan for boxes of an extent (pipeline voxels); no boxes: all of it.

    Raises
    ------
    ParameterError
        A box holds no whole voxel of the extent, or no block fits.
    """
    inside = [box.intersect(extent) for box in boxes] or [extent]
    for number, box in enumerate(inside):
        if box.is_empty:
            named = f"bounding_boxes[{number}]" if boxes else "the volume"
            raise ParameterError(f"{named} holds no whole voxel of the output, which is {extent}: nothing to write")
    array = inside[0] if separate else extent
    back = tuple(-lo for lo in array.lo)
    regions = tuple(region_of(box.shift(back), block, fit) for box in inside)
    if not any(region.blocks.size for region in regions):
        raise ParameterError(f"fit valid: no block of {tuple(block)} lies inside: choose a smaller block_size")
    return Plan(array.lo, array.shape, tuple(block), regions)
