"""A store that a materialize wrote opens in Neuroglancer, by its address alone, where geometry says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from browser import Chromium
from chunkloom import array_volume, materialize
from served_folder import served_folder

pytestmark = pytest.mark.browser

VOXEL_NM, CORNER_NM = (16.0, 8.0, 4.6), (-4.0, 100.3, 37.5)
LO, HI = (11, 23, 35), (61, 83, 95)
# A tenth of a voxel of the finest axis is more than a pixel.
NM_PER_PIXEL = 0.4


@pytest.mark.parametrize("word", ["zarr2", "zarr3"])
def test_the_corner_of_a_written_box_is_where_it_belongs(word, viewer: Any, chromium: Chromium, tmp_path):
    import neuroglancer

    data = np.full((70, 90, 100), 200, np.uint8)
    made = array_volume(data, voxel_size_nm=VOXEL_NM, corner_nm=CORNER_NM, chunk=(32, 32, 32))
    materialize(made, tmp_path / "crop.zarr", box=list(zip(LO, HI, strict=True)), format=word)
    corner = [c + v * b for c, v, b in zip(CORNER_NM, VOXEL_NM, LO, strict=True)]
    # Inside the box, off the middle of voxels, near enough to its corner that all panels show it.
    position = [c + 2.3 * v for c, v in zip(corner, VOXEL_NM, strict=True)]
    with served_folder(tmp_path) as url:
        with viewer.txn() as state:
            state.dimensions = neuroglancer.CoordinateSpace(names=["z", "y", "x"], units="nm", scales=[1, 1, 1])
            source = f"{'zarr2' if word == 'zarr2' else 'zarr3'}://{url}/crop.zarr/"
            state.layers["crop"] = neuroglancer.ImageLayer(source=source)
            state.layers["crop"].shader_controls = {"normalized": {"range": [0, 255]}}
            state.position = position
            state.layout = "4panel"
            state.cross_section_scale = NM_PER_PIXEL
            state.show_axis_lines = state.show_scale_bar = state.show_default_annotations = False
        page = chromium.page()
        page.open(viewer.get_viewer_url())
        page.wait_until_drawn()
        image, panels = page.screenshot().astype(int), page.panels()
        page.close()
    assert sorted(panels) == ["xy", "xz", "yz"]
    for name, panel in panels.items():
        bright = panel.crop(image).min(axis=-1) > 150
        row, column = panel.height // 2, panel.width // 2
        for line, middle, (axis, sign), length in (
            (bright[row], column, panel.right, panel.width),
            (bright[:, column], row, panel.down, panel.height),
        ):
            at = "zyx".index(axis)
            expected = length / 2 + sign * (corner[at] - position[at]) / NM_PER_PIXEL
            outside = np.flatnonzero(~line)
            below, above = outside[outside < middle], outside[outside > middle]
            found = below.max() + 1 if sign > 0 else above.min()
            assert abs(found - expected) * NM_PER_PIXEL <= 0.1 * VOXEL_NM[at], (name, axis)
