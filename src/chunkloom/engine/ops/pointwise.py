"""Ops that look at one voxel at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chunkloom.engine.op import DTYPES, Op
from chunkloom.engine.volume import Array, Kind
from chunkloom.errors import ParameterError


@dataclass(frozen=True)
class Threshold(Op):
    """1 where the value is at least `low` (and at most `high`, if given), else 0. uint8; NaN is 0."""

    low: float
    high: float | None = None

    name: ClassVar[str] = "threshold"
    output_kind: ClassVar[Kind | None] = "mask"

    def __post_init__(self) -> None:
        if self.high is not None and self.low > self.high:
            raise ParameterError(f"low {self.low} is above high {self.high}")

    def output_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return np.dtype(np.uint8)

    def apply(self, block: Array) -> Array:
        from chunkloom.kernels.cast import threshold_exclusive, threshold_inclusive

        low = threshold_inclusive(block, self.low)
        # The exclusive threshold marks what is above `high`; NaN is in neither.
        return low if self.high is None else low & ~threshold_exclusive(block, self.high) & 1


@dataclass(frozen=True)
class Cast(Op):
    """Another dtype: rounded half to even, limited to the dtype's range, NaN to 0 for integers."""

    dtype: str

    name: ClassVar[str] = "cast"

    def __post_init__(self) -> None:
        try:
            valid = np.dtype(self.dtype).name in DTYPES
        except TypeError:
            valid = False
        if not valid:
            raise ParameterError(
                f"{self.dtype!r} is not a dtype of numbers: expected one like uint8, float32 or uint64"
            )

    def output_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return np.dtype(self.dtype)

    def apply(self, block: Array) -> Array:
        from chunkloom.kernels.cast import cast

        return cast(block, self.dtype)


@dataclass(frozen=True)
class Clip(Op):
    """Values limited to `low` … `high`, as floats."""

    low: float
    high: float

    name: ClassVar[str] = "clip"

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ParameterError(f"low {self.low} is above high {self.high}")

    def output_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return float_for(dtype)

    def apply(self, block: Array) -> Array:
        from chunkloom.kernels.cast import clip

        return clip(block, self.low, self.high)


@dataclass(frozen=True)
class Scale(Op):
    """`value * factor + offset`, as floats."""

    factor: float
    offset: float = 0.0

    name: ClassVar[str] = "scale"

    def output_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return float_for(dtype)

    def apply(self, block: Array) -> Array:
        from chunkloom.kernels.cast import scale

        return scale(block, self.factor, self.offset)


@dataclass(frozen=True)
class Invert(Op):
    """Bright for dark: smallest plus largest value of the dtype minus the value; not for bool; 1 - value for floats."""

    name: ClassVar[str] = "invert"

    def apply(self, block: Array) -> Array:
        if block.dtype.kind == "b":
            return np.logical_not(block)
        if block.dtype.kind in "ui":
            # ~x is max - x for unsigned and min + max - x for signed integers: exact, and of the same dtype.
            return np.bitwise_not(block)
        return (1 - block).astype(block.dtype, copy=False)


def float_for(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The float dtype that `chunkloom.kernels.cast.as_float` works in."""
    from chunkloom.kernels.cast import as_float

    return as_float(np.zeros(0, dtype)).dtype
