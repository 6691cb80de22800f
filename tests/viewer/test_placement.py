"""What a person sees in the three cross-sections lies where geometry says, on any grid. In a real browser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from browser import Chromium, Panel
from chunkloom.engine.sources import array_volume
from chunkloom.engine.volume import Kind, Volume
from chunkloom.viewer.layers import show

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


def raw_cube() -> Volume:
    array = np.full((128, 128, 128), 30, np.uint8)
    array[40:80, 48:96, 56:88] = 220
    return array_volume(array, voxel_size_nm=VOXEL_NM, corner_nm=CORNER_NM)


def same_box_elsewhere(value: float, dtype: str, kind: Kind, channel: int | None = None) -> Volume:
    """`value` in the box and 0 outside, of two channels in channel number `channel` alone."""
    array = np.zeros([b + n + a for b, n, a in zip(BEFORE, INSIDE, AFTER, strict=True)], dtype)
    array[tuple(slice(b, b + n) for b, n in zip(BEFORE, INSIDE, strict=True))] = value
    if channel is not None:
        array = np.stack([array if i == channel else np.zeros_like(array) for i in range(2)])
    return array_volume(array, voxel_size_nm=OTHER_VOXEL_NM, corner_nm=OTHER_CORNER_NM, kind=kind)


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


def look_at(viewer: Any, chromium: Chromium) -> tuple[np.ndarray[Any, Any], dict[str, Panel]]:
    """The screen (as signed numbers) and its cross-sections, once all is drawn and nothing went wrong."""
    look_closely(viewer)
    page = chromium.page()
    page.open(viewer.get_viewer_url())
    page.wait_until_drawn()
    image, panels, problems = page.screenshot().astype(int), page.panels(), page.problems()
    page.close()
    assert problems == []
    assert sorted(panels) == ["xy", "xz", "yz"]
    return image, panels


def test_mask_on_another_grid_lies_on_its_cube_in_all_cross_sections(viewer, web, chromium: Chromium):
    layers = [
        web.layer("em", raw_cube(), display_range=(0, 255)),
        web.layer("mask", same_box_elsewhere(1, "uint8", "mask"), color="#ff0000", opacity=0.5),
    ]
    show(viewer, layers, position_nm=POSITION_NM)
    image, panels = look_at(viewer, chromium)
    for name, panel in panels.items():
        red, green, _ = np.moveaxis(panel.crop(image), -1, 0)
        masked, cube = red - green > 40, green > 60
        expected = expected_box(panel)
        np.testing.assert_allclose(seen_box(masked, panel), expected, atol=1, err_msg=f"mask, {name}")
        np.testing.assert_allclose(seen_box(cube, panel), expected, atol=1, err_msg=f"cube, {name}")
        np.testing.assert_allclose(seen_box(cube, panel), seen_box(masked, panel), atol=1, err_msg=f"both, {name}")


@pytest.mark.parametrize("word", ["n5", "precomputed"])
def test_formats_that_hold_no_such_corner_are_placed_by_a_transform(viewer, web, chromium: Chromium, word: str):
    """Both off the grid, over the cube in zarr."""
    show(
        viewer,
        [
            web.layer("em", raw_cube(), display_range=(0, 255)),
            web.layer("mask", same_box_elsewhere(1, "uint8", "mask"), word, color="#ff0000", opacity=0.5),
        ],
        position_nm=POSITION_NM,
    )
    look_closely(viewer)
    page = chromium.page()
    page.open(viewer.get_viewer_url())
    page.wait_until_drawn()
    image, panels = page.screenshot().astype(int), page.panels()
    page.close()
    for name, panel in panels.items():
        red, green, _ = np.moveaxis(panel.crop(image), -1, 0)
        np.testing.assert_allclose(seen_box(red - green > 40, panel), expected_box(panel), atol=1, err_msg=name)


def test_channel_of_a_prediction_is_placed_like_the_rest_and_leaves_em_as_it_is(viewer, web, chromium: Chromium):
    layers = [
        web.layer("em", raw_cube(), display_range=(0, 255)),
        web.layer("p", same_box_elsewhere(1, "float32", "image", channel=1), color="#0000ff", opacity=1),
    ]
    show(viewer, layers, position_nm=POSITION_NM)
    with viewer.txn() as state:
        state.layers["p"].shader_controls = {"channel": 1}
    image, panels = look_at(viewer, chromium)
    for name, panel in panels.items():
        seen = panel.crop(image)
        predicted = (seen == [0, 0, 255]).all(axis=-1)
        np.testing.assert_allclose(seen_box(predicted, panel), expected_box(panel), atol=1, err_msg=name)
        left, right, top, bottom = seen_box(predicted, panel)
        around = seen[top - 3 : bottom + 3, left - 3 : right + 3][
            ~predicted[top - 3 : bottom + 3, left - 3 : right + 3]
        ]
        # EM, inside its cube or outside, or one or the other along an edge.
        assert {tuple(pixel) for pixel in around.tolist()} <= {(30, 30, 30), (220, 220, 220)}


def test_labels_are_placed_like_the_rest_and_ids_of_64_bits_are_exact(viewer, web, chromium: Chromium):
    label = 2**62 + 1
    show(
        viewer,
        [
            web.layer("em", raw_cube(), display_range=(0, 255)),
            web.layer("ids", same_box_elsewhere(label, "int64", "labels"), "zarr2", opacity=1),
        ],
        position_nm=POSITION_NM,
    )
    look_closely(viewer)
    page = chromium.page()
    page.open(viewer.get_viewer_url())
    page.wait_until_drawn()
    image, panels = page.screenshot().astype(int), page.panels()
    xy = panels["xy"]
    page.page.mouse.move(xy.left + xy.width // 2, xy.top + xy.height // 2)
    page.page.wait_for_function("() => viewer.mouseState.active", polling=50)
    under_mouse = page.page.evaluate("() => viewer.layerSelectedValues.toJSON()")
    problems = page.problems()
    page.close()
    # A zarr v2 group is first asked for the array it is not.
    assert problems == [f"answer 404: {web.server.url}/ids/zarr2/.zarray"]
    for name, panel in panels.items():
        seen = panel.crop(image)
        labelled = seen.max(axis=-1) - seen.min(axis=-1) > 20
        np.testing.assert_allclose(seen_box(labelled, panel), expected_box(panel), atol=1, err_msg=name)
    assert under_mouse["ids"]["value"] == str(label)
