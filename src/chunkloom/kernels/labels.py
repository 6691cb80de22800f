"""Labels: connected components, renumbering, and ids that are unique over a whole grid of chunks.

Ids are never negative, 0 is the background, and 64-bit ids stay exact. These kernels look at the block they
are given and keep its shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[Any]


def label(mask: NDArray[Any], connectivity: int = 1) -> tuple[NDArray[np.uint32], int]:
    """Connected components of what is not zero in `(z, y, x)`, numbered 1 … n in C order of first voxels.

    `connectivity` 1 joins over faces, 2 over edges too, 3 over corners too (NaN is background). Equal to
    `scipy.ndimage.label`, which it calls.
    """
    from scipy.ndimage import generate_binary_structure
    from scipy.ndimage import label as connected_components

    occupied = (mask != 0) & (mask == mask)
    structure = generate_binary_structure(mask.ndim, connectivity)
    labels = np.empty(mask.shape, np.uint32)
    count = connected_components(occupied, structure, output=labels)
    return labels, int(count)


def relabel_sequential(labels: Labels) -> tuple[Labels, int]:
    """Ids renumbered 1 … n in the order of their values, 0 kept, in the same dtype; and n."""
    ids, inverse = np.unique(labels, return_inverse=True)
    background = bool(len(ids)) and ids[0] == 0
    numbers = np.arange(len(ids)) if background else np.arange(1, len(ids) + 1)
    count = len(ids) - 1 if background else len(ids)
    return numbers.astype(labels.dtype)[inverse].reshape(labels.shape), count


def relabel(labels: Labels, old: NDArray[Any], new: NDArray[Any]) -> Labels:
    """Every id that is in `old` (sorted, unique) replaced by the one at its place in `new`; others stay.

    The result has the dtype of `new`, which must hold the ids that stay.
    """
    if len(old) == 0:
        return labels.astype(new.dtype)
    place = np.searchsorted(old, labels)
    place[place == len(old)] = 0
    return np.where(old[place] == labels, new[place], labels.astype(new.dtype))


def morton_index(index: Sequence[int]) -> int:
    """Bits of a chunk index interleaved (Morton, 1966), the first axis in the lowest bit.

    Raises
    ------
    ValueError
        If an index is negative.
    """
    code, axes = 0, len(index)
    for axis, value in enumerate(int(i) for i in index):
        if value < 0:
            raise ValueError(f"a chunk index must not be negative, got {tuple(index)}")
        for bit in range(value.bit_length()):
            code |= (value >> bit & 1) << (bit * axes + axis)
    return code


def chunk_id_offset(index: Sequence[int], chunk_voxels: int) -> int:
    """What to add to the ids 1 … `chunk_voxels` of a chunk so that they are unique over all chunks.

    Raises
    ------
    ValueError
        If the largest id of the chunk would need more than 64 bits.
    """
    offset = chunk_voxels * morton_index(index)
    if offset + chunk_voxels >= 2**64:
        raise ValueError(f"ids of chunk {tuple(index)} with {chunk_voxels} voxels need more than 64 bits")
    return offset


def add_to_ids(labels: Labels, offset: int) -> NDArray[np.uint64]:
    """`labels` as uint64 with `offset` added to every id but 0."""
    result = labels.astype(np.uint64)
    np.add(result, np.uint64(offset), out=result, where=result != 0)
    return result


def contacts(labels: Labels) -> NDArray[np.uint8]:
    """1 where an id of `(…, z, y, x)` has another id next to it over a face along z, y or x, else 0."""
    touching = np.zeros(labels.shape, np.uint8)
    for axis in (-3, -2, -1):
        lower: Any = (..., slice(None, -1), *(slice(None),) * (-1 - axis))
        upper: Any = (..., slice(1, None), *(slice(None),) * (-1 - axis))
        a, b = labels[lower], labels[upper]
        differ = (a != b) & (a != 0) & (b != 0)
        touching[lower] |= differ
        touching[upper] |= differ
    return touching


def mean_per_label(labels: Labels, values: NDArray[Any], count: int) -> NDArray[np.float64]:
    """Mean of `values` over each id 0 … `count`; NaN for ids without voxels."""
    flat = labels.reshape(-1)
    sums = np.bincount(flat, weights=values.reshape(-1), minlength=count + 1)
    voxels = np.bincount(flat, minlength=count + 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums / voxels)
