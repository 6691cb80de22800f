"""What a person sees in the three cross-sections lies where geometry says, on any grid. In a real browser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from browser import Chromium, Panel

from chunkloom.viewer.bootstrap import viewer_link
from chunkloom.viewer.layers import LayerSpec, show

pytestmark = pytest.mark.browser

# A cube of 220 in 30, on an anisotropic grid off the origin by parts of a voxel.
VOXEL_NM, CORNER_NM = (16.0, 8.0, 8.0), (-4.0, 100.0, 37.5)
LO, HI = (40, 48, 56), (80, 96, 88)
BEGIN_NM = tuple(c + v * i for c, v, i in zip(CORNER_NM, VOXEL_NM, LO, strict=True))
END_NM = tuple(c + v * i for c, v, i in zip(CORNER_NM, VOXEL_NM, HI, strict=True))
# The same box of the world on another grid: so many voxels of it lie before the box, in it and after it.
OTHER_VOXEL_NM = (20.0, 16.0, 12.8)
BEFORE, INSIDE, AFTER = (5, 3, 7), (32, 24, 20), (6, 4, 5)
OTHER_CORNER_NM = tuple(b - v * n for b, v, n in zip(BEGIN_NM, OTHER_VOXEL_NM, BEFORE, strict=True))

# So near that half a voxel of any axis is more than two pixels.
NM_PER_PIXEL = 1.8
# Off the middle, and on no voxel's border.
POSITION_NM = (960.3, 671.9, 611.2)


def raw_cube() -> np.ndarray[Any, Any]:
    array = np.full((128, 128, 128), 30, np.uint8)
    array[40:80, 48:96, 56:88] = 220
    return array


def same_box_elsewhere(value: float, dtype: str) -> np.ndarray[Any, Any]:
    array = np.zeros([b + n + a for b, n, a in zip(BEFORE, INSIDE, AFTER, strict=True)], dtype)
    array[tuple(slice(b, b + n) for b, n in zip(BEFORE, INSIDE, strict=True))] = value
    return array


def raw_spec(url: str) -> LayerSpec:
    return LayerSpec("em", url, "image", VOXEL_NM, CORNER_NM, (128, 128, 128), "uint8", display_range=(0, 255))


def look_closely(viewer: Any) -> None:
    """Near, and with nothing drawn over the data."""
    with viewer.txn() as state:
        state.cross_section_scale = NM_PER_PIXEL / min(VOXEL_NM)
        state.show_axis_lines = state.show_scale_bar = state.show_default_annotations = False


def expected_box(panel: Panel) -> tuple[float, float, float, float]:
    """Left, right, top and bottom edge of the box in the panel, in pixels from the panel's corner."""
    spans = []
    for (axis, sign), length in ((panel.right, panel.width), (panel.down, panel.height)):
        at = "zyx".index(axis)
        spans += sorted(length / 2 + sign * (edge[at] - POSITION_NM[at]) / NM_PER_PIXEL for edge in (BEGIN_NM, END_NM))
    return (spans[0], spans[1], spans[2], spans[3])


def seen_box(shown: np.ndarray[Any, Any], panel: Panel) -> tuple[int, int, int, int]:
    """Left, right, top and bottom edge of the patch of True that holds the middle; it is checked to be a rectangle."""
    row, column = panel.height // 2, panel.width // 2
    left, right = run_around(shown[row], column)
    top, bottom = run_around(shown[:, column], row)
    assert shown[top:bottom, left:right].all()
    for edge in (shown[top:bottom, left - 1], shown[top:bottom, right]):
        assert not edge.any()
    return (left, right, top, bottom)


def run_around(line: np.ndarray[Any, Any], middle: int) -> tuple[int, int]:
    assert line[middle]
    outside = np.flatnonzero(~line)
    return int(outside[outside < middle].max()) + 1, int(outside[outside > middle].min())


def test_mask_on_another_grid_lies_on_its_cube_in_all_cross_sections(viewer, volumes, chromium: Chromium):
    mask = same_box_elsewhere(1, "uint8")
    layers = [
        raw_spec(volumes.add("em", raw_cube(), VOXEL_NM, CORNER_NM)),
        LayerSpec(
            "mask",
            volumes.add("mask", mask, OTHER_VOXEL_NM, OTHER_CORNER_NM),
            "mask",
            OTHER_VOXEL_NM,
            OTHER_CORNER_NM,
            mask.shape,
            "uint8",
            color="#ff0000",
            opacity=0.5,
        ),
    ]
    show(viewer, layers, position_nm=POSITION_NM)
    look_closely(viewer)
    page = chromium.page()
    page.open(viewer_link(viewer))
    page.wait_until_drawn()
    image = page.screenshot().astype(int)
    panels = page.panels()
    assert page.problems() == []
    page.close()

    assert sorted(panels) == ["xy", "xz", "yz"]
    for name, panel in panels.items():
        red, green, _ = np.moveaxis(panel.crop(image), -1, 0)
        masked, cube = red - green > 40, green > 60
        expected = expected_box(panel)
        np.testing.assert_allclose(seen_box(masked, panel), expected, atol=1, err_msg=f"mask, {name}")
        np.testing.assert_allclose(seen_box(cube, panel), expected, atol=1, err_msg=f"cube, {name}")
        np.testing.assert_allclose(seen_box(cube, panel), seen_box(masked, panel), atol=1, err_msg=f"both, {name}")
