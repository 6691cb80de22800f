"""Statistics of a whole level from a bounded, repeatable sample of it.

Where to sample is a pure function of the level's shape and item size, and every rule here uses only integer
arithmetic below 2**53 and 32-bit multiplication, so that the browser engine picks the same boxes and freezes
the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

SAMPLE_BYTES = 64 * 1024 * 1024
SAMPLE_EDGE = 64
SIGNIFICANT_DIGITS = 9

Corner = tuple[int, ...]


def sample_boxes(shape: Sequence[int], itemsize: int) -> list[tuple[Corner, Corner]]:
    """Boxes whose voxels stand for a whole level in its statistics.

    A level of at most 64 MB is one box, all of it. A larger one is cut into cubes of 64 voxels (smaller at
    the upper edges), numbered in C order; as many as fit into 64 MB are taken, one from each of as many equal
    stretches of that numbering, at a place in the stretch that a fixed hash chooses.

    Parameters
    ----------
    shape : sequence of int
        Voxels of the level's spatial axes, z, y, x (any number of axes works).
    itemsize : int
        Bytes of a voxel, times the number of channels when all of them are read.

    Returns
    -------
    list of (begin, end)
        Half-open boxes in voxels, in C order; empty when the level is empty.
    """
    shape = tuple(int(n) for n in shape)
    total = itemsize
    for n in shape:
        total *= n
    if total == 0:
        return []
    if total <= SAMPLE_BYTES:
        return [((0,) * len(shape), shape)]
    grid = [-(-n // SAMPLE_EDGE) for n in shape]
    blocks = 1
    for n in grid:
        blocks *= n
    wanted = max(1, min(blocks, SAMPLE_BYTES // (SAMPLE_EDGE ** len(shape) * itemsize)))
    boxes = []
    for k in range(wanted):
        first, past = k * blocks // wanted, (k + 1) * blocks // wanted
        index = first + _hash32(k) % (past - first)
        begin: list[int] = []
        for n in reversed(grid):
            begin.insert(0, index % n * SAMPLE_EDGE)
            index //= n
        end = tuple(min(b + SAMPLE_EDGE, n) for b, n in zip(begin, shape, strict=True))
        boxes.append((tuple(begin), end))
    return boxes


def _hash32(k: int) -> int:
    """The finalizer of MurmurHash3 (32 bits) on `k + 1`: multiplications wrap, as Math.imul does."""
    h = (k + 1) & 0xFFFFFFFF
    h = (h ^ (h >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ (h >> 16)


def mean_std(blocks: Iterable[NDArray[Any]]) -> tuple[float, float]:
    """Mean and population standard deviation of all finite values, rounded to 9 significant digits.

    Two passes in float64. A constant sample has a standard deviation of 1, so that dividing by it is
    harmless.

    Raises
    ------
    ValueError
        If there is no finite value.
    """
    values = _finite_values(blocks)
    mean = float(np.mean(values, dtype=np.float64))
    deviations = np.subtract(values, mean, dtype=np.float64)
    np.square(deviations, out=deviations)
    std = math.sqrt(float(np.mean(deviations)))
    return _rounded(mean), _rounded(std) or 1.0


def percentiles(blocks: Iterable[NDArray[Any]], low: float, high: float) -> tuple[float, float]:
    """Two percentiles of all finite values, linear between neighbours, rounded to 9 significant digits.

    When both are the same value v, (v, v + 1) is returned, so that a range of 0 is never divided by.

    Raises
    ------
    ValueError
        If there is no finite value.
    """
    values = _finite_values(blocks)
    ranks = [percent / 100 * (values.size - 1) for percent in (low, high)]
    neighbours = sorted({math.floor(rank) for rank in ranks} | {math.ceil(rank) for rank in ranks})
    ordered = np.partition(values, neighbours)
    first, last = (_rounded(_between(ordered, rank)) for rank in ranks)
    return (first, last) if last > first else (first, first + 1.0)


def _between(ordered: NDArray[Any], rank: float) -> float:
    below, above = float(ordered[math.floor(rank)]), float(ordered[math.ceil(rank)])
    return below + (above - below) * (rank - math.floor(rank))


def _finite_values(blocks: Iterable[NDArray[Any]]) -> NDArray[Any]:
    flat = [np.asarray(block).reshape(-1) for block in blocks]
    values = np.concatenate(flat) if flat else np.empty(0)
    if values.dtype.kind == "f":
        values = values[np.isfinite(values)]
    if values.size == 0:
        raise ValueError("the sample holds no finite value")
    return values


def _rounded(value: float) -> float:
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")
