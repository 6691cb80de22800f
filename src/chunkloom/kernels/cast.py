"""Change of number type and what stands before it: clip, scale, round, threshold.

NumPy leaves the cast of a float outside the target's range undefined (300.0 to uint8 may give 44, or 255, or
0). These functions leave nothing undefined: values saturate, and NaN becomes 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]


def clip(x: Array, low: float, high: float) -> Array:
    """Limit values to [low, high]; NaN stays NaN. The result is a new float array (see `as_float`)."""
    return np.clip(as_float(x), low, high)


def scale(x: Array, factor: float, offset: float = 0.0) -> Array:
    """`x * factor + offset`, a new float array (see `as_float`)."""
    result = as_float(x) * factor
    if offset:
        result += offset
    return np.asarray(result)


def as_float(x: Array) -> Array:
    """`x` in a float type that holds its values: itself if float, float32 up to 16 bits, else float64."""
    if x.dtype.kind == "f":
        return x
    if x.dtype.kind not in "iub":
        raise TypeError(f"cannot compute with values of dtype {x.dtype}; expected real numbers")
    return x.astype(np.float32 if x.dtype.itemsize <= 2 else np.float64)


def cast(x: Array, dtype: DTypeLike) -> Array:
    """Cast so that every value has a defined result.

    Floats going to integers are rounded half to even and saturate at the type's range; NaN becomes 0.
    Integers going to narrower integers saturate. Anything going to bool is `x != 0` (NaN gives False). Floats
    going to floats follow IEEE 754: too large is infinite, NaN stays. An array that has the dtype already is
    returned as it is.
    """
    return _to_dtype(x, np.dtype(dtype), np.rint)


def truncate(x: Array, dtype: DTypeLike) -> Array:
    """Like `cast`, but floats going to integers lose their fraction instead of being rounded."""
    return _to_dtype(x, np.dtype(dtype), np.trunc)


def _to_dtype(x: Array, target: np.dtype[Any], whole: Any) -> Array:
    if x.dtype == target:
        return x
    if target.kind == "b":
        return np.asarray((x != 0) & (x == x))
    if x.dtype.kind == "f" and target.kind in "iu":
        return _float_to_integer(x, target, whole)
    if x.dtype.kind in "iu" and target.kind in "iu":
        return _integer_to_integer(x, target)
    with np.errstate(over="ignore", invalid="ignore"):
        return x.astype(target)


def _float_to_integer(x: Array, target: np.dtype[Any], whole: Any) -> Array:
    limits = np.iinfo(target)
    if x.dtype.itemsize < 4:  # a float16 cannot hold the limits of most integer types
        x = x.astype(np.float32)
    real = x.dtype.type
    # The type's maximum may not be a value of the float type (2**31 - 1 in float32): stay at the largest that
    # is.
    highest = real(limits.max)
    if int(highest) > limits.max:
        highest = np.nextafter(highest, real(0))
    result = whole(x)
    above = result > highest if int(highest) < limits.max else None
    np.clip(result, real(limits.min), highest, out=result)
    np.nan_to_num(result, copy=False, nan=0.0)
    out = result.astype(target)
    if above is not None:
        out[above] = limits.max
    return np.asarray(out)


def _integer_to_integer(x: Array, target: np.dtype[Any]) -> Array:
    source, limits = np.iinfo(x.dtype), np.iinfo(target)
    low, high = max(source.min, limits.min), min(source.max, limits.max)
    if (low, high) != (source.min, source.max):
        x = np.clip(x, low, high)
    return x.astype(target)


def threshold_inclusive(x: Array, threshold: float) -> NDArray[np.uint8]:
    """1 where `x >= threshold`, else 0 (also where x is NaN), uint8. Integers are compared exactly."""
    if x.dtype.kind in "iu" and math.isfinite(threshold):
        threshold = math.ceil(threshold)
    return np.asarray(x >= threshold).view(np.uint8)


def threshold_exclusive(x: Array, threshold: float) -> NDArray[np.uint8]:
    """1 where `x > threshold`, else 0 (also where x is NaN), uint8. Integers are compared exactly."""
    if x.dtype.kind in "iu" and math.isfinite(threshold):
        threshold = math.floor(threshold)
    return np.asarray(x > threshold).view(np.uint8)
