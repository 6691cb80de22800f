"""Correlation with one-dimensional weights along each axis, valid part only, as tiled banded matrix products.

A correlation along an axis is a product with a band matrix that is almost all zeros. Cut into tiles of a few
output rows, each tile is a small dense product that the BLAS library does at full speed, with little waste:
64 x 64 x 64 voxels at a radius of 6 take about a sixth of SciPy's time. Nothing here knows what the weights
mean.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]

_TILE = 8
# Scratch arrays up to this size stay with their thread; larger ones are rare and given back.
_KEPT_BYTES = 32 * 1024 * 1024


def correlate_valid(block: NDArray[Any], weights: Sequence[NDArray[np.float64]]) -> Float32:
    """`block` correlated with `weights[0]` along z, `weights[1]` along y and `weights[2]` along x.

    Parameters
    ----------
    block : (..., z, y, x) array
        Real numbers; computed in float32.
    weights : three 1-D arrays
        Taps of each axis.

    Returns
    -------
    float32 array
        Shorter than `block` by `len(weights) - 1` along each axis: only where all taps have a voxel.
    """
    lengths = tuple(len(w) for w in weights)
    if block.ndim < 3 or any(n < k for n, k in zip(block.shape[-3:], lengths, strict=True)):
        raise ValueError(f"a block of shape {block.shape} is too small for weights of lengths {lengths}")
    bands = [_band(tuple(float(v) for v in w)) for w in weights]
    leading = block.shape[:-3]
    shape = tuple(n - k + 1 for n, k in zip(block.shape[-3:], lengths, strict=True))
    out = np.empty((*leading, *shape), np.float32)
    for index in np.ndindex(*leading):
        _correlate(block[index], bands, lengths, out[index])
    return out


def _correlate(block: NDArray[Any], bands: list[Float32], lengths: tuple[int, ...], out: Float32) -> None:
    (nz, ny, nx), (_, wy, wx) = out.shape, block.shape
    source = _scratch(0, block.shape)
    source[...] = block
    if block.dtype.kind == "f" and not np.isfinite(source).all():
        _shift_and_add(source, bands, lengths, out)
        return
    along_z = _scratch(1, (nz, wy, wx))
    _rows(bands[0], lengths[0], source.reshape(len(source), -1), along_z.reshape(nz, -1))
    along_y = _scratch(2, (nz, ny, wx))
    _rows(bands[1], lengths[1], along_z, along_y)
    _columns(bands[2], lengths[2], along_y.reshape(-1, wx), out.reshape(-1, nx))


def _rows(band: Float32, taps: int, source: Float32, out: Float32) -> None:
    """Correlate along the second axis from the end."""
    count = out.shape[-2]
    if taps == 1:
        np.multiply(source, band[0, 0], out=out)
        return
    # All whole tiles in one product: between two, another thread would take its turn, which costs more than a tile.
    whole = count // _TILE
    if whole:
        tiles = _tiles(source, -2, whole, _TILE + taps - 1)
        np.matmul(band, tiles, out=_tiles(out, -2, whole, _TILE))
    start, n = whole * _TILE, count % _TILE
    if n:
        tile = source[..., start : start + n + taps - 1, :]
        np.matmul(band[:n, : n + taps - 1], tile, out=out[..., start : start + n, :])


def _columns(band: Float32, taps: int, source: Float32, out: Float32) -> None:
    """Correlate along the last axis, of two."""
    count = out.shape[-1]
    if taps == 1:
        np.multiply(source, band[0, 0], out=out)
        return
    turned = band.T
    whole = count // _TILE
    if whole:
        tiles = _tiles(source, -1, whole, _TILE + taps - 1)
        np.matmul(tiles, turned, out=_tiles(out, -1, whole, _TILE))
    start, n = whole * _TILE, count % _TILE
    if n:
        tile = source[:, start : start + n + taps - 1]
        np.matmul(tile, turned[: n + taps - 1, :n], out=out[:, start : start + n])


def _tiles(array: Float32, axis: int, count: int, length: int) -> Float32:
    """A view of `count` tiles of `length` along an axis, one tile's length after the other: a new third axis from the
    end. They overlap where `length` is more than a tile's."""
    shape, strides = list(array.shape), list(array.strides)
    step = strides[axis] * _TILE
    shape[axis] = length
    return np.lib.stride_tricks.as_strided(
        array, [*shape[:-2], count, *shape[-2:]], [*strides[:-2], step, *strides[-2:]]
    )


def _shift_and_add(block: Float32, bands: list[Float32], lengths: tuple[int, ...], out: Float32) -> None:
    """The same sum tap by tap, for a block with NaN or infinities.

    In a band matrix these would meet zeros, and 0 times NaN is NaN: it would reach as far as the tile does.
    """
    for axis, (band, taps) in enumerate(zip(bands, lengths, strict=True)):
        count = block.shape[axis] - taps + 1
        total: Float32 | None = None
        for tap in range(taps):
            part: tuple[Any, ...] = (*[slice(None)] * axis, slice(tap, tap + count))
            if band[0, tap] != 0:
                term = block[part] * band[0, tap]
                total = term if total is None else np.add(total, term, out=total)
        assert total is not None
        block = total
    out[...] = block


@lru_cache(maxsize=64)
def _band(taps: tuple[float, ...]) -> Float32:
    """The band matrix of one tile: row i holds the taps from column i on."""
    band = np.zeros((_TILE, _TILE + len(taps) - 1), np.float32)
    for row in range(_TILE):
        band[row, row : row + len(taps)] = taps
    band.setflags(write=False)
    return band


class _Scratch(threading.local):
    def __init__(self) -> None:
        self.arrays: dict[int, Float32] = {}


_threads = _Scratch()


def _scratch(slot: int, shape: tuple[int, ...]) -> Float32:
    """An uninitialized array that stays with its thread, so that its pages are faulted in only once."""
    size = int(np.prod(shape))
    held = _threads.arrays.get(slot)
    if held is None or held.size < size:
        held = np.empty(size, np.float32)
        if held.nbytes <= _KEPT_BYTES:
            _threads.arrays[slot] = held
    return held[:size].reshape(shape)
