"""What a person meets on opening a link: the whole volume, in every panel, and nothing that went wrong."""

from __future__ import annotations

import numpy as np
import pytest

from browser import Chromium
from chunkloom.engine.sources import array_volume
from chunkloom.serving.app import create_app
from chunkloom.serving.run import VolumeServer
from chunkloom.viewer.bootstrap import viewer_link
from chunkloom.viewer.scene import scene

pytestmark = pytest.mark.browser

OUTSIDE = 128  # Neuroglancer's grey where there is no data


def test_link_shows_the_whole_volume_with_its_prediction_over_it(chromium: Chromium):
    # Ever steeper along x: the sampled contrast makes its ends black and white, its middle dark.
    raw = np.broadcast_to((60 + 100 * np.linspace(0, 1, 300) ** 2).astype("uint8"), (120, 200, 300))
    prediction = np.zeros((120, 200, 300), "float32")
    prediction[:, 50:150, 100:200] = 1
    grid = {"voxel_size_nm": (10.48, 8, 8), "corner_nm": (1000.3, -200, 5)}
    volumes = {"raw": array_volume(raw, **grid), "membrane": array_volume(prediction, **grid)}
    with VolumeServer(create_app(volumes)) as server:
        page = chromium.page()
        page.open(viewer_link(scene(volumes, server.url, raw="raw")))
        page.wait_until_drawn()
        image, panels, problems = page.screenshot().astype(int), page.panels(), page.problems()
        page.close()
    assert problems == []
    for name, panel in panels.items():
        seen = panel.crop(image)
        edges = np.concatenate([seen[-4], seen[80:-60, 4], seen[40:, -4]])  # clear of what is drawn over it
        assert (edges == OUTSIDE).all(), f"{name}: the volume does not fit"
        data = (np.abs(seen - OUTSIDE).max(axis=-1) > 2).sum() / seen[..., 0].size
        assert data > 0.25, f"{name}: the volume is small"
    middle = panels["xy"].crop(image)[panels["xy"].height // 2 + 5, panels["xy"].width // 2 - 5]
    # Half raw dark, half the palette's second colour #4dc3ff.
    assert middle[2] - middle[0] > 60
