"""Smoothing, edges and ranks: kernels with context.

Every function takes a block `(..., z, y, x)` padded by its halo and returns the part without it. How a block
is padded where the data ends is the caller's: SciPy's default is `numpy.pad(…, mode="symmetric")`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chunkloom.kernels.separable import correlate_valid

Halo = tuple[int, int, int]
Float32 = NDArray[np.float32]
PerAxis = float | Sequence[float]

# Gaussians end at this many standard deviations, as SciPy's do.
TRUNCATE = 4.0


def per_axis(value: PerAxis) -> tuple[float, float, float]:
    """A number for all axes, or one each for z, y, x, as three floats."""
    if isinstance(value, (int, float)):
        return (float(value),) * 3
    z, y, x = (float(v) for v in value)
    return (z, y, x)


def crop(block: NDArray[Any], halo: Sequence[int]) -> NDArray[Any]:
    """`block` without `halo` voxels on both sides of its last three axes; a view."""
    inner: tuple[Any, ...] = (..., *(slice(h, n - h) for h, n in zip(halo, block.shape[-3:], strict=True)))
    return np.asarray(block[inner])


# Gaussian


def gaussian_halo(sigma: PerAxis) -> Halo:
    """Voxels of context of `gaussian`: 4 sigma, rounded."""
    z, y, x = (int(TRUNCATE * s + 0.5) for s in per_axis(sigma))
    return (z, y, x)


def gaussian(block: NDArray[Any], sigma: PerAxis) -> Float32:
    """Gaussian smoothing in float32; `sigma` in voxels, for all axes or z, y, x (0 leaves an axis alone).

    Equal to `scipy.ndimage.gaussian_filter` (its default truncation) on the whole array.
    """
    return correlate_valid(block, [_gaussian_taps(s, order=0) for s in per_axis(sigma)])


@lru_cache(maxsize=64)
def _gaussian_taps(sigma: float, order: int) -> NDArray[np.float64]:
    """Taps of a Gaussian, or of its first derivative, to correlate with."""
    if sigma < 0:
        raise ValueError(f"sigma must not be negative, got {sigma}")
    if sigma == 0:
        return np.array([1.0]) if order == 0 else np.array([-0.5, 0.0, 0.5])
    radius = int(TRUNCATE * sigma + 0.5)
    x = np.arange(-radius, radius + 1)
    taps = np.exp(-0.5 * (x / sigma) ** 2)
    taps /= taps.sum()
    if order == 1:
        taps = taps * x / sigma**2
    return np.asarray(taps)


def difference_of_gaussians_halo(low_sigma: PerAxis, high_sigma: PerAxis) -> Halo:
    """Voxels of context of `difference_of_gaussians`: that of the wider Gaussian on each axis."""
    low, high = gaussian_halo(low_sigma), gaussian_halo(high_sigma)
    return (max(low[0], high[0]), max(low[1], high[1]), max(low[2], high[2]))


def difference_of_gaussians(block: NDArray[Any], low_sigma: PerAxis, high_sigma: PerAxis) -> Float32:
    """Smoothed with `low_sigma` minus smoothed with `high_sigma`, float32: a band pass."""
    halo = difference_of_gaussians_halo(low_sigma, high_sigma)
    first, second = (
        gaussian(crop(block, [h - own for h, own in zip(halo, gaussian_halo(sigma), strict=True)]), sigma)
        for sigma in (low_sigma, high_sigma)
    )
    first -= second
    return first


def gradient_magnitude_halo(sigma: PerAxis) -> Halo:
    """Voxels of context of `gradient_magnitude`."""
    z, y, x = (max(1, h) if s == 0 else h for h, s in zip(gaussian_halo(sigma), per_axis(sigma), strict=True))
    return (z, y, x)


def gradient_magnitude(block: NDArray[Any], sigma: PerAxis, spacing: PerAxis = 1.0) -> Float32:
    """Length of the gradient of the block smoothed with `sigma` (voxels), per unit of `spacing`, float32.

    `spacing` is the size of a voxel along z, y, x: with nm, the result is per nm. Equal to
    `scipy.ndimage.gaussian_gradient_magnitude` at a spacing of 1. A sigma of 0 takes central differences.
    """
    sigmas, sizes = per_axis(sigma), per_axis(spacing)
    halo = gradient_magnitude_halo(sigma)
    total: Float32 | None = None
    for axis in range(3):
        taps = [_gaussian_taps(s, order=1 if a == axis else 0) for a, s in enumerate(sigmas)]
        # Taps shorter than the halo (the smoothing at a sigma of 0) must not shift the others.
        inner = crop(block, [h - len(t) // 2 for h, t in zip(halo, taps, strict=True)])
        part = correlate_valid(inner, taps)
        if sizes[axis] != 1:
            part /= np.float32(sizes[axis])
        np.square(part, out=part)
        total = part if total is None else np.add(total, part, out=total)
    assert total is not None
    return np.sqrt(total, out=total)


# Windows


def window_halo(size: int | Sequence[int]) -> Halo:
    """Voxels of context of a window of `size` voxels, for all axes or z, y, x: half, rounded down."""
    z, y, x = (int(s) // 2 for s in per_axis(size))
    return (z, y, x)


def uniform(block: NDArray[Any], size: int | Sequence[int]) -> Float32:
    """Mean over a box of `size` voxels, float32; halo: `window_halo(size)`.

    Equal to `scipy.ndimage.uniform_filter`: a box of even size reaches one voxel further towards lower
    indices.
    """
    taps = []
    for edge in per_axis(size):
        n = _window(edge)
        weights = np.full(n, 1 / n)
        taps.append(weights if n % 2 else np.append(weights, 0.0))
    return correlate_valid(block, taps)


def median(block: NDArray[Any], size: int | Sequence[int]) -> NDArray[Any]:
    """Median over a box of `size` voxels, in the block's dtype; halo: `window_halo(size)`.

    Equal to `scipy.ndimage.median_filter`, which it calls.
    """
    from scipy.ndimage import median_filter

    edges = [_window(edge) for edge in per_axis(size)]
    leading = [1] * (block.ndim - 3)
    return crop(median_filter(block, size=(*leading, *edges)), window_halo(edges))


def _window(edge: float) -> int:
    if edge < 1 or not math.isclose(edge, round(edge)):
        raise ValueError(f"a window must be a whole number of voxels, at least 1, got {edge}")
    return round(edge)
