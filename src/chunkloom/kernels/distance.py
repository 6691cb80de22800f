"""Distances to the border of an object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chunkloom.kernels.optional import optional_module

Float32 = NDArray[np.float32]

EXTRA = "segmentation"


def distance(
    labels: NDArray[Any], spacing: Sequence[float], *, black_border: bool = False, threads: int = 1
) -> Float32:
    """Euclidean distance of each voxel to the nearest voxel with another value; 0 where the value is 0.

    Parameters
    ----------
    labels : (z, y, x) array
        0 is background; every other value is an object of its own.
    spacing : three numbers
        Size of a voxel along z, y, x; distances are in its unit.
    black_border : bool
        Take what lies beyond the block for background.
    threads : int
        Threads to compute on.

    Returns
    -------
    float32 array
        Infinite where the block holds no other value.

    Notes
    -----
    Felzenszwalb and Huttenlocher, "Distance Transforms of Sampled Functions", 2012, by the package edt.
    """
    return _with_edt("edt", labels, spacing, black_border, threads)


def signed_distance(
    labels: NDArray[Any], spacing: Sequence[float], *, black_border: bool = False, threads: int = 1
) -> Float32:
    """`distance` inside objects, and in the background the negative distance to the nearest object."""
    return _with_edt("sdf", labels, spacing, black_border, threads)


def _with_edt(
    function: str, labels: NDArray[Any], spacing: Sequence[float], black_border: bool, threads: int
) -> Float32:
    edt = optional_module("edt", EXTRA, "a distance transform")
    if labels.dtype == np.float16:  # which edt does not take
        labels = labels.astype(np.float32)
    contiguous = np.ascontiguousarray(labels)
    transform = getattr(edt, function)
    result = transform(
        contiguous, anisotropy=tuple(float(s) for s in spacing), black_border=black_border, parallel=threads
    )
    return np.asarray(result, np.float32)


def activation_halo(reach: float, spacing: float) -> int:
    """Voxels after which a function of the distance that is constant beyond `reach` no longer changes."""
    return int(np.ceil(reach / spacing)) + 1
