"""What the soak's volumes are on coarser levels, by numpy: an oracle of its own."""

from __future__ import annotations

import numpy as np

COMPUTED = ("mask", "median", "objects")


def halved(array: np.ndarray, *, mode: bool) -> np.ndarray:
    """Blocks of two voxels on each axis: their mean rounded half to even, or their most frequent value (of 0 and 1)."""
    pads = [(0, n % 2) for n in array.shape]
    values = np.pad(array.astype(np.float64), pads)
    there = np.pad(np.ones(array.shape), pads)
    total, count = _sums(values), _sums(there)
    if mode:
        return (2 * total > count).astype(array.dtype)  # as often as 0: the smaller, 0
    return np.rint(total / count).astype(array.dtype)


def _sums(array: np.ndarray) -> np.ndarray:
    z, y, x = array.shape
    return array.reshape(z // 2, 2, y // 2, 2, x // 2, 2).sum(axis=(1, 3, 5))
