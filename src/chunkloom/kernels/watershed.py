"""Watersheds: objects that touch, split by their shape or by the affinities between voxels.

Both look at the block they are given and keep its shape; ids are 1 … n within it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chunkloom.kernels.distance import EXTRA, distance
from chunkloom.kernels.labels import label, mean_per_label, relabel_sequential
from chunkloom.kernels.optional import optional_module


def distance_watershed(
    mask: NDArray[Any], min_distance: int, spacing: Sequence[float] = (1.0, 1.0, 1.0)
) -> tuple[NDArray[np.uint32], int]:
    """Split touching objects at their necks: watershed of the distance to the background.

    Parameters
    ----------
    mask : (z, y, x) array
        Not zero where there are objects.
    min_distance : int
        Seeds are the voxels that are deepest within a cube reaching this many voxels to each side.
    spacing : three numbers
        Size of a voxel along z, y, x, for the distance.

    Returns
    -------
    labels : uint32 array
        1 … n in every object, 0 elsewhere. Each connected component (over faces) has at least one id.
    count : int
        n.
    """
    from scipy.ndimage import maximum_filter

    segmentation = optional_module("skimage.segmentation", EXTRA, "a watershed")
    inside = np.asarray(mask != 0)
    # Without background in the block the distance is infinite, which has no deepest voxel.
    depth = np.minimum(distance(inside, spacing), np.float32(sum(inside.shape) * max(spacing)))
    deepest = inside & (depth == maximum_filter(depth, size=2 * min_distance + 1))
    seeds, count = label(deepest, connectivity=3)
    seeds, count = _seed_every_component(inside, seeds, count)
    labels = segmentation.watershed(-depth, seeds.astype(np.int32), mask=inside)
    return labels.astype(np.uint32), count


def _seed_every_component(
    inside: NDArray[np.bool_], seeds: NDArray[np.uint32], count: int
) -> tuple[NDArray[np.uint32], int]:
    """Seeds, and a whole component as one where it has none because a deeper neighbour is too near."""
    components, _ = label(inside)
    seeded = np.unique(components[seeds > 0])
    lost = ~np.isin(components, seeded) & inside
    if not lost.any():
        return seeds, count
    extra, more = label(lost)
    return np.where(extra > 0, extra + np.uint32(count), seeds), count + more


def mutex_watershed(
    affinities: NDArray[Any], offsets: Sequence[Sequence[int]], bias: float
) -> tuple[NDArray[np.uint64], int]:
    """Objects of affinities by the mutex watershed (Wolf et al., 2018), by the package mwatershed.

    Parameters
    ----------
    affinities : (n, z, y, x) array
        How much a voxel and the one at `offsets[i]` from it belong together: 0 not at all, 1 entirely.
    offsets : n times (z, y, x)
        In voxels.
    bias : float
        Affinities above it attract, below it repel. Objects whose mean affinity is below it are dropped.

    Returns
    -------
    labels : (z, y, x) uint64 array
        1 … n, 0 where there is nothing.
    count : int
        n.
    """
    agglomeration = optional_module("mwatershed", EXTRA, "a mutex watershed")
    signed = affinities.astype(np.float64) - bias
    fragments = agglomeration.agglom(signed, [[int(n) for n in offset] for offset in offsets])
    labels, count = relabel_sequential(fragments.astype(np.uint64))
    means = mean_per_label(labels.astype(np.int64), signed.mean(axis=0), count)
    weak = np.flatnonzero(means < 0)
    labels[np.isin(labels, weak)] = 0
    return relabel_sequential(labels)
