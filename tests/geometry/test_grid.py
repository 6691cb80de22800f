"""`Grid`, `Box` and `Roi`: world to box to world, off the grid, before voxel 0, with sizes that are no whole nm."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkloom.geometry import Box, Grid, Roi, same_voxel_size

# Sizes as people have them: decimals of nm, from 0.5 to 100.
SIZES = st.integers(50, 10_000).map(lambda n: n / 100)
CORNERS = st.integers(-100_000, 100_000).map(lambda n: n / 100)
INDICES = st.integers(-3_000, 100_000)
EXTENTS = st.integers(1, 2_000)


def triples(numbers: st.SearchStrategy) -> st.SearchStrategy:
    return st.tuples(numbers, numbers, numbers)


GRIDS = st.builds(Grid, triples(SIZES), triples(CORNERS))
BOXES = st.builds(
    lambda lo, shape: Box(lo, tuple(b + n for b, n in zip(lo, shape, strict=True))), triples(INDICES), triples(EXTENTS)
)


@given(GRIDS, BOXES)
def test_box_to_world_and_back_is_the_box(grid: Grid, box: Box) -> None:
    assert grid.world_to_box(grid.box_to_world(box)) == box
    assert grid.world_to_covering_box(grid.box_to_world(box)) == box


@given(GRIDS, BOXES)
def test_world_of_a_box_is_exact_to_a_millionth_of_a_voxel(grid: Grid, box: Box) -> None:
    roi = grid.box_to_world(box)
    for b, n, size, corner, lo, extent in zip(
        roi.begin, roi.shape, grid.voxel_size_nm, grid.corner_nm, box.lo, box.shape, strict=True
    ):
        assert abs(Fraction(b) - (Fraction(str(corner)) + lo * Fraction(str(size)))) < Fraction(str(size)) / 10**6
        assert math.isclose(n, extent * size, rel_tol=1e-12)


@given(GRIDS, BOXES, triples(st.floats(0.001, 0.999)))
def test_off_grid_begin_is_floored_also_before_voxel_0(grid: Grid, box: Box, part: tuple[float, ...]) -> None:
    moved = grid.box_to_world(box).shift([p * v for p, v in zip(part, grid.voxel_size_nm, strict=True)])
    assert grid.world_to_box(moved) == box


@given(GRIDS, BOXES, triples(st.floats(-1e-8, 1e-8)))
def test_float_noise_does_not_move_a_box(grid: Grid, box: Box, noise: tuple[float, ...]) -> None:
    noisy = grid.box_to_world(box).shift([p * v for p, v in zip(noise, grid.voxel_size_nm, strict=True)])
    assert grid.world_to_box(noisy) == box


@given(GRIDS, BOXES)
def test_covering_box_holds_the_region(grid: Grid, box: Box) -> None:
    roi = grid.box_to_world(box).grow([0.3 * v for v in grid.voxel_size_nm], [0.3 * v for v in grid.voxel_size_nm])
    assert grid.world_to_covering_box(roi) == box.grow((1, 1, 1))


@given(GRIDS, triples(INDICES))
def test_moved_grid_counts_from_there(grid: Grid, lo: tuple[int, ...]) -> None:
    box = Box((0, 0, 0), (2, 3, 4))
    begin = grid.moved(lo).box_to_world(box).begin
    assert begin == pytest.approx(grid.box_to_world(box.shift(lo)).begin, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize(
    ("size", "corner", "begin", "voxel"),
    [
        (10.48, -2.62, 60, 5),
        (10.48, -2.62, -2.62, 0),
        (10.48, -2.62, -3, -1),
        (3.24, 0, 3.24 * 7, 7),
        (4.6, -2.3, -2.3, 0),
        (8, -4, -4.5, -1),
        (1, 0, 9.9999999, 10),
        (1, 0, -0.5, -1),
        (0.1, 0.3, 0.6, 3),
    ],
)
def test_begin_of_a_region(size: float, corner: float, begin: float, voxel: int) -> None:
    grid = Grid((size,) * 3, (corner,) * 3)
    assert grid.world_to_box(Roi((begin,) * 3, (size,) * 3)).lo == (voxel,) * 3


@pytest.mark.parametrize(("nm", "voxels"), [(8.0, 1), (15.9, 1), (16, 2), (7.9, 0), (23.99999999, 3)])
def test_shape_of_a_region_is_its_whole_voxels(nm: float, voxels: int) -> None:
    assert Grid((8, 8, 8)).world_to_box(Roi((0, 0, 0), (nm,) * 3)).shape == (voxels,) * 3


def test_region_of_half_nanometres_is_not_rounded() -> None:
    assert Grid((3.24,) * 3, (-1.62,) * 3).box_to_world(Box((1, 0, 0), (2, 1, 1))).begin[0] == pytest.approx(1.62)


@pytest.mark.parametrize("size", [(0, 1, 1), (-1, 1, 1), (math.nan, 1, 1), (math.inf, 1, 1)])
def test_size_that_is_none_is_refused(size: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="positive"):
        Grid(size)


def test_coarser_grid_has_the_same_corner() -> None:
    coarse = Grid((50, 4.6, 4.6), (-25, -2.3, -2.3)).downsampled((1, 2, 2))
    assert coarse.corner_nm == (-25, -2.3, -2.3)
    assert coarse.voxel_size_nm == (50, 9.2, 9.2)


@pytest.mark.parametrize(("other", "same"), [((4.0000001, 4, 4), True), ((4.001, 4, 4), False), ((4, 4), False)])
def test_sizes_are_equal_within_a_millionth(other: tuple[float, ...], same: bool) -> None:
    assert same_voxel_size((4, 4, 4), other) is same


@given(BOXES, triples(st.integers(1, 64)))
def test_chunks_of_a_box_cover_it_and_each_is_touched(box: Box, chunk: tuple[int, ...]) -> None:
    chunks = box.chunk_range(chunk)
    first, last = Box.of_chunk(chunks.lo, chunk), Box.of_chunk(tuple(h - 1 for h in chunks.hi), chunk)
    assert Box(first.lo, last.hi).contains(box)
    assert not first.intersect(box).is_empty
    assert not last.intersect(box).is_empty


@given(BOXES, BOXES)
def test_intersection_is_in_both(a: Box, b: Box) -> None:
    both = a.intersect(b)
    assert both.is_empty or (a.contains(both) and b.contains(both))
    assert both.size == b.intersect(a).size


@given(BOXES, triples(st.integers(0, 50)))
def test_grown_and_shrunk_is_the_same(box: Box, by: tuple[int, ...]) -> None:
    assert box.grow(by).grow([-n for n in by]) == box


def test_empty_box_has_no_chunks() -> None:
    assert Box((5, 5, 5), (5, 9, 9)).chunk_range((4, 4, 4)).size == 0


ROIS = st.builds(Roi, triples(CORNERS), triples(st.integers(0, 5_000).map(lambda n: n / 10)))


@given(ROIS, ROIS)
def test_union_holds_both_regions(a: Roi, b: Roi) -> None:
    union = a.union(b)
    for roi in (a, b):
        assert all(u <= r + 1e-6 for u, r in zip(union.begin, roi.begin, strict=True))
        assert all(u >= r - 1e-6 for u, r in zip(union.end, roi.end, strict=True))


@given(ROIS, triples(SIZES))
def test_snapped_region_grows_or_shrinks(roi: Roi, size: tuple[float, ...]) -> None:
    grown, shrunk = roi.snap_to_grid(size, "grow"), roi.snap_to_grid(size, "shrink")
    for axis in range(3):
        slack = 2e-6 * size[axis]
        assert grown.begin[axis] <= roi.begin[axis] + slack
        assert grown.end[axis] >= roi.end[axis] - slack
        assert shrunk.begin[axis] >= roi.begin[axis] - slack
        assert shrunk.shape[axis] <= roi.shape[axis] + slack
        assert math.isclose(grown.begin[axis] / size[axis], round(grown.begin[axis] / size[axis]), abs_tol=1e-6)


def test_region_of_another_library_is_accepted() -> None:
    class Other:
        offset = (1, 2, 3)
        shape = (4, 5, 6)

    assert Roi.of(Other()) == Roi((1, 2, 3), (4, 5, 6))
    assert Roi((0, 0, 0), (5, 5, 5)).intersect(Other()) == Roi((1, 2, 3), (4, 3, 2))


def test_fractional_region_stays_fractional() -> None:
    roi = Roi((0.5, 3.24, -2.62), (10.48, 1, 1))
    assert roi.end == pytest.approx((10.98, 4.24, -1.62))
    assert roi.get_begin() == (0.5, 3.24, -2.62)
    assert Grid((3.24,) * 3).world_to_box(roi).lo == (0, 1, -1)


@given(BOXES, triples(st.integers(200, 3000)), st.integers(1, 40))
def test_pieces_of_a_box_make_it_up(box: Box, chunk: tuple[int, ...], most: int) -> None:
    pieces = list(box.pieces(chunk, most))
    assert sum(piece.size for piece in pieces) == box.size
    assert all(box.contains(piece) and not piece.is_empty for piece in pieces)
    assert all(piece.chunk_range(chunk).size <= most for piece in pieces)
    assert sum(piece.chunk_range(chunk).size for piece in pieces) == box.chunk_range(chunk).size
    assert pieces == sorted(pieces, key=lambda piece: piece.lo)


def test_empty_box_has_no_pieces() -> None:
    assert list(Box((5, 5, 5), (5, 9, 9)).pieces((4, 4, 4), 3)) == []
