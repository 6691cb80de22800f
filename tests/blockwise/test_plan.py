"""Which blocks are computed, and what each writes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from chunkloom.blockwise.plan import fitted, inward, make_plan, region_of
from chunkloom.errors import ParameterError
from chunkloom.geometry import Box, Grid, Roi


def test_the_case_of_fits(shared):
    case = json.loads((shared / "cases" / "blockwise-fit" / "expected.json").read_text())
    for fit in ("valid", "overhang", "shrink"):
        assert [list(span) for span in fitted(0, 10, 4, fit)] == case[fit]
    region = region_of(Box((0,) * 3, (10, 4, 4)), (4, 4, 4), "valid")
    assert (region.box, region.unwritten) == (Box((0, 0, 0), (8, 4, 4)), 2 * 4 * 4)


@pytest.mark.parametrize("fit", ["overhang", "shrink"])
@pytest.mark.parametrize(
    ("lo", "hi", "block"), [(0, 10, 4), (3, 10, 4), (-5, 9, 4), (0, 3, 4), (4, 8, 4), (7, 8, 3), (1, 1000, 7)]
)
def test_every_voxel_of_a_region_is_in_one_block(lo, hi, block, fit):
    count = np.zeros(hi - lo + 4 * block, int)
    spans = fitted(lo, hi, block, fit)
    for begin, end in spans:
        count[max(begin, lo) - lo : min(end, hi) - lo] += 1
    assert (count[: hi - lo] == 1).all()
    assert len(spans) <= (hi - lo - 1) // block + 2


@pytest.mark.parametrize(("lo", "hi", "spans"), [(0, 3, []), (1, 7, []), (1, 8, [(4, 8)]), (4, 12, [(4, 8), (8, 12)])])
def test_valid_blocks_lie_inside(lo, hi, spans):
    assert fitted(lo, hi, 4, "valid") == spans


def test_boxes_snap_inward_to_voxels_of_fractional_nm():
    grid = Grid((10.48, 3.24, 8.0), (-5.24, 0, 0))
    assert inward(Roi((5.24, 3.24, 1), (20.96, 6.48, 30)), grid) == Box((1, 1, 1), (3, 3, 3))
    assert inward(Roi((6, 0, 0), (4, 8, 8)), grid).is_empty


def test_a_box_is_clipped_to_the_volume_and_an_empty_one_refused():
    extent = Box.of_shape((20, 20, 20))
    plan = make_plan(extent, [Box((5, -3, 0), (30, 5, 9))], (8, 8, 8), "overhang", separate=False)
    assert (plan.offset, plan.shape) == ((0, 0, 0), (20, 20, 20))
    assert (plan.regions[0].box, plan.regions[0].blocks) == (Box((5, 0, 0), (20, 5, 9)), Box((0, 0, 0), (3, 1, 2)))
    with pytest.raises(ParameterError, match=r"bounding_boxes\[0\]"):
        make_plan(extent, [Box((30, 0, 0), (40, 5, 9))], (8, 8, 8), "overhang", separate=False)


def test_a_separate_store_is_the_box_alone_and_its_blocks_begin_there():
    plan = make_plan(Box.of_shape((20,) * 3), [Box((3,) * 3, (14,) * 3)], (8,) * 3, "overhang", separate=True)
    assert (plan.offset, plan.shape, plan.regions[0].blocks) == ((3,) * 3, (11,) * 3, Box((0,) * 3, (2,) * 3))


def test_a_block_that_two_boxes_touch_is_computed_once_and_written_for_both():
    boxes = [Box((0, 0, 0), (5, 8, 8)), Box((6, 0, 0), (16, 8, 8))]
    plan = make_plan(Box.of_shape((16, 8, 8)), boxes, (8, 8, 8), "overhang", separate=False)
    assert [list(plan.indices(number)) for number in (0, 1)] == [[(0, 0, 0)], [(1, 0, 0)]]
    assert plan.written((0, 0, 0)) == [boxes[0], Box((6, 0, 0), (8, 8, 8))]
