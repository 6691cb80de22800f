"""Random numbers and smooth noise that depend on nothing but a place in the world.

The same place gives the same bits whatever box is asked for, in whatever order and on whatever machine: hashes of
whole numbers, and float arithmetic of + - * / alone, of which IEEE 754 fixes every bit. Reductions over arrays are
left out, as their order depends on the shape. Knows nothing of what the noise is for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chunkloom.engine.volume import Array

Layer = tuple[int, float]
"""Spacing of a lattice (finest voxels) and the standard deviation of its noise."""

# Standard deviation of quadratic B-spline interpolation, in three dimensions, of numbers even in -1 to 1.
_SPLINE_STD = 0.235


def mix(words: Array) -> Array:
    """uint32 words scrambled: every bit of a word changes about half of the bits that come out.

    The function "lowbias32" of Wellons, "Prospecting for hash functions" (2018).
    """
    out = words ^ (words >> 16)
    out *= np.uint32(0x7FEB352D)
    out ^= out >> 15
    out *= np.uint32(0x846CA68B)
    out ^= out >> 16
    return np.asarray(out)


def subkey(key: int, number: int) -> int:
    """One of many independent keys made from one."""
    return int(mix(mix(np.array([key & 0xFFFFFFFF], np.uint32)) + np.uint32(number))[0])


def words_at(key: int, z: Array, y: Array, x: Array) -> Array:
    """uint32 hashes of whole-number places; z, y, x are integer arrays that broadcast."""
    out = mix(z.astype(np.uint32) + np.uint32(key))
    out = mix(out + y.astype(np.uint32))
    return mix(out + x.astype(np.uint32))


def unit(words: Array) -> Array:
    """Words as float32 in 0 <= number < 1."""
    return np.asarray((words >> 8).astype(np.float32) * np.float32(2**-24))


def words_on(key: int, lo: Sequence[int], hi: Sequence[int]) -> Array:
    """`words_at` of every whole-number place of a box, as an array of its shape."""
    z, y, x = (np.arange(a, b) for a, b in zip(lo, hi, strict=True))
    return words_at(key, z[:, None, None], y[:, None], x)


def smooth_noise(key: int, layers: Sequence[Layer], at: Sequence[Array]) -> Array:
    """Noise with continuous first derivatives: a sum of lattices, mean 0.

    Parameters
    ----------
    key
        Other keys give independent noise.
    layers
        Finest first. Each coarser lattice is taken at the nodes of the next finer one, so that only the finest is
        interpolated at every place.
    at
        Places along z, y and x, finest voxels, ascending.

    Returns
    -------
    numpy.ndarray
        float32 of shape ``(len(z), len(y), len(x))``.
    """
    spacing, deviation = layers[0]
    steps = [places / spacing for places in at]
    lo = [int(np.floor(u[0])) - 1 for u in steps]
    hi = [int(np.floor(u[-1])) + 2 for u in steps]
    nodes = unit(words_on(subkey(key, spacing), lo, hi))
    nodes -= np.float32(0.5)
    nodes *= np.float32(2 * deviation / _SPLINE_STD)
    if len(layers) > 1:
        centres = [(np.arange(a, b) + 0.5) * spacing for a, b in zip(lo, hi, strict=True)]
        nodes += smooth_noise(key, layers[1:], centres)
    # x first and z last: the passes over whole arrays then run over long rows.
    for axis in (2, 1, 0):
        nodes = _interpolate(nodes, axis, lo[axis], steps[axis])
    return nodes


def _interpolate(nodes: Array, axis: int, first: int, steps: Array) -> Array:
    """Quadratic B-spline along one axis; node i, of which nodes[first] is the first, is centred at i + 1/2."""
    cell = np.floor(steps)
    f = (steps - cell).astype(np.float32)
    index = cell.astype(np.intp) - (first + 1)
    shape = [1, 1, 1]
    shape[axis] = len(f)
    half, one = np.float32(0.5), np.float32(1)
    before = (half * (one - f) * (one - f)).reshape(shape)
    after = (half * f * f).reshape(shape)
    here = one - before - after
    out = np.take(nodes, index, axis)
    out *= before
    term = np.take(nodes, index + 1, axis)
    term *= here
    out += term
    np.take(nodes, index + 2, axis, out=term)
    term *= after
    out += term
    return np.asarray(out)
