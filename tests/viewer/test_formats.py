"""Each served format, read by Neuroglancer itself, lies where geometry says, near and from afar. In a real browser.

Neuroglancer's N5 source reads no offset, so that volume begins at 0; precomputed holds corners of whole voxels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from browser import Chromium, Panel
from chunkloom import Pipeline
from chunkloom.engine.sources import array_volume

pytestmark = pytest.mark.browser

# Not of whole chunks, but of whole voxels of every level: elsewhere the last voxel of a coarse one reaches further.
SHAPE, VOXEL_NM = (72, 160, 128), (16.0, 8.0, 8.0)
LO, HI = (24, 48, 40), (48, 112, 88)
WHOLE = ((0, 0, 0), SHAPE)
NEAR, AFAR = 4.0, 16.0  # nm a pixel: the finest level, and a coarser one
DARK, BRIGHT = 60, 220
# What the viewer draws over and around the data is grey.
RED = "void main() { emitRGB(vec3(toNormalized(getDataValue()), 0.0, 0.0)); }"
CORNERS_NM = {
    "zarr2": (-4.0, 100.0, 37.5),
    "zarr3": (-4.0, 100.0, 37.5),
    "n5": (0.0, 0.0, 0.0),
    "precomputed": (-64.0, 104.0, 40.0),
}
SOURCES = {"zarr2": "|zarr2:", "zarr3": "|zarr3:", "n5": "|n5:", "precomputed": "|neuroglancer-precomputed:"}
# A zarr v2 group is first asked for the array it is not; of N5, groups above are asked for attributes.
EXPECTED_PROBLEMS = {
    "zarr2": ["answer 404: {url}/a/zarr2/.zarray"],
    "n5": ["answer 404: {url}/a/attributes.json", "answer 404: {url}/attributes.json"],
}


def edges_nm(word: str, index: tuple[int, int, int]) -> np.ndarray[Any, Any]:
    return np.array(CORNERS_NM[word]) + np.array(VOXEL_NM) * index


def expected_edges(panel: Panel, word: str, middle_nm: Any, nm_per_pixel: float, ends: Any) -> list[float]:
    """Left, right, top and bottom edge of a box of voxels in the panel, in pixels from the panel's corner."""
    spans = []
    for (axis, sign), length in ((panel.right, panel.width), (panel.down, panel.height)):
        at = "zyx".index(axis)
        spans += sorted(length / 2 + sign * (edges_nm(word, end)[at] - middle_nm[at]) / nm_per_pixel for end in ends)
    return spans


def seen_edges(shown: np.ndarray[Any, Any]) -> list[int]:
    """The same of the patch of True that holds the middle, which is checked to be a rectangle."""
    row, column = shown.shape[0] // 2, shown.shape[1] // 2
    left, right = run_around(shown[row], column)
    top, bottom = run_around(shown[:, column], row)
    assert shown[top:bottom, left:right].all(), "not a rectangle"
    return [left, right, top, bottom]


def run_around(line: np.ndarray[Any, Any], middle: int) -> tuple[int, int]:
    assert line[middle], "nothing in the middle"
    outside = np.flatnonzero(~line)
    return int(outside[outside < middle].max()) + 1, int(outside[outside > middle].min())


@pytest.mark.parametrize("nm_per_pixel", [NEAR, AFAR], ids=["near", "afar"])
@pytest.mark.parametrize("word", list(SOURCES))
def test_a_format_is_shown_at_its_place(viewer, web, chromium: Chromium, word: str, nm_per_pixel: float):
    import neuroglancer

    array = np.full(SHAPE, DARK, np.uint8)
    array[tuple(slice(a, b) for a, b in zip(LO, HI, strict=True))] = BRIGHT
    volume = Pipeline(
        array_volume(array, voxel_size_nm=VOXEL_NM, corner_nm=CORNERS_NM[word], chunk=(32, 32, 32)), chunk=(32, 32, 32)
    )
    assert len(volume.levels) > 2
    web.server.app.add("a", volume)
    middle = edges_nm(word, LO) * 0.5 + edges_nm(word, HI) * 0.5 + 0.3
    with viewer.txn() as state:
        state.dimensions = neuroglancer.CoordinateSpace(names=["x", "y", "z"], units="nm", scales=VOXEL_NM[::-1])
        state.layers["a"] = neuroglancer.ImageLayer(source=f"{web.server.url}/a/{word}/{SOURCES[word]}", shader=RED)
        state.position = [m / v for m, v in zip(middle[::-1], VOXEL_NM[::-1], strict=True)]
        state.cross_section_scale = nm_per_pixel / min(VOXEL_NM)
        state.layout = "4panel"
        state.show_axis_lines = state.show_scale_bar = state.show_default_annotations = False
    page = chromium.page()
    page.open(viewer.get_viewer_url())
    page.wait_until_drawn()
    image, panels, problems = page.screenshot().astype(int), page.panels(), page.problems()
    page.close()
    assert sorted(problems) == [text.format(url=web.server.url) for text in EXPECTED_PROBLEMS.get(word, [])]
    assert sorted(panels) == ["xy", "xz", "yz"]
    for name, panel in panels.items():
        red, green, _ = np.moveaxis(panel.crop(image), -1, 0)
        for shown, ends in ((red - green > (DARK + BRIGHT) // 2, (LO, HI)), (red - green > DARK // 2, WHOLE)):
            if nm_per_pixel == NEAR and ends is WHOLE:
                continue  # it ends outside the panel
            expected = expected_edges(panel, word, middle, nm_per_pixel, ends)
            np.testing.assert_allclose(seen_edges(shown), expected, atol=1, err_msg=f"{ends}, {name}")
