"""Stitching and the walk: every piece right after its last part, and the number that wait held exactly."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from chunkloom import Grid, Level
from chunkloom.engine.stitch import Stitcher
from chunkloom.engine.writing.plan import plan_array
from chunkloom.engine.writing.region import most_held, region_of, voxel_box
from chunkloom.engine.writing.scratch import ScratchFile
from chunkloom.errors import ParameterError
from chunkloom.geometry import Box


def level(shape, chunk=(4, 4, 4), dtype=np.uint16, channels=()):
    names = tuple(f"c{i}" for i in range(len(channels)))
    return Level((*channels, *shape), np.dtype(dtype), (*channels, *chunk), (*names, "z", "y", "x"), Grid())


def box(*pairs):
    return Box(tuple(p[0] for p in pairs), tuple(p[1] for p in pairs))


def stitched(region, whole, order=None, stitcher=None):
    """The pieces by index, and the stitcher, after all served chunks of `whole` were added in an order."""
    stitch = stitcher or Stitcher(region)
    pieces = {}
    for chunk in region.walk() if order is None else order:
        for done in stitch.add(chunk, whole[region.chunk_box(chunk).index()]):
            assert done.piece not in pieces
            pieces[done.piece] = None if done.voxels is None else done.voxels.copy()
            done.release()
    return pieces, stitch


def expected_piece(region, whole, piece):
    """By cutting and padding the whole array."""
    covered = region.piece_box(piece).intersect(region.box)
    return whole[covered.index()], covered.shift(tuple(-b for b in region.piece_box(piece).lo)).index()


def assert_pieces(region, whole, pieces):
    assert sorted(pieces) == sorted(region.pieces.indices())
    for piece, voxels in pieces.items():
        inside, where = expected_piece(region, whole, piece)
        if voxels is None:
            assert not inside.any()
            continue
        if region.passes(piece):
            np.testing.assert_array_equal(voxels[Box.of_shape(inside.shape[-3:]).index()], inside)
            continue
        padded = np.zeros(region.piece_shape, whole.dtype)
        padded[where] = inside
        np.testing.assert_array_equal(voxels, padded)


# The table of the most pieces held: three split axes n2 * n3 + n3 + 1, two n2 + 1, one 1, none 0.
HELD = {
    "none": (((0, 40), (0, 40), (0, 40)), 0),
    "one": (((0, 40), (1, 41), (0, 40)), 1),
    "two": (((1, 25), (0, 40), (1, 41)), 6 + 1),
    "three": (((1, 25), (2, 34), (3, 43)), 8 * 6 + 6 + 1),
    "wide and shallow": (((1, 9), (2, 42), (3, 43)), 10 * 2 + 2 + 1),
    "within one chunk": (((1, 3), (2, 42), (0, 40)), 1),
}


@pytest.mark.parametrize(("pairs", "held"), HELD.values(), ids=HELD)
def test_the_most_pieces_held_is_as_the_table_says(pairs, held):
    lv = level((60, 60, 60))
    region = region_of(lv, 0, box(*pairs))
    whole = np.random.default_rng(0).integers(1, 9, lv.shape).astype(lv.dtype)
    pieces, stitch = stitched(region, whole)
    assert stitch.most_held == held == most_held(region)
    assert stitch.held == 0
    assert_pieces(region, whole, pieces)


def test_c_order_would_hold_more_of_a_wide_shallow_box():
    region = region_of(level((60, 60, 60)), 0, box((1, 9), (2, 42), (3, 43)))
    assert region.order == (1, 2, 0)
    assert most_held(region, (0, 1, 2)) == 111


def test_axes_that_are_not_split_come_first():
    region = region_of(level((60, 60, 60)), 0, box((1, 41), (2, 10), (0, 40)))
    assert region.order == (2, 0, 1)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_every_order_of_axes_holds_what_is_counted(order):
    region = region_of(level((40, 44, 36)), 0, box((1, 37), (3, 41), (2, 35)))
    whole = np.ones(region.level.shape, region.level.dtype)
    _, stitch = stitched(region, whole, region.walk(order))
    assert stitch.most_held == most_held(region, order)


def test_a_piece_is_complete_with_its_last_part_and_not_before():
    region = region_of(level((12, 12, 12)), 0, box((1, 11), (1, 11), (1, 11)))
    whole = np.ones(region.level.shape, region.level.dtype)
    stitch, arrived = Stitcher(region), set()
    for chunk in region.walk():
        arrived.add(chunk)
        for done in stitch.add(chunk, whole[region.chunk_box(chunk).index()]):
            lo, hi = zip(*(axis.chunks_of(i) for axis, i in zip(region.axes, done.piece, strict=True)), strict=True)
            parts = set(Box(lo, hi).indices())
            assert parts <= arrived
            assert chunk in parts


@pytest.mark.parametrize("seed", range(12))
def test_any_box_chunk_and_order_gives_the_pieces_of_the_whole(seed, tmp_path):
    rng = random.Random(seed)
    shape = tuple(rng.randint(3, 17) for _ in range(3))
    channels = rng.choice([(), (2,), (2, 3)])
    lv = level(shape, tuple(rng.randint(2, 5) for _ in range(3)), channels=channels)
    lo = tuple(rng.randint(0, n - 1) for n in shape)
    hi = tuple(rng.randint(b + 1, n) for b, n in zip(lo, shape, strict=True))
    chunk = None if rng.random() < 0.5 else tuple(rng.randint(1, 6) for _ in range(3))
    region = region_of(lv, 0, Box(lo, hi), extent=rng.choice(["box", "level"]), chunk=chunk)
    whole = np.random.default_rng(seed).integers(0, 2, lv.shape).astype(lv.dtype)
    order = list(region.walk())
    rng.shuffle(order)
    spilling = Stitcher(region, buffers=2, scratch=ScratchFile(str(tmp_path / "spill"), region.piece_nbytes))
    for stitch in (Stitcher(region), spilling):
        pieces, _ = stitched(region, whole, order, stitch)
        assert_pieces(region, whole, pieces)
    if spilling.most_held > 2:
        assert spilling.spilled


def test_a_piece_of_empty_chunks_takes_no_buffer():
    region = region_of(level((12, 12, 12)), 0, box((1, 11), (1, 11), (1, 11)))
    stitch = Stitcher(region)
    done = [d for chunk in region.walk() for d in stitch.add(chunk, None)]
    assert len(done) == region.pieces.size
    assert all(d.voxels is None for d in done)
    assert stitch._free == []


@pytest.mark.parametrize(
    ("fill", "value", "empty"),
    [(0, 0.0, True), (0, -0.0, False), (np.nan, np.nan, True), (7, 7, True), (7, 0, False)],
    ids=["zero", "minus zero", "not a number", "seven", "zero where seven is fill"],
)
def test_empty_is_told_bit_by_bit(fill, value, empty):
    region = region_of(level((4, 4, 4), dtype=np.float32), 0, Box.of_shape((4, 4, 4)))
    assert Stitcher(region, fill).is_fill(np.full((4, 4, 4), value, np.float32)) is empty


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (None, "0:10,0:20,0:30"),
        (((-5, 99), (None, 3), (2.5, 4.1)), "0:10,0:3,2:5"),
        (((1, None), (0, 20), (float("-inf"), float("inf"))), "1:10,0:20,0:30"),
    ],
    ids=["all", "clipped and rounded out", "open sides"],
)
def test_a_box_is_clipped_and_rounded_out(asked, found):
    assert str(voxel_box(level((10, 20, 30)), asked)) == found


@pytest.mark.parametrize(
    "asked", [((10, 12), (0, 1), (0, 1)), ((4, 4), (0, 1), (0, 1)), ((5, 2), (0, 1), (0, 1))], ids=str
)
def test_a_box_without_a_voxel_is_refused(asked):
    with pytest.raises(ParameterError, match="outside the level or empty"):
        voxel_box(level((10, 20, 30)), asked)


def test_the_plan_keeps_to_the_limit_by_fewer_lanes_then_by_disk():
    region = region_of(level((64, 64, 64), (16, 16, 16), np.float32), 0, box((1, 60), (2, 61), (3, 62)))
    chunk = region.piece_nbytes
    roomy = plan_array(region, concurrency=4, memory_limit=1 << 30)
    assert (roomy.concurrency, roomy.in_memory) == (4, None)
    tight = plan_array(region, concurrency=4, memory_limit=20 * chunk)
    assert tight.concurrency == 3
    assert tight.spills
    assert tight.in_memory == 3
    assert tight.peak_bytes <= 20 * chunk
    with pytest.raises(ParameterError, match="memory_limit is"):
        plan_array(region, concurrency=4, memory_limit=2 * chunk)
