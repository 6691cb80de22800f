"""`describe`: what a volume is, as the one JSON object that `chunkloom inspect --json` prints."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import time
from typing import Any

import numpy as np

from chunkloom.errors import ParameterError
from chunkloom.geometry import Box
from chunkloom.io import discover
from chunkloom.io.discover import Level
from chunkloom.io.metadata import ArrayMeta
from chunkloom.io.paths import parse_path
from chunkloom.io.source import Reader, open_reader

_log = logging.getLogger(__name__)

# A view across an axis is this many voxels wide and high.
_VIEW = 256
# A cubic chunk of 64 decodes 64 times what a plane shows; past this many a viewer feels it.
_SLOW_TO_VIEW = 512
# How many bytes of an array are held at once to be summed.
_SLAB_BYTES = 256 * 2**20
_SECONDS_BETWEEN_REPORTS = 5.0


def describe(
    path: str | os.PathLike[str],
    checksum: bool = False,
    level: int | None = None,
    dimension_separator: str | None = None,
) -> dict[str, Any]:
    """What is at `path`.

    Parameters
    ----------
    checksum : add `sha256` of each level's voxels as C-order little-endian bytes, axes as listed. Reads all of them.
    level : only this one; 0 is the finest.

    Returns
    -------
    dict
        `{"path", "format", "levels": [{"path", "shape", "dtype", "chunk_shape", "axes", "voxel_size_nm", "corner_nm",
        "codec", "sha256"?}], "warnings"}`; sizes and corners in nm, z, y, x.

    Raises
    ------
    ChunkloomError
        As `open_levels`; `ParameterError` for a level that there is not.
    """
    found = discover.find_pyramid(parse_path(path), dimension_separator)
    levels = list(found.levels)
    if level is not None:
        if not 0 <= level < len(levels):
            raise ParameterError(f"{path} has {len(levels)} levels: expected 0 to {len(levels) - 1}, found {level}")
        levels = [levels[level]]
    warnings = list(found.warnings)
    described = []
    for entry in levels:
        warnings.extend(slow_to_view(entry.meta))
        described.append(_describe(entry, checksum))
    return {
        "path": os.fspath(path),
        "format": found.format,
        "levels": described,
        "warnings": list(dict.fromkeys(warnings)),
    }


def _describe(level: Level, checksum: bool) -> dict[str, Any]:
    meta = level.meta
    if level.layout.reader == "chunkwise":
        open_reader(level.store, level.layout)  # says what it cannot decode
    result: dict[str, Any] = {
        "path": meta.path,
        "shape": list(meta.shape),
        "dtype": meta.dtype.name,
        "chunk_shape": list(meta.chunk_shape),
        "axes": list(meta.axes),
        "voxel_size_nm": list(meta.voxel_size_nm),
        "corner_nm": list(meta.corner_nm),
        "codec": meta.codec,
    }
    if checksum:
        result["sha256"] = sha256(open_reader(level.store, level.layout), meta)
    return result


def sha256(reader: Reader, meta: ArrayMeta) -> str:
    """SHA-256 of an array's C-order little-endian bytes, read in slabs of whole chunks along the first axis.

    Where one slab does not fit, the next axis is cut too: the bytes come in the same order.
    """
    total = hashlib.sha256()
    stored = meta.dtype.newbyteorder("<")
    started = reported = time.monotonic()
    done, size = 0, math.prod(meta.shape)
    for box in _slabs(meta):
        block = np.empty(box.shape, meta.dtype)
        if block.size:
            reader.read_into(box, block)
        total.update(np.ascontiguousarray(block.astype(stored, copy=False)).data)
        done += block.size
        now = time.monotonic()
        if now - reported > _SECONDS_BETWEEN_REPORTS:
            reported = now
            _log.info("summing %s: %d %% after %d s", meta.path, 100 * done // max(1, size), now - started)
    return total.hexdigest()


def _slabs(meta: ArrayMeta) -> list[Box]:
    """Boxes that follow each other in C order and hold at most about `_SLAB_BYTES` each."""
    lo, hi = (0,) * len(meta.shape), meta.shape
    boxes = [Box(lo, hi)]
    for axis, chunk in enumerate(meta.chunk_shape):
        row = math.prod(meta.shape[axis + 1 :]) * meta.dtype.itemsize
        if meta.shape[axis] * row <= _SLAB_BYTES:
            break
        step = max(1, _SLAB_BYTES // max(1, row))
        step = step - step % chunk if step >= chunk else (chunk if row <= _SLAB_BYTES else 1)
        boxes = [
            Box(
                (*box.lo[:axis], b, *box.lo[axis + 1 :]),
                (*box.hi[:axis], min(b + step, box.hi[axis]), *box.hi[axis + 1 :]),
            )
            for box in boxes
            for b in range(box.lo[axis], box.hi[axis], step)
        ]
    return boxes


def slow_to_view(meta: ArrayMeta) -> list[str]:
    """A warning, with the number, for chunks that make a cross-section decode far more than it shows."""
    shape, chunk = meta.spatial_shape, meta.spatial_chunk_shape
    if 0 in shape:
        return []
    worst, worst_axis, worst_bytes = 0.0, "", 0
    lead = math.prod(size for axis, size in zip(meta.axes, meta.chunk_shape, strict=True) if axis not in "zyx")
    for across, name in enumerate("zyx"):
        decoded, shown = lead, 1
        for axis in range(3):
            wanted = 1 if axis == across else min(_VIEW, shape[axis])
            decoded *= -(-wanted // chunk[axis]) * chunk[axis]
            shown *= wanted
        if decoded / shown > worst:
            worst, worst_axis, worst_bytes = decoded / shown, name, decoded * meta.dtype.itemsize
    if worst <= _SLOW_TO_VIEW:
        return []
    return [
        f"{meta.path}: chunks of {' x '.join(map(str, chunk))} are slow to view: a {_VIEW} x {_VIEW} cross-section "
        f"along {worst_axis} decodes {worst_bytes / 2**20:.0f} MiB, {worst:.0f} times what it shows"
    ]
