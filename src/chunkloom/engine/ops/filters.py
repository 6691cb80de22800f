"""Ops that look at a neighbourhood: smoothing, ranks, edges. Sizes are voxels of the finest level and scale with it.

Beyond the data the border voxel is repeated (`mode="nearest"` of scipy.ndimage).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chunkloom.engine.op import Op
from chunkloom.engine.volume import Array
from chunkloom.errors import ParameterError

Sigma = float | tuple[float, float, float]
Size = int | tuple[int, int, int]
MOST_RANKED = 15**3
FLOAT32 = np.dtype(np.float32)


@dataclass(frozen=True)
class Gaussian(Op):
    """Gaussian smoothing by `sigma` voxels (one number, or z, y, x), float32; the kernel ends at 4 sigma."""

    sigma: Sigma

    name: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        check_sigma(self.sigma, "sigma")

    @property
    def halo(self) -> tuple[int, int, int]:
        from chunkloom.kernels.filters import gaussian_halo

        return gaussian_halo(self.sigma)

    def output_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return FLOAT32

    def at_level(self, factor: Sequence[float]) -> Gaussian:
        return dataclasses.replace(self, sigma=scaled_sigma(self.sigma, factor))

    def apply(self, block: Array) -> Array:
        from chunkloom.kernels.filters import gaussian

        return gaussian(block, self.sigma)


@dataclass(frozen=True)
class DifferenceOfGaussians(Op):
    """Smoothed by `low_sigma` minus smoothed by `high_sigma` (voxels): what has a size in between. float32."""

    low_sigma: Sigma
    high_sigma: Sigma

    name: ClassVar[str] = "difference_of_gaussians"

    def __post_init__(self) -> None:
        check_sigma(self.low_sigma, "low_sigma")
        check_sigma(self.high_sigma, "high_sigma")

    @property
    def halo(self) -> tuple[int, int, int]:
        from chunkloom.kernels.filters import difference_of_gaussians_halo

        return difference_of_gaussians_halo(self.low_sigma, self.high_sigma)

    def output_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return FLOAT32

    def at_level(self, factor: Sequence[float]) -> DifferenceOfGaussians:
        low, high = scaled_sigma(self.low_sigma, factor), scaled_sigma(self.high_sigma, factor)
        return dataclasses.replace(self, low_sigma=low, high_sigma=high)

    def apply(self, block: Array) -> Array:
        from chunkloom.kernels.filters import difference_of_gaussians

        return difference_of_gaussians(block, self.low_sigma, self.high_sigma)


@dataclass(frozen=True)
class Gradient(Op):
    """How steeply the values change: length of the gradient after smoothing by `sigma`, per voxel. float32."""

    sigma: Sigma = 1.0

    name: ClassVar[str] = "gradient"

    def __post_init__(self) -> None:
        check_sigma(self.sigma, "sigma")

    @property
    def halo(self) -> tuple[int, int, int]:
        from chunkloom.kernels.filters import gradient_magnitude_halo

        return gradient_magnitude_halo(self.sigma)

    def output_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return FLOAT32

    def at_level(self, factor: Sequence[float]) -> Gradient:
        return dataclasses.replace(self, sigma=scaled_sigma(self.sigma, factor))

    def apply(self, block: Array) -> Array:
        from chunkloom.kernels.filters import gradient_magnitude

        return gradient_magnitude(block, self.sigma)


@dataclass(frozen=True)
class Uniform(Op):
    """Mean over a box of `size` voxels (odd; one number, or z, y, x). float32."""

    size: Size = 3

    name: ClassVar[str] = "uniform"

    def __post_init__(self) -> None:
        check_size(self.size)

    @property
    def halo(self) -> tuple[int, int, int]:
        return window(self.size)

    def output_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return FLOAT32

    def at_level(self, factor: Sequence[float]) -> Uniform:
        return dataclasses.replace(self, size=scaled_size(self.size, factor))

    def apply(self, block: Array) -> Array:
        from chunkloom.kernels.filters import uniform

        return uniform(block, self.size)


@dataclass(frozen=True)
class Median(Op):
    """Median over a box of `size` voxels (odd; one number, or z, y, x), of at most 3375 in all (15 x 15 x 15)."""

    size: Size = 3

    name: ClassVar[str] = "median"

    def __post_init__(self) -> None:
        check_size(self.size)
        if math.prod(triple(self.size)) > MOST_RANKED:
            raise ParameterError(
                f"size is {self.size}: expected a box of at most {MOST_RANKED} voxels, as a larger one takes minutes"
            )

    @property
    def halo(self) -> tuple[int, int, int]:
        return window(self.size)

    def at_level(self, factor: Sequence[float]) -> Median:
        return dataclasses.replace(self, size=scaled_size(self.size, factor))

    def apply(self, block: Array) -> Array:
        from chunkloom.kernels.filters import median

        return median(block, self.size)


def triple(value: Any) -> tuple[Any, Any, Any]:
    """One value for all axes, or one each for z, y, x."""
    if isinstance(value, tuple):
        z, y, x = value
        return (z, y, x)
    return (value, value, value)


def check_sigma(sigma: Sigma, name: str) -> None:
    if not all(0 <= s <= 64 for s in triple(sigma)):
        raise ParameterError(f"{name} is {sigma}: expected 0 to 64 voxels")


def check_size(size: Size) -> None:
    if not all(isinstance(s, int) and 1 <= s <= 127 and s % 2 for s in triple(size)):
        raise ParameterError(f"size is {size}: expected odd whole numbers of voxels, 1 to 127")


def scaled_sigma(sigma: Sigma, factor: Sequence[float]) -> tuple[float, float, float]:
    """A length in voxels of the finest level, in voxels `factor` times as large."""
    z, y, x = (s / f for s, f in zip(triple(sigma), factor, strict=True))
    return (z, y, x)


def scaled_size(size: Size, factor: Sequence[float]) -> tuple[int, int, int]:
    """As `scaled_sigma`, for a window: the nearest odd number of voxels, at least 1."""
    z, y, x = (max(1, 2 * round((s / f - 1) / 2) + 1) for s, f in zip(triple(size), factor, strict=True))
    return (z, y, x)


def window(size: Size) -> tuple[int, int, int]:
    """The halo of a box of `size` voxels."""
    z, y, x = (s // 2 for s in triple(size))
    return (z, y, x)
