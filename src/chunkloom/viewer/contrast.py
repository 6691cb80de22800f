"""The grey values a volume is shown between, from a look at a little of its coarsest level."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from chunkloom.errors import ChunkloomError
from chunkloom.geometry import Box
from chunkloom.viewer.layers import dtype_range

if TYPE_CHECKING:
    from chunkloom.engine.volume import Level, Volume

PERCENTILES = (0.5, 99.5)
SAMPLE_CHUNKS = 8
SAMPLE_VOXELS = 2**23

log = logging.getLogger(__name__)


def contrast_range(volume: Volume) -> tuple[float, float]:
    """The values to show black and white: percentiles 0.5 and 99.5 of a sample of the coarsest level it has of its own.

    The sample is the whole level where that is at most 2**23 values, else pieces of at most eight of its chunks, the
    same ones every time. NaN and infinities do not count. Whole numbers for integer dtypes.

    Where the sample holds a single value, nothing finite, or cannot be read: all that the dtype holds (0 to 1 for
    floats), with a line in the log in the last case, so that a volume with a broken chunk is still shown.
    """
    index = volume.own_levels - 1
    level = volume.levels[index]
    fallback: tuple[float, float] = dtype_range(level.dtype)
    try:
        values = np.concatenate([volume.read(box, index).ravel() for box in sample_boxes(level)])
    except ChunkloomError as error:
        log.warning("contrast: level %d cannot be sampled, showing %g to %g: %s", index, *fallback, error)
        return fallback
    if level.dtype.kind == "f":
        values = values[np.isfinite(values)]
    if values.size == 0:
        return fallback
    low, high = (float(v) for v in np.percentile(values, PERCENTILES))
    if level.dtype.kind in "iu":
        low, high = float(np.floor(low)), float(np.ceil(high))
    return (low, high) if low < high else fallback


def sample_boxes(level: Level) -> list[Box]:
    """The boxes of `level` to look at: all of it, or the middle of up to two chunks an axis."""
    channels = int(np.prod(level.channels, dtype=np.int64))
    if level.box.size * channels <= SAMPLE_VOXELS:
        return [level.box]
    side = max(1, int((SAMPLE_VOXELS / SAMPLE_CHUNKS / channels) ** (1 / 3) + 1e-9))
    picked = [sorted({n // 4, n * 3 // 4}) for n in level.chunk_grid]
    lattice = np.stack(np.meshgrid(*picked, indexing="ij"), axis=-1).reshape(-1, 3)
    boxes = []
    for chunk in lattice.tolist():
        whole = Box.of_chunk(chunk, level.spatial_chunk).intersect(level.box)
        lo = tuple(b + max(0, n - side) // 2 for b, n in zip(whole.lo, whole.shape, strict=True))
        hi = tuple(b + min(n, side) for b, n in zip(lo, whole.shape, strict=True))
        boxes.append(Box(lo, hi))
    return boxes
