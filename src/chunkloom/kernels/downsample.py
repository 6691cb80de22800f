"""Coarser arrays: the mean of blocks for images, their most frequent value for labels.

Blocks are counted from voxel 0 of what is given; where the array ends inside a block, the block is what there is of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def mean(array: Array, factor: Sequence[int]) -> Array:
    """The mean of each block of the last three axes, rounded half to even for integers, of the array's dtype.

    Sums are exact for integers of up to 32 bits (float64 below 2**53) and in float64 for the rest.
    """
    sums, counts = array.astype(np.float64), np.float64(1)
    for axis, f in enumerate(factor):
        if f == 1:
            continue
        position = array.ndim - 3 + axis
        starts = np.arange(0, sums.shape[position], f)
        n = array.shape[position]
        sums = np.add.reduceat(sums, starts, axis=position)
        sizes = np.minimum(starts + f, n) - starts
        counts = counts * sizes.reshape([-1 if i == axis else 1 for i in range(3)])
    result = sums / counts
    if array.dtype.kind in "iu":
        np.rint(result, out=result)
    return result.astype(array.dtype)


def mode(array: Array, factor: Sequence[int]) -> Array:
    """The most frequent value of each block of the last three axes; of equally frequent ones the smallest."""
    lead, spatial = array.shape[:-3], array.shape[-3:]
    grid = [-(-n // f) for n, f in zip(spatial, factor, strict=True)]
    values, present = _in_blocks(array, grid, factor), _in_blocks(np.ones(spatial, bool), grid, factor)
    count = values.shape[-1]
    present = np.broadcast_to(present, values.shape)
    frequency = np.zeros(values.shape, np.int32)
    for i in range(count):
        frequency += (values == values[..., i : i + 1]) & present[..., i : i + 1]
    frequency = np.where(present, frequency, -1)
    most = frequency == frequency.max(axis=-1, keepdims=True)
    if array.dtype.kind == "b":
        largest: Any = True
    elif array.dtype.kind == "f":
        largest = np.inf
    else:
        largest = np.iinfo(array.dtype).max
    chosen: Array = np.where(most, values, largest).min(axis=-1).astype(array.dtype)
    return chosen.reshape(*lead, *grid)


def _in_blocks(array: Array, grid: Sequence[int], factor: Sequence[int]) -> Array:
    """Blocks along the last axis, in C order, padded with zeros where the array ends inside one."""
    missing = [g * f - n for g, f, n in zip(grid, factor, array.shape[-3:], strict=True)]
    if any(missing):
        array = np.pad(array, [(0, 0)] * (array.ndim - 3) + [(0, m) for m in missing])
    lead = array.shape[:-3]
    split = array.reshape(*lead, grid[0], factor[0], grid[1], factor[1], grid[2], factor[2])
    n = len(lead)
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3, n + 5)
    return split.transpose(order).reshape(*lead, *grid, factor[0] * factor[1] * factor[2])
