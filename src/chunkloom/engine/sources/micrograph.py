"""What synthetic tissue looks like in an electron microscope: grey levels from the geometry of its cells.

Dark membranes, cytoplasm of another grey in each cell, mitochondria with cristae, vesicles, slow shading and grain.
Each level is made at its own voxels: what is thinner than a voxel gets wider and fainter, as in the mean over one,
and what is much smaller is left out but for its mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from chunkloom.engine.sources.lattice import Layer, mix, smooth_noise, subkey, unit, words_on
from chunkloom.engine.sources.seeds import Seeds
from chunkloom.engine.sources.tissue import FINE, Cells, find_cells
from chunkloom.engine.volume import Array
from chunkloom.geometry import Box

MEMBRANE = np.float32(76)  # Grey in the middle of a membrane.
MITOCHONDRION = np.float32(88)
MITOCHONDRION_REACH = 16.0  # The longest half axis, finest voxels.
_MEMBRANE_WIDTH = 3.1  # From the middle to where it is gone, finest voxels.
_VESICLES = np.array([[a, b, c] for a in (-1, 0, 1) for b in (-1, 0, 1) for c in (-1, 0, 1)], np.float32) * 7
# Voxels along an edge of a block, by level: the larger, the fewer blocks there are but the more cells meet in one.
_EDGES = {0: 8, 1: 4, 2: 4, 3: 2}
SHARP_LEVELS = len(_EDGES)
"""Levels whose voxels are small enough for blocks of them to hold few cells."""


def cells_close(key: int, level: int, box: Box, check: Callable[[], None]) -> Array:
    """Grey of a box of one of the `SHARP_LEVELS`, without shading and grain: float32."""
    size = 1 << level
    whole = _in_blocks(level, box)
    cells = find_cells(key, centres(whole, size), _EDGES[level], depth=membrane_width(size), reach=MITOCHONDRION_REACH)
    check()
    return cells.to_grid(_clean(cells, size))[box.slices(whole.lo)]


def ids_close(key: int, level: int, box: Box) -> Array:
    """uint64 ids of the cells in a box of one of the `SHARP_LEVELS`."""
    whole = _in_blocks(level, box)
    cells = find_cells(key, centres(whole, 1 << level), _EDGES[level], depth=0.0, reach=0.0)
    return cells.seeds.ids[cells.to_grid(cells.owner)[box.slices(whole.lo)]]


def _in_blocks(level: int, box: Box) -> Box:
    """The smallest box of whole blocks that holds `box`."""
    edge = _EDGES[level]
    return Box(tuple(b // edge * edge for b in box.lo), tuple(-(-h // edge) * edge for h in box.hi))


def to_uint8(grey: Array) -> Array:
    """Rounded to the nearest (half to even), and clipped."""
    return np.asarray(np.clip(np.rint(grey), 0, 255).astype(np.uint8))


def centres(box: Box, size: int) -> list[Array]:
    """Centres of voxels of `size` finest voxels along z, y and x, in finest voxels."""
    return [(np.arange(b, h) + 0.5) * size for b, h in zip(box.lo, box.hi, strict=True)]


def membrane_width(size: int) -> float:
    """Half the width of a membrane in the mean over voxels of `size`."""
    return float(np.sqrt(_MEMBRANE_WIDTH**2 + 0.4 * (1 + size / 22) * (size * size - 1)))


def _clean(cells: Cells, size: int) -> Array:
    """Grey levels without shading and grain, (voxels, blocks)."""
    grey = cytoplasm(cells.seeds, cells.owner, cells.other, cells.distance, size)
    _add_mitochondria(grey, cells, size)
    if size <= 2:
        _add_vesicles(grey, cells, size)
    add_membranes(grey, cells.seeds, cells.owner, cells.other, cells.distance, size)
    return grey


def cytoplasm(seeds: Seeds, owner: Array, other: Array, distance: Array, size: int) -> Array:
    """Grey of the cell each voxel is in, mixed with that of the next for the part of the voxel that is there."""
    greys = cell_greys(seeds)
    grey = greys[owner]
    if size > 1:
        t = np.maximum(1 - distance / np.float32(0.7 * size), 0)
        grey += (greys[other] - grey) * (t * t * np.float32(0.5))
    return np.asarray(grey)


def add_membranes(grey: Array, seeds: Seeds, owner: Array, other: Array, distance: Array, size: int) -> None:
    """Darken `grey` where a face between cells is near."""
    wide = membrane_width(size)
    # Each contact of two cells is thicker or thinner.
    pair = (seeds.words[owner] ^ seeds.words[other]) >> 8
    narrow = (pair & 0xFF).astype(np.float32) * np.float32(0.35 / 255 / wide) + np.float32(0.85 / wide)
    q = distance * narrow
    q = np.maximum(1 - q * q, 0)
    q *= q
    # Where three faces meet in a voxel only the nearest counts: the others' part is in the factor.
    q *= np.float32(_MEMBRANE_WIDTH / wide * (1 + 0.012 * (size - 1)))
    grey += (MEMBRANE - grey) * q


def cell_greys(seeds: Seeds) -> Array:
    """Grey of each seed's cytoplasm, float32; of use at roots."""
    draw = mix(seeds.words + np.uint32(101))
    spread = unit(draw) + unit(mix(draw)) - 1
    # One cell in eight is a dark one.
    dark = (draw & 0xFF) < 32
    return np.asarray(np.where(dark, np.float32(134), np.float32(194)) + spread * np.float32(34))


def _ramp(t: Array) -> Array:
    """0 to 1 over t from 0 to 1, smooth at both ends."""
    t = np.clip(t, 0, 1)
    return np.asarray(t * t * (3 - 2 * t))


def mitochondrion_sizes(seeds: Seeds) -> tuple[Array, Array]:
    """Half axes of the mitochondrion of each seed, long and short, finest voxels; 0 where there is none."""
    draw = mix(seeds.words + np.uint32(202))
    short = np.float32(7) + unit(draw) * np.float32(5.5)
    long = short * (1 + unit(mix(draw)) * np.float32(0.7))
    there = (draw & 0xFF) < 88
    return np.where(there, np.minimum(long, MITOCHONDRION_REACH), 0), np.where(there, short, 0)


def _unit_vectors(words: Array) -> list[Array]:
    """A direction for each word, three float32 arrays."""
    out = []
    for _ in range(3):
        words = mix(words + np.uint32(5))
        out.append(unit(words) * 2 - 1)
    length = np.sqrt(out[0] * out[0] + out[1] * out[1] + out[2] * out[2]) + np.float32(1e-3)
    return [a / length for a in out]


def _from_centre(cells: Cells, blocks: Array, centre: Array) -> list[Array]:
    """Finest voxels from `centre` (one for each of `blocks`) to each voxel: three float32 arrays."""
    return [
        cells.position[axis][:, blocks].astype(np.float32) * np.float32(1 / FINE) - centre[axis] for axis in range(3)
    ]


def _add_mitochondria(grey: Array, cells: Cells, size: int) -> None:
    seeds = cells.seeds
    long, short = mitochondrion_sizes(seeds)
    blocks, found = _touching(cells, long, size)
    axes = _unit_vectors(seeds.words[found])
    position = seeds.places[:, found]
    stripe = _unit_vectors(seeds.words[found] ^ np.uint32(0xABCD))
    soft = np.float32(max(1.0, 0.8 * size))
    shade = (unit(mix(seeds.words[found] + np.uint32(9))) - np.float32(0.5)) * 26 + MITOCHONDRION
    stripes = np.float32({1: 17, 2: 11}.get(size, 0))
    for turn in _turns(blocks):
        b, f = blocks[turn], found[turn]
        v = _from_centre(cells, b, position[:, turn])
        along = v[0] * axes[0][turn] + v[1] * axes[1][turn] + v[2] * axes[2][turn]
        along *= along
        square = v[0] * v[0] + v[1] * v[1] + v[2] * v[2]
        round_ = 1 / (short[f] * short[f])
        scaled = (square - along) * round_ + along / (long[f] * long[f])
        # Inside it is less than 0; about the distance from its surface, and kept off the cell's membrane.
        outside = (np.sqrt(scaled) - 1) * short[f]
        outside = np.maximum(outside, np.float32(2.8) - cells.distance[:, b])
        inside = _ramp(np.float32(0.5) - outside / (soft * 2))
        inside *= cells.owner[:, b] == seeds.root[f]
        body = np.broadcast_to(shade[turn], inside.shape)
        if stripes:
            phase = (v[0] * stripe[0][turn] + v[1] * stripe[1][turn] + v[2] * stripe[2][turn]) / np.float32(4.6)
            phase += square * np.float32(0.004)
            rim = _ramp(1 + outside / np.float32(2.6)) * np.float32(1.6)
            wave = np.abs(phase - np.rint(phase)) * 4 - 1
            body = body + (wave - (wave + 1) * np.minimum(rim, 1) - rim * np.float32(0.2)) * stripes
        grey[:, b] += (body - grey[:, b]) * inside


def _touching(cells: Cells, reach: Array, size: int) -> tuple[Array, Array]:
    """Pairs of a block and a seed whose `reach` comes into it."""
    there = reach[cells.near_seed] > 0
    blocks, found = cells.near_block[there], cells.near_seed[there]
    v = cells.seeds.places[:, found] - cells.extent.centre[:, blocks]
    limit = reach[found] + cells.extent.radius[blocks] + np.float32(size)
    close = v[0] * v[0] + v[1] * v[1] + v[2] * v[2] < limit * limit
    return blocks[close], found[close]


def _turns(blocks: Array) -> list[Array]:
    """Indices of `blocks` parted so that no block is twice in a part; a block's own order is kept."""
    order = np.argsort(blocks, kind="stable")
    ordered = blocks[order]
    first = np.searchsorted(ordered, ordered)
    rank = np.arange(len(ordered)) - first
    return [order[rank == r] for r in range(int(rank.max(initial=-1)) + 1)]


def _vesicles(seeds: Seeds) -> tuple[Array, Array, Array]:
    """Seed, centre (3, n; finest voxels) and radius of every vesicle: on a jittered grid about a seed."""
    places = seeds.places
    root_draw = mix(seeds.words[seeds.root] + np.uint32(303))
    chance = np.where((root_draw & 0xFF) < 60, 170, 16).astype(np.uint32)
    chance[~_inner(seeds) | (mitochondrion_sizes(seeds)[1] > 0)] = 0
    number = np.arange(len(_VESICLES), dtype=np.uint32)
    draw = mix(mix(seeds.words + np.uint32(404)) + number[:, None] * np.uint32(0x9E3779B9))
    site, seed = np.nonzero((draw & 0xFF) < chance)
    words = draw[site, seed]
    radius = np.float32(1.7) + unit(mix(words + np.uint32(1))) * np.float32(0.9)
    centre = np.empty((3, len(seed)), np.float32)
    for axis in range(3):
        words = mix(words + np.uint32(7))
        offset = _VESICLES[site, axis] + (unit(words) - np.float32(0.5)) * np.float32(2.6)
        centre[axis] = places[axis, seed] + offset
    free = np.ones(len(seed), bool)
    own = centre - places[:, seed]
    power = own[0] * own[0] + own[1] * own[1] + own[2] * own[2] - seeds.weight[seed]
    for step in _neighbours(seeds):
        other = seed + step
        v = places[:, other] - centre
        gap = v + own
        apart = np.sqrt(gap[0] * gap[0] + gap[1] * gap[1] + gap[2] * gap[2])
        behind = v[0] * v[0] + v[1] * v[1] + v[2] * v[2] - seeds.weight[other] - power
        free &= (seeds.root[other] == seeds.root[seed]) | (behind > (radius + np.float32(2.6)) * 2 * apart)
    return seed[free], centre[:, free], radius[free]


def _neighbours(seeds: Seeds) -> list[int]:
    z, y, x = seeds.strides
    return [i * z + j * y + k * x for i in (-1, 0, 1) for j in (-1, 0, 1) for k in (-1, 0, 1) if i or j or k]


def _inner(seeds: Seeds) -> Array:
    inner = np.zeros(seeds.shape, bool)
    inner[1:-1, 1:-1, 1:-1] = True
    return inner.ravel()


def _add_vesicles(grey: Array, cells: Cells, size: int) -> None:
    seeds = cells.seeds
    seed, centre, radius = _vesicles(seeds)
    by_seed = np.argsort(seed, kind="stable")
    seed, centre, radius = seed[by_seed], centre[:, by_seed], radius[by_seed]
    first = np.searchsorted(seed, np.arange(len(seeds.words) + 1))
    many = first[cells.near_seed + 1] - first[cells.near_seed]
    blocks = np.repeat(cells.near_block, many)
    found = np.repeat(first[cells.near_seed], many) + np.arange(len(blocks)) - np.repeat(np.cumsum(many) - many, many)
    v = centre[:, found] - cells.extent.centre[:, blocks]
    limit = cells.extent.radius[blocks] + radius[found] + np.float32(1.7 + 0.5 * size)
    close = v[0] * v[0] + v[1] * v[1] + v[2] * v[2] < limit * limit
    blocks, found = blocks[close], found[close]
    thick = np.float32(np.sqrt(1.6**2 + 0.45 * (size * size - 1)))
    strength = np.float32(74 * 1.6) / thick
    for turn in _turns(blocks):
        b, f = blocks[turn], found[turn]
        z, y, x = _from_centre(cells, b, centre[:, f])
        q = np.sqrt(z * z + y * y + x * x) - radius[f]
        q /= thick
        q = np.maximum(1 - q * q, 0)
        grey[:, b] -= q * q * strength


def texture(key: int, level: int, box: Box) -> Array:
    """Slow shading, blotches of the cytoplasm and grain, float32."""
    size = 1 << level
    at = centres(box, size)
    out = _noise(subkey(key, 20), ((160, 10.0), (720, 8.0)), at, size)
    blotches = _noise(subkey(key, 21), ((3, 15.0), (5, 11.5)), at, size)
    out += blotches
    if size <= 2:
        # Dark specks: microtubules and the finer membranes within cells.
        blotches += np.float32(16)
        np.minimum(blotches, 0, out=blotches)
        out += blotches
    else:
        out -= np.float32(1.6)  # Their mean.
    deviation = 9.5 / 2 ** (1.5 * level)
    if level == 1:
        deviation += 2  # What is left of the blotches too fine for it.
    words = words_on(subkey(key, 100 + level), box.lo, box.hi)
    grain = (words & 0xFFFF).astype(np.float32) + (words >> 16).astype(np.float32)
    grain -= np.float32(65535)
    grain *= np.float32(deviation / 65536 * 2.449)
    out += grain
    return out


def _noise(key: int, layers: Sequence[Layer], at: Sequence[Array], size: int) -> Array:
    """Smooth noise in the mean over voxels of `size`, without layers too fine to be seen in it."""
    seen = [(s, a / (1 + 0.6 * (size / s) ** 2)) for s, a in layers if s >= 1.25 * size]
    if not seen:
        return np.zeros([len(places) for places in at], np.float32)
    return smooth_noise(key, seen, at)
