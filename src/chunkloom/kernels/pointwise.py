"""Normalizations and activations that look at one voxel at a time. All return float32.

The arithmetic is done in float32 where that holds the input exactly (up to 16 bits, and float32 itself) and
in float64 otherwise, so that a uint32 of 4,000,000,001 is not rounded before its mean is taken off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]


def working_copy(x: NDArray[Any]) -> NDArray[Any]:
    """A new float array with the values of `x`, to compute in place on."""
    if x.dtype.kind not in "iubf":
        raise TypeError(f"cannot normalize values of dtype {x.dtype}; expected real numbers")
    exact = x.dtype.itemsize <= 2 or x.dtype == np.float32
    return x.astype(np.float32 if exact else np.float64)


def min_max(x: NDArray[Any], low: float, high: float) -> Float32:
    """`(clip(x, low, high) - low) / (high - low)`: low becomes 0, high 1; `high` must be above `low`."""
    y = working_copy(x)
    np.clip(y, low, high, out=y)
    y -= low
    y /= high - low
    return _float32(y)


def min_max_inverted(x: NDArray[Any], low: float, high: float) -> Float32:
    """`1 - min_max(x, low, high)`."""
    y = min_max(x, low, high)
    np.subtract(np.float32(1), y, out=y)
    return y


def z_score(x: NDArray[Any], mean: float, std: float) -> Float32:
    """`(x - mean) / std`; `std` must not be 0."""
    y = working_copy(x)
    y -= mean
    y /= std
    return _float32(y)


def affine(x: NDArray[Any], factor: float, offset: float) -> Float32:
    """`x * factor + offset`."""
    y = working_copy(x)
    y *= factor
    y += offset
    return _float32(y)


def sigmoid(x: NDArray[Any]) -> Float32:
    """`1 / (1 + exp(-x))` in float32; saturates to 0 and 1 without warnings, NaN stays NaN."""
    y: Float32 = x.astype(np.float32)
    np.negative(y, out=y)
    with np.errstate(over="ignore", under="ignore"):
        np.exp(y, out=y)
        y += np.float32(1)
        np.reciprocal(y, out=y)
    return y


def _float32(y: NDArray[Any]) -> Float32:
    with np.errstate(over="ignore"):
        return y.astype(np.float32, copy=False)
