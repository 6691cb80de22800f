"""`ModelGeometry`: what a model reads and writes, in voxels and nanometres."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chunkloom.errors import ModelError

Triple = tuple[float, float, float]
Voxels = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class ModelGeometry:
    """A model's shapes (voxels z, y, x), voxel sizes (nm z, y, x) and channels.

    The input is read around the output: `context` voxels of the input more on each side.
    """

    input_voxel_size: Triple
    output_voxel_size: Triple
    input_shape: Voxels
    output_shape: Voxels
    output_channels: int = 1
    channel_names: tuple[str, ...] = ()
    output_dtype: str = "float32"
    input_channels: int = 1

    def __post_init__(self) -> None:
        for field in ("input_voxel_size", "output_voxel_size"):
            object.__setattr__(self, field, _numbers(getattr(self, field), field, float))
        for field in ("input_shape", "output_shape"):
            object.__setattr__(self, field, _numbers(getattr(self, field), field, int))
        for field in ("output_channels", "input_channels"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ModelError(f"{field} is {value!r}: expected a whole number of at least 1")
        if self.channel_names and len(self.channel_names) != self.output_channels:
            raise ModelError(
                f"channels {self.channel_names} name {len(self.channel_names)}, the output has {self.output_channels}"
            )
        for axis, (n, m, f) in enumerate(zip(self.input_shape, self.output_shape, self.factor, strict=True)):
            extra = n - m * f
            if extra < -1e-6 or abs(extra / 2 - round(extra / 2)) > 1e-6:
                raise ModelError(
                    f"input_shape {self.input_shape} and output_shape {self.output_shape} do not fit on axis "
                    f"{'zyx'[axis]}: the input must exceed the output by the same whole number of voxels on both "
                    f"sides, found {extra / 2:g} a side"
                )

    @property
    def factor(self) -> Triple:
        """Input voxels per output voxel, z, y, x."""
        z, y, x = (o / i for o, i in zip(self.output_voxel_size, self.input_voxel_size, strict=True))
        return (z, y, x)

    @property
    def context(self) -> Voxels:
        """Input voxels read beyond the output on each side, z, y, x."""
        z, y, x = (
            round((n - m * f) / 2) for n, m, f in zip(self.input_shape, self.output_shape, self.factor, strict=True)
        )
        return (z, y, x)

    @property
    def read_shape(self) -> Triple:
        """What one forward reads, nm."""
        z, y, x = (n * v for n, v in zip(self.input_shape, self.input_voxel_size, strict=True))
        return (z, y, x)

    @property
    def write_shape(self) -> Triple:
        """What one forward writes, nm."""
        z, y, x = (n * v for n, v in zip(self.output_shape, self.output_voxel_size, strict=True))
        return (z, y, x)


def _numbers(values: Any, field: str, kind: type) -> tuple[Any, ...]:
    if isinstance(values, int | float) and not isinstance(values, bool):
        values = (values,) * 3
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != 3:
        raise ModelError(f"{field} is {values!r}: expected three numbers z, y, x")
    numbers = []
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
            raise ModelError(f"{field} is {list(values)!r}: expected three positive numbers z, y, x")
        if kind is int and value != int(value):
            raise ModelError(f"{field} is {list(values)!r}: expected whole numbers of voxels")
        numbers.append(kind(value))
    return tuple(numbers)
