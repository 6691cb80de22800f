"""The cells of synthetic tissue: which cell a voxel lies in, and how far it is from the next cell.

A voxel belongs to the seed of the least power distance (squared distance less a weight of the seed: a power diagram),
measured where a smooth warp puts the voxel, so that faces between cells are curved. Positions are whole numbers, so
that the comparisons behind every cell are exact. Knows nothing of grey levels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from chunkloom.engine.sources.lattice import Layer, smooth_noise, subkey
from chunkloom.engine.sources.seeds import QUARTER, SPACING, Seeds, make_seeds
from chunkloom.engine.volume import Array

FINE = 32
"""Voxels lie at whole numbers of 1/32 finest voxel."""
FAR = 1000.0
"""The distance given where no other cell is near."""

_PER_QUARTER = FINE // QUARTER
_WARP: tuple[Layer, ...] = ((11, 1.2), (34, 5.2))
# Seeds nearer than this to each other count as this far apart where distances are made of powers: the face between
# two very near seeds is seldom the nearest face, though theirs are the least powers.
_LEAST_GAP = 18
_PLACES = 4  # The nearest seeds are among so many places an axis about a place.
_MOST = 31  # Candidates of a block, at most: what five bits can number.
_TAG = 10  # Bits that say whose a power distance is.
_NONE = np.int32(2**31 - 1)
_WORKING_SET = 1 << 15  # Voxels done at a time, so that they stay in the processor's own memory.


@dataclass(frozen=True)
class Extent:
    """Where each block is: its `middle`, int32 (3, blocks), 1/32 finest voxel but a whole number of quarter voxels,
    and the `radius` about it in which all its voxels are, float32, finest voxels."""

    middle: Array
    radius: Array

    def of(self, blocks: Array | slice) -> Extent:
        return Extent(self.middle[:, blocks], self.radius[blocks])

    @property
    def centre(self) -> Array:
        """`middle` in finest voxels, float32."""
        return self.middle.astype(np.float32) * np.float32(1 / FINE)


def _extent(position: Sequence[Array]) -> Extent:
    middle = np.stack([p.min(axis=0) + p.max(axis=0) for p in position]) // (2 * _PER_QUARTER) * _PER_QUARTER
    square = np.zeros_like(position[0])
    for p, m in zip(position, middle, strict=True):
        away = p - m
        away *= away
        square += away
    return Extent(middle, np.sqrt(square.max(axis=0).astype(np.float32)) * np.float32(1 / FINE))


@dataclass(frozen=True)
class Cells:
    """The cells of the voxels of some blocks. Arrays are (voxels of a block, blocks), in an order of blocks of its own.

    Attributes
    ----------
    seeds
        What the indices below point into.
    position
        Three int32 arrays, z, y, x: where the warp puts each voxel, in 1/32 finest voxel.
    owner, other
        The root of the cell each voxel belongs to, and of the next cell (where one is near, else `owner`).
    distance
        float32, finest voxels from the face between the two; `FAR` where no other cell is near.
    near_block, near_seed
        Pairs of a block and a seed that may reach into it (see `find_cells`).
    """

    seeds: Seeds
    position: tuple[Array, Array, Array]
    owner: Array
    other: Array
    distance: Array
    near_block: Array
    near_seed: Array
    extent: Extent
    order: Array
    grid: tuple[int, int, int]
    edge: int

    def to_grid(self, values: Array) -> Array:
        """(voxels, blocks) as an array of z, y, x."""
        b, (z, y, x) = self.edge, self.grid
        sorted_back = np.empty_like(values)
        sorted_back[:, self.order] = values
        blocks = sorted_back.reshape(b, b, b, z, y, x).transpose(3, 0, 4, 1, 5, 2)
        return np.ascontiguousarray(blocks).reshape(z * b, y * b, x * b)


def warped(key: int, at: Sequence[Array], warp: Sequence[Layer] = _WARP) -> list[Array]:
    """Where the warp puts places (z, y, x, finest voxels): three int32 arrays, 1/32 finest voxel."""
    out = []
    for axis in range(3):
        moved = smooth_noise(subkey(key, 10 + axis), warp, at)
        moved *= np.float32(FINE)
        shape = [1, 1, 1]
        shape[axis] = -1
        out.append(np.rint(moved).astype(np.int32) + (at[axis] * FINE).astype(np.int32).reshape(shape))
    return out


def find_cells(key: int, at: Sequence[Array], edge: int, depth: float, reach: float) -> Cells:
    """The cells of a box of voxels.

    Parameters
    ----------
    key
        Of the tissue.
    at
        Centres of the voxels along z, y and x, finest voxels; as many on each axis as whole blocks hold.
    edge
        Voxels along an edge of a block, the unit of work. Blocks must lie on one grid for all boxes.
    depth
        Distances up to this many finest voxels are wanted.
    reach
        `near_block` and `near_seed` pair all blocks and seeds that are at most this many finest voxels apart.
    """
    grid = (len(at[0]) // edge, len(at[1]) // edge, len(at[2]) // edge)
    position = [_to_blocks(p, grid, edge) for p in warped(key, at)]
    extent = _extent(position)
    seeds, start = _seeds_about(key, extent.middle)
    candidates = _Ragged(), _Ragged()
    window = seeds.window(_PLACES)
    slab = _WORKING_SET // len(window)
    for first in range(0, start.size, slab):
        part = slice(first, first + slab)
        for ragged, chosen in zip(
            candidates, _candidates(seeds, start[part], extent.of(part), depth, reach), strict=True
        ):
            ragged.add(start[part], window, chosen)
    near = candidates[1]
    cells, counts = candidates[0].joined(), candidates[0].counts()

    # Blocks with as many candidates are done together.
    order = np.argsort(counts.astype(np.uint8), kind="stable")
    starts = (np.cumsum(counts) - counts)[order]
    counts, extent = counts[order], extent.of(order)
    position = [np.ascontiguousarray(p[:, order]) for p in position]
    owner, other = np.empty_like(position[0]), np.empty_like(position[0])
    distance = np.empty(position[0].shape, np.float32)
    for part in _runs(counts, max(1, _WORKING_SET // len(owner))):
        most = min(int(counts[part.stop - 1]), _MOST)
        slots = starts[part] + np.minimum(np.arange(most)[:, None], counts[part] - 1)
        middle = extent.middle[:, part]
        relative = [p[:, part] - m for p, m in zip(position, middle, strict=True)]
        owner[:, part], other[:, part], distance[:, part] = _two_nearest(seeds, cells[slots], relative, middle)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    near_block = back[np.repeat(np.arange(len(order)), near.counts())]
    placed = (position[0], position[1], position[2])
    return Cells(seeds, placed, owner, other, distance, near_block, near.joined(), extent, order, grid, edge)


class _Ragged:
    """Lists of seeds, one for each block, added slab by slab."""

    def __init__(self) -> None:
        self._values: list[Array] = []
        self._counts: list[Array] = []

    def add(self, start: Array, window: Array, chosen: Array) -> None:
        """Of the seeds of each block's window those `chosen` (seeds, blocks)."""
        by_block = np.ascontiguousarray(chosen.T)
        flat = np.flatnonzero(by_block)
        block = flat // len(window)
        self._counts.append(np.bincount(block, minlength=len(start)))
        self._values.append(start[block] + window[flat - block * len(window)])

    def joined(self) -> Array:
        return np.concatenate(self._values)

    def counts(self) -> Array:
        return np.concatenate(self._counts)


def _to_blocks(values: Array, grid: tuple[int, int, int], edge: int) -> Array:
    z, y, x = grid
    split = values.reshape(z, edge, y, edge, x, edge).transpose(1, 3, 5, 0, 2, 4)
    return np.ascontiguousarray(split).reshape(edge**3, z * y * x)


def _runs(counts: Array, longest: int) -> Iterator[slice]:
    """Slices of ascending `counts`, each of about the same count and not longer than `longest`."""
    classes = np.where(counts <= 2, counts, (counts + 1) // 2)
    begin = 0
    for stop in (np.flatnonzero(np.diff(classes, append=-1)) + 1).tolist():
        for first in range(begin, stop, longest):
            yield slice(first, min(first + longest, stop))
        begin = stop


def _seeds_about(key: int, middle: Array) -> tuple[Seeds, Array]:
    """All seeds about some positions (3, n), and the first of the window of each."""
    cell = SPACING * FINE
    base = (middle - cell // 2) // cell - 1
    seeds = make_seeds(key, base.min(axis=1), base.max(axis=1) + _PLACES)
    start = ((base - np.array(seeds.lo)[:, None]) * np.array(seeds.strides)[:, None]).sum(axis=0)
    return seeds, start.astype(np.int32)


def _candidates(seeds: Seeds, start: Array, extent: Extent, depth: float, reach: float) -> tuple[Array, Array]:
    """Which seeds of a window (seeds, blocks) can be nearest, or the next cell within `depth`, in each block.

    A seed can when the plane between it and the seed nearest the middle comes within the block and `depth`. The
    second array says which are within `reach`.
    """
    centre, radius = extent.centre, extent.radius
    index = start + seeds.window(_PLACES)[:, None]
    s = [np.take(place, index) for place in seeds.places]
    square = np.zeros_like(s[0])
    for a, c in zip(s, centre, strict=True):
        a -= c
        square += a * a
    power = square - np.take(seeds.weight, index)
    # The least and which it is, in one: to 1/16 voxel squared, with the place in the window in the low six bits.
    tagged = (power * np.float32(16)).astype(np.int32) << 6
    tagged |= np.arange(len(index), dtype=np.int32)[:, None]
    best = tagged.min(axis=0) & 63
    columns = np.arange(len(best))
    power -= power[best, columns]
    apart = np.zeros_like(power)
    for a in s:
        a -= a[best, columns]
        a *= a
        apart += a
    np.maximum(apart, np.float32(_LEAST_GAP**2), out=apart)
    limit = 2 * (radius + np.float32(1.2 * depth))
    apart *= limit * limit
    power *= power
    far = radius + np.float32(reach)
    return power <= apart, square < far * far


def _two_nearest(seeds: Seeds, chosen: Array, relative: Sequence[Array], middle: Array) -> tuple[Array, Array, Array]:
    """Root, root of the next cell, and distance of voxels, from the candidates `chosen` (candidates, blocks).

    Power distances are whole numbers of 1/128 voxel squared, less that of the first candidate. Their low ten bits
    number the candidate (five) and the first candidate with the same root (five), so that a minimum brings along
    whose it is.
    """
    count, blocks = chosen.shape
    root = seeds.root[chosen]
    if count == 1 or (root == root[0]).all():
        shape = relative[0].shape
        alone = np.broadcast_to(root[0], shape)
        return alone, alone, np.broadcast_to(np.float32(FAR), shape)
    label = np.zeros((count, blocks), np.int32)
    for k in range(count - 1, -1, -1):
        label[root == root[k]] = k
    s = [seeds.position[axis][chosen] - middle[axis] // _PER_QUARTER for axis in range(3)]
    power = (s[0] * s[0] + s[1] * s[1] + s[2] * s[2]) * 8 - (seeds.weight[chosen] * np.float32(128)).astype(np.int32)
    constant = ((power - power[0]) << _TAG) | (label << 5) | np.arange(count, dtype=np.int32)[:, None]
    slope = [(a - a[0]) * (-2 << _TAG) for a in s]

    least = np.broadcast_to(constant[0], relative[0].shape).copy()
    second = np.full_like(least, _NONE)
    term, power = np.empty_like(least), np.empty_like(least)
    for k in range(1, count):
        np.multiply(relative[0], slope[0][k], out=power)
        power += constant[k]
        for axis in (1, 2):
            np.multiply(relative[axis], slope[axis][k], out=term)
            power += term
        np.bitwise_xor(power, least, out=term)
        term &= 31 << 5
        same = term == 0
        np.maximum(power, least, out=term)
        np.minimum(power, least, out=least)
        # A farther seed of the cell that the voxel is in says nothing of the next cell.
        np.putmask(term, same, _NONE)
        np.minimum(second, term, out=second)

    mine, next_to = least & 31, second & 31
    lone = second == _NONE
    np.copyto(next_to, mine, where=lone)
    columns = np.arange(blocks, dtype=np.int32)
    at_mine, at_next = mine * np.int32(blocks) + columns, next_to * np.int32(blocks) + columns
    distance = ((second >> _TAG) - (least >> _TAG)).astype(np.float32)
    if count * count <= len(distance):
        gap = _squared_gap([a[:, None] - a[None] for a in s]).reshape(-1, blocks)
        distance *= np.take(_per_gap(gap), mine * np.int32(count * blocks) + at_next)
    else:
        distance *= _per_gap(_squared_gap([np.take(a, at_mine) - np.take(a, at_next) for a in s]))
    np.copyto(distance, np.float32(FAR), where=lone)
    return np.take(root, at_mine), np.take(root, at_next), distance


def _squared_gap(between: Sequence[Array]) -> Array:
    z, y, x = between
    return np.asarray(z * z + y * y + x * x)


def _per_gap(square: Array) -> Array:
    """What turns a difference of powers (1/128) into a distance from the plane between two seeds.

    `square` is the squared gap between the seeds, in 1/16 voxel squared.
    """
    gap = np.sqrt(np.maximum(square, (_LEAST_GAP * QUARTER) ** 2).astype(np.float32)) * np.float32(1 / QUARTER)
    return np.asarray(np.float32(1 / 256) / gap)


@dataclass(frozen=True)
class Traced:
    """The cells of voxels: arrays of z, y, x.

    `owner`, `other` and `distance` are as in `Cells`. `nearest` is the seed whose part of a cell each voxel is in, and
    `square` its squared distance, in finest voxels.
    """

    seeds: Seeds
    owner: Array
    other: Array
    distance: Array
    nearest: Array
    square: Array


def trace_cells(key: int, at: Sequence[Array]) -> Traced:
    """The cells at voxels too large to be done in blocks (z, y, x centres, finest voxels).

    Seeds of 3 x 3 x 3 places are looked at: more than one cell can have, so that there is always a next one.
    """
    # The finest layer of the warp moves a voxel by much less than its size.
    position = np.stack([p.ravel() for p in warped(key, at, _WARP[1:])])
    base = position // (SPACING * FINE) - 1
    seeds = make_seeds(key, base.min(axis=1), base.max(axis=1) + 3)
    start = ((base - np.array(seeds.lo)[:, None]) * np.array(seeds.strides)[:, None]).sum(axis=0).astype(np.int32)
    window = seeds.window(3)[:, None]
    number = np.arange(len(window), dtype=np.int32)[:, None]
    place = seeds.places
    owner, other, nearest = (np.empty_like(start) for _ in range(3))
    distance, square = (np.empty(start.shape, np.float32) for _ in range(2))
    slab = _WORKING_SET // len(window)
    for first in range(0, start.size, slab):
        part = slice(first, first + slab)
        index = start[part] + window
        power = -np.take(seeds.weight, index)
        for seed, voxel in zip(place, position, strict=True):
            away = np.take(seed, index)
            away -= voxel[part].astype(np.float32) * np.float32(1 / FINE)
            away *= away
            power += away
        # To 1/16 voxel squared, with the place in the window in the low five bits.
        power *= np.float32(16)
        tagged = power.astype(np.int32)
        tagged <<= 5
        tagged |= number
        root = np.take(seeds.root, index)
        columns = np.arange(index.shape[1])
        least = tagged.min(axis=0)
        mine = least & 31
        owner[part] = root[mine, columns]
        np.putmask(tagged, root == owner[part], _NONE)
        second = tagged.min(axis=0)
        next_to = second & 31
        other[part] = root[next_to, columns]
        a, b = index[mine, columns], index[next_to, columns]
        gap = _squared_gap([seeds.position[axis][a] - seeds.position[axis][b] for axis in range(3)])
        distance[part] = ((second >> 5) - (least >> 5)) * (_per_gap(gap) * np.float32(8))
        nearest[part] = a
        square[part] = np.maximum((least >> 5) * np.float32(1 / 16) + seeds.weight[a], 0)
    shape = tuple(len(places) for places in at)
    arrays = (a.reshape(shape) for a in (owner, other, distance, nearest, square))
    return Traced(seeds, *arrays)
