"""`Grid`: where an array's voxels lie in the world."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from chunkloom.geometry.box import Box
from chunkloom.geometry.roi import Roi, snap


def same_voxel_size(a: Sequence[float], b: Sequence[float], tolerance: float = 1e-6) -> bool:
    """Whether two voxel sizes (nm) are equal within a relative `tolerance`."""
    return len(a) == len(b) and all(math.isclose(x, y, rel_tol=tolerance) for x, y in zip(a, b, strict=True))


@dataclass(frozen=True, slots=True)
class Grid:
    """Voxel `i` covers `corner + i * voxel_size` up to the next, on each axis (z, y, x), in nm.

    Worked example: voxels of 10.48 nm from a corner of -2.62 nm. A roi that begins at 60 nm begins inside voxel
    floor(62.62 / 10.48) = floor(5.975) = 5.
    """

    voxel_size_nm: tuple[float, ...] = (1.0, 1.0, 1.0)
    corner_nm: tuple[float, ...] = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        size = tuple(float(v) for v in self.voxel_size_nm)
        corner = tuple(float(v) for v in self.corner_nm)
        if len(size) != len(corner):
            raise ValueError(f"voxel size {size} and corner {corner} differ in length")
        if not all(math.isfinite(v) and v > 0 for v in size):
            raise ValueError(f"voxel size must be positive numbers of nm, found {size}")
        if not all(math.isfinite(v) for v in corner):
            raise ValueError(f"corner must be finite numbers of nm, found {corner}")
        object.__setattr__(self, "voxel_size_nm", size)
        object.__setattr__(self, "corner_nm", corner)

    @property
    def ndim(self) -> int:
        return len(self.voxel_size_nm)

    def downsampled(self, factor: Sequence[float]) -> Grid:
        """The grid of voxels `factor` times as large, from the same corner."""
        return Grid(tuple(v * f for v, f in zip(self.voxel_size_nm, factor, strict=True)), self.corner_nm)

    def moved(self, lo: Sequence[float]) -> Grid:
        """The grid whose voxel 0 is this one's voxel `lo`."""
        return Grid(
            self.voxel_size_nm,
            tuple(c + b * v for c, b, v in zip(self.corner_nm, lo, self.voxel_size_nm, strict=True)),
        )

    def world_to_box(self, roi: Roi) -> Box:
        """The voxels a read of `roi` covers: begin floored, then as many whole voxels as its shape holds.

        Float noise is snapped to the nearest whole number first (9.9999999 is 10), also before voxel 0, where the
        begin floors too: -0.5 is voxel -1. A region with a shape under one voxel gives an empty box.
        """
        lo = [
            math.floor(snap((b - c) / v)) for b, c, v in zip(roi.begin, self.corner_nm, self.voxel_size_nm, strict=True)
        ]
        shape = [math.trunc(snap(s / v)) for s, v in zip(roi.shape, self.voxel_size_nm, strict=True)]
        return Box(tuple(lo), tuple(b + n for b, n in zip(lo, shape, strict=True)))

    def world_to_covering_box(self, roi: Roi) -> Box:
        """The voxels that `roi` touches at all: begin floored, end rounded up."""
        lo, hi = [], []
        for b, e, c, v in zip(roi.begin, roi.end, self.corner_nm, self.voxel_size_nm, strict=True):
            lo.append(math.floor(snap((b - c) / v)))
            hi.append(math.ceil(snap((e - c) / v)))
        return Box(tuple(lo), tuple(hi))

    def box_to_world(self, box: Box) -> Roi:
        """The region of the world that `box` covers, nm, not rounded."""
        begin = [c + b * v for c, b, v in zip(self.corner_nm, box.lo, self.voxel_size_nm, strict=True)]
        return Roi(begin, [n * v for n, v in zip(box.shape, self.voxel_size_nm, strict=True)])
