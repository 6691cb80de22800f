"""Contrast made even: histogram equalization with a limit, in a window that slides with the voxel.

The usual CLAHE cuts an image into tiles and interpolates between their histograms, so a voxel's value depends
on where the tiles begin. Here every voxel has the window around itself: the same voxel gets the same value in
whatever block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]


def equalize(
    block: NDArray[Any],
    low: float,
    high: float,
    radius: Sequence[int],
    clip_limit: float,
    bins: int = 64,
    before: Sequence[int] = (0, 0, 0),
    after: Sequence[int] = (0, 0, 0),
) -> Float32:
    """Contrast-limited adaptive histogram equalization of `(z, y, x)` data; 0 … 1.

    A voxel's value becomes the share of the voxels in its window that are darker. The window's histogram, of
    `bins` equal bins of [low, high], is cut at `clip_limit`, and what was cut off is spread evenly over all
    bins; within a bin the share grows linearly (Pizer et al., "Adaptive Histogram Equalization and Its
    Variations", 1987).

    Parameters
    ----------
    block : (z, y, x) array
        Padded by `radius`; the ends of the data, where windows are cut, are where it is not.
    low, high : float
        Values beyond them count as them.
    radius : three ints
        Reach of the window along z, y, x in voxels.
    clip_limit : float
        Largest share of the window that a bin may hold; 1 for no limit.
    bins : int
        Number of bins.
    before, after : three ints
        Voxels of `block` at the lower and upper ends that are context only.

    Returns
    -------
    float32 array
        Of the shape of `block` without `before` and `after`.
    """
    windows = [_Window(n, r, b, a) for n, r, b, a in zip(block.shape, radius, before, after, strict=True)]
    shares = np.clip((block.astype(np.float32) - np.float32(low)) / np.float32(high - low), 0, 1)
    np.nan_to_num(shares, copy=False, nan=0.0)
    places = shares * np.float32(bins)
    numbers = np.minimum(places.astype(np.int32), bins - 1)
    own_place = _inner(places, windows)
    own_number = _inner(numbers, windows)
    counts = [window.lengths() for window in windows]
    voxels = (counts[0][:, None, None] * counts[1][:, None] * counts[2]).astype(np.float32)
    limit = np.maximum(np.float32(1), np.float32(clip_limit) * voxels)

    below = np.zeros(own_place.shape, np.float32)  # kept voxels in darker bins, and in the own bin up to its place
    kept = np.zeros(own_place.shape, np.float32)
    for number in np.unique(numbers):
        held = np.minimum(_count(numbers == number, windows), limit)
        own = own_number == number
        below[own] = (kept + held * (own_place - np.float32(number)))[own]
        kept += held
    spread = (voxels - kept) * own_place / np.float32(bins)
    return np.asarray((below + spread) / voxels, np.float32)


class _Window:
    """A window that slides along one axis of a block, cut at the block's ends."""

    def __init__(self, length: int, radius: int, before: int, after: int) -> None:
        centre = np.arange(before, length - after)
        self.inner = slice(before, length - after)
        self.radius = radius
        self.begin = np.maximum(centre - radius, 0)
        self.end = np.minimum(centre + radius + 1, length)

    def lengths(self) -> NDArray[np.int64]:
        return np.asarray(self.end - self.begin)


def _inner(block: NDArray[Any], windows: Sequence[_Window]) -> NDArray[Any]:
    return np.asarray(block[tuple(window.inner for window in windows)])


def _count(members: NDArray[np.bool_], windows: Sequence[_Window]) -> Float32:
    """How many members the window around each inner voxel holds, axis by axis from running sums."""
    counts: NDArray[Any] = members.view(np.uint8)
    for axis, window in enumerate(windows):
        if window.radius == 0:
            counts = counts.take(np.arange(window.inner.start, window.inner.stop), axis=axis)
            continue
        shape = list(counts.shape)
        shape[axis] += 1
        sums = np.zeros(shape, np.int32)
        later: tuple[Any, ...] = (*[slice(None)] * axis, slice(1, None))
        np.cumsum(counts, axis=axis, dtype=np.int32, out=sums[later])
        counts = sums.take(window.end, axis=axis) - sums.take(window.begin, axis=axis)
    return counts.astype(np.float32)
