"""Grey and binary morphology with boxes, and filled holes.

Dilation and erosion are kernels with context: they take a block `(..., z, y, x)` padded by
`window_halo(size)` (twice that for opening and closing) and return the part without it. `size` is the edge of
the box in voxels, one for all axes or z, y, x. A box of even size reaches one voxel further towards higher
indices, as in scikit-image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chunkloom.kernels.filters import Halo, crop, per_axis, window_halo

Size = int | Sequence[int]


def dilate(block: NDArray[Any], size: Size) -> NDArray[Any]:
    """Largest value in the box around each voxel."""
    return _extreme(block, size, np.maximum)


def erode(block: NDArray[Any], size: Size) -> NDArray[Any]:
    """Smallest value in the box around each voxel."""
    return _extreme(block, size, np.minimum)


def two_pass_halo(size: Size) -> Halo:
    """Voxels of context of `open_box` and `close_box`."""
    z, y, x = window_halo(size)
    return (2 * z, 2 * y, 2 * x)


def open_box(block: NDArray[Any], size: Size) -> NDArray[Any]:
    """Erosion, then dilation: removes bright parts that the box does not fit into. `size` must be odd."""
    _check_odd(size)
    return dilate(erode(block, size), size)


def close_box(block: NDArray[Any], size: Size) -> NDArray[Any]:
    """Dilation, then erosion: fills dark parts that the box does not fit into. `size` must be odd."""
    _check_odd(size)
    return erode(dilate(block, size), size)


def fill_holes(mask: NDArray[Any]) -> NDArray[np.bool_]:
    """True where `mask` is not zero and in background that face neighbours do not join to the border.

    Keeps the shape; looks at the block it is given, so a hole that a block cuts open stays open in it. Equal
    to `scipy.ndimage.binary_fill_holes` on each `(z, y, x)`, but by one labelling instead of repeated
    dilation.
    """
    from scipy.ndimage import label

    filled = np.asarray(mask != 0)
    if filled is mask:
        filled = mask.copy()
    for index in np.ndindex(*filled.shape[:-3]):
        volume = filled[index]
        background, count = label(~volume)
        outside = np.zeros(count + 1, bool)
        outside[0] = True  # the mask itself, which stays as it is
        for axis in range(3):
            for side in (0, -1):
                outside[background.take(side, axis=axis)] = True
        volume |= ~outside[background]
    return filled


def _extreme(block: NDArray[Any], size: Size, extreme: Any) -> NDArray[Any]:
    result = block
    for axis, (edge, halo) in enumerate(zip(per_axis(size), window_halo(size), strict=True)):
        if edge > 1:
            # The box of an even size starts one voxel after the halo does.
            first = halo - (int(edge) - 1) // 2
            result = _running(_from(result, axis - 3, first), int(edge), axis - 3, extreme)
    return result.copy() if result is block else result


def _running(block: NDArray[Any], size: int, axis: int, extreme: Any) -> NDArray[Any]:
    """The extreme over every window of `size`, by doubling: log2(size) passes."""
    result, width = block, 1
    while 2 * width <= size:
        result = extreme(_until(result, axis, width), _from(result, axis, width))
        width *= 2
    rest = size - width
    if rest:
        result = extreme(_until(result, axis, rest), _from(result, axis, rest))
    return result


def _from(block: NDArray[Any], axis: int, start: int) -> NDArray[Any]:
    part: tuple[Any, ...] = (..., slice(start, None), *[slice(None)] * (-1 - axis))
    return np.asarray(block[part])


def _until(block: NDArray[Any], axis: int, left_out: int) -> NDArray[Any]:
    part: tuple[Any, ...] = (..., slice(None, block.shape[axis] - left_out), *[slice(None)] * (-1 - axis))
    return np.asarray(block[part])


def _check_odd(size: Size) -> None:
    if any(edge % 2 == 0 for edge in per_axis(size)):
        raise ValueError(f"the box must have an odd number of voxels along each axis, got {size}")


__all__ = ["close_box", "crop", "dilate", "erode", "fill_holes", "open_box", "two_pass_halo", "window_halo"]
