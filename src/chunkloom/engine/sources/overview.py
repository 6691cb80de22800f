"""Synthetic tissue from afar: grey levels of voxels nearly as large as its cells, and larger.

While voxels are smaller than cells, the cell of each is traced and its faces are smeared over the voxel. In voxels as
large as cells, each seed adds what its part of the tissue is off the mean to the voxels about it; the sums are of
whole numbers, and so the same in any order. In larger ones the mean over all cells is all that is left of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chunkloom.engine.sources.micrograph import (
    MEMBRANE,
    MITOCHONDRION,
    add_membranes,
    cell_greys,
    centres,
    cytoplasm,
    mitochondrion_sizes,
)
from chunkloom.engine.sources.seeds import SPACING, Seeds, make_seeds
from chunkloom.engine.sources.tissue import Traced, trace_cells
from chunkloom.engine.volume import Array
from chunkloom.geometry import Box

MEAN = 153.0
"""Grey of the mean over many cells."""

_COVERED = 0.29  # The part of a seed's tissue that is membrane, with no neighbour in its own cell.
_FAR_FACES = 8.0  # What the faces of a voxel beyond the nearest take from its grey, where cells are traced.
_FILLED = 0.8  # The part of a mitochondrion that lies within its cell.
_PARTS = 64  # Weights along an axis are whole numbers of this.


def cells_from_afar(key: int, size: int, box: Box) -> Array:
    """Grey of a box of voxels of `size` finest voxels, without shading and grain: float32."""
    if size > 2 * SPACING:
        return np.full(box.shape, np.float32(MEAN))
    if size > SPACING:
        return _mean_greys(key, size, box)
    traced = trace_cells(key, centres(box, size))
    seeds, faces = traced.seeds, (traced.owner, traced.other, traced.distance)
    grey = cytoplasm(seeds, *faces, size)
    grey += (MITOCHONDRION - grey) * _mitochondrial(traced, size)
    add_membranes(grey, seeds, *faces, size)
    return grey - np.float32(_FAR_FACES)


def _mitochondrial(traced: Traced, size: int) -> Array:
    """The part of each voxel that is mitochondrion: a round blur about the seed that holds it."""
    long, short = mitochondrion_sizes(traced.seeds)
    volume = long * short * short
    # The mean of the half axes stands for the radius; the blur has the volume of the mitochondrion (4/3 pi = 4.19;
    # 0.957 is what (1 - r^2)^2 holds).
    radius = (long + 2 * short) / 3
    wide = np.float32(1.69) * (radius * radius + np.float32((0.75 * size) ** 2))
    most = volume * np.float32(4.19 * _FILLED / 0.957) / (wide * np.sqrt(wide))
    q = np.maximum(1 - traced.square / wide[traced.nearest], 0)
    return np.asarray(q * q * most[traced.nearest])


def _mean_greys(key: int, size: int, box: Box) -> Array:
    """The mean of cells, membranes and mitochondria: what each seed's part is off the mean, a tent about the seed."""
    # A tent reaches one voxel; one more place for the neighbours of each seed.
    lo = [(b - 1) * size // SPACING - 1 for b in box.lo]
    hi = [(h + 1) * size // SPACING + 2 for h in box.hi]
    seeds = make_seeds(key, lo, hi)
    greys = cell_greys(seeds)[seeds.root]
    greys += (MEMBRANE - greys) * _covered(seeds)
    long, short = mitochondrion_sizes(seeds)
    filled = long * short * short * np.float32(4.19 * _FILLED / SPACING**3)
    greys += (MITOCHONDRION - greys) * filled
    # All neighbours of the inner seeds, and their roots, are there.
    inner = (slice(2, -2),) * 3
    off = ((greys - np.float32(MEAN)) * 16).astype(np.int32).reshape(seeds.shape)[inner].ravel()
    places = [p.reshape(seeds.shape)[inner].ravel() for p in seeds.places]
    total = _spread(box, size, places, off) * (SPACING**3 / (16 * _PARTS**3 * size**3))
    return np.asarray((total + MEAN).astype(np.float32))


def _covered(seeds: Seeds) -> Array:
    """The part of each seed's tissue that is membrane."""
    root = seeds.root.reshape(seeds.shape)
    faces = np.zeros(seeds.shape, np.float32)
    for axis in range(3):
        for step in (1, -1):
            faces += np.roll(root, step, axis) != root
    return (faces * np.float32(_COVERED / 6)).ravel()


def _spread(box: Box, size: int, places: Sequence[Array], values: Array) -> Array:
    """Sums over seeds of `values` times a tent about the seed, `size` its half width, at every voxel.

    Weights along an axis are whole numbers of 1/64.
    """
    axes = []
    for p, b, n in zip(places, box.lo, box.shape, strict=True):
        steps = np.floor(p / size - np.float32(0.5)).astype(np.int32) + np.arange(2, dtype=np.int32)[:, None]
        away = np.abs((steps + np.float32(0.5)) * size - p)
        tent = np.rint(np.maximum(1 - away / size, 0) * _PARTS)
        tent[(steps < b) | (steps >= b + n)] = 0
        axes.append((np.clip(steps - b, 0, n - 1), tent.astype(np.float64)))
    (iz, wz), (iy, wy), (ix, wx) = axes
    shape = box.shape
    out = np.zeros(box.size)
    for i in range(2):
        for j in range(2):
            row, weight = (iz[i] * shape[1] + iy[j]) * shape[2], wz[i] * wy[j] * values
            for k in range(2):
                out += np.bincount(row + ix[k], weight * wx[k], box.size)
    return out.reshape(shape)
