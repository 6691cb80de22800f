"""Ops that change the grid."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from chunkloom.engine.op import Op
from chunkloom.engine.volume import Array, Level, Volume
from chunkloom.errors import ParameterError
from chunkloom.geometry import Box


@dataclass(frozen=True)
class Downsample(Op):
    """Voxels `factor` times as large (one whole number, or z, y, x), from the same corner.

    `method` "mean" averages (integers rounded half to even), "mode" takes the most frequent value (of equally
    frequent ones the smallest); left out, images get the mean, labels and masks the mode. Where the data ends inside
    a voxel, what is there counts.
    """

    factor: int | tuple[int, int, int] = 2
    method: Literal["mean", "mode"] | None = None

    name: ClassVar[str] = "downsample"
    pad: ClassVar[Literal["edge", "constant", "cut"]] = "cut"

    def __post_init__(self) -> None:
        if not all(isinstance(f, int) and 1 <= f <= 64 for f in self.factors):
            raise ParameterError(f"factor is {self.factor}: expected whole numbers, 1 to 64")
        if self.method not in ("mean", "mode", None):
            raise ParameterError(f"method is {self.method!r}: expected 'mean' or 'mode'")

    @property
    def factors(self) -> tuple[int, int, int]:
        """Of z, y, x."""
        return self.factor if isinstance(self.factor, tuple) else (self.factor, self.factor, self.factor)

    def bind(self, source: Volume, chunk: Sequence[int]) -> Self:
        if self.method is not None:
            return self
        return dataclasses.replace(self, method="mean" if source.kind == "image" else "mode")

    def output_level(self, level: Level) -> Level:
        shape = tuple(-(-n // f) for n, f in zip(level.spatial_shape, self.factors, strict=True))
        return dataclasses.replace(level, shape=(*level.channels, *shape), grid=level.grid.downsampled(self.factors))

    def needs(self, box: Box) -> Box:
        return Box(
            tuple(b * f for b, f in zip(box.lo, self.factors, strict=True)),
            tuple(h * f for h, f in zip(box.hi, self.factors, strict=True)),
        )

    def apply(self, block: Array) -> Array:
        from chunkloom.kernels import downsample

        return downsample.mode(block, self.factors) if self.method == "mode" else downsample.mean(block, self.factors)
