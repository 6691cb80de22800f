"""From a data path to a tuned prediction without leaving the browser, on real EM with the sample model."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import numpy as np
import pytest

from browser import chromium  # noqa: F401  a fixture

from .test_page import drawn, open_data, page, visit  # noqa: F401

pytestmark = pytest.mark.browser

SECOND = """
import torch


class Bright(torch.nn.Module):
    def forward(self, x):
        return (x > 150).float()


model = Bright()
input_voxel_size = output_voxel_size = (10, 10, 10)
input_size = output_size = (50, 50, 50)
output_channels = 1
channels = ["bright"]
"""


def coloured(shot):
    """Share of pixels of the xy panel with a colour: a prediction over the grey data."""
    panel = shot[80:330, 10:440].astype(int)
    return float((panel.max(-1) - panel.min(-1) > 40).mean())


@pytest.mark.timeout(240)
def test_from_a_path_to_a_tuned_prediction(dashboard, page, shared, tmp_path, request):  # noqa: F811
    pictures = request.config.getoption("--pictures")
    data = shared / "data" / "fibsem.zarr" / "raw"
    (tmp_path / "bright.py").write_text(SECOND)
    running = dashboard([shared / "data"])
    visit(page, running)
    open_data(page, data)
    page.page.get_by_text("50 × 100 × 200").wait_for()
    raw = drawn(page)
    assert coloured(raw) < 0.02
    assert raw[80:330, 10:440].std() > 20

    page.page.get_by_role("tab", name="Models").click()
    page.page.get_by_label("fibsem-membrane").check()
    page.page.locator(".state.running").wait_for(timeout=60_000)
    page.page.wait_for_timeout(500)
    predicted = drawn(page)
    assert coloured(predicted) > 0.05

    page.page.get_by_role("tab", name="Output").click()
    page.page.get_by_label("Add a postprocessor").select_option("ThresholdPostprocessor")
    page.page.get_by_label("Threshold", exact=True).fill("0.2")
    page.page.wait_for_timeout(700)
    low = drawn(page)
    page.page.get_by_label("Threshold", exact=True).fill("0.9")
    page.page.wait_for_timeout(700)
    high = drawn(page)
    assert coloured(high) < 0.8 * coloured(low)
    if pictures:
        page.page.get_by_label("Threshold", exact=True).fill("0.5")
        page.page.wait_for_timeout(700)
        drawn(page)
        for theme in ("Dark", "Light"):
            page.page.get_by_role("button", name=theme, exact=True).click()
            page.page.wait_for_timeout(200)
            page.screenshot(f"{pictures}/dashboard-{theme.lower()}.png")

    page.page.get_by_role("tab", name="Models").click()
    page.page.get_by_label("Kind").select_option("script")
    page.page.get_by_label("Script path").fill(str(tmp_path / "bright.py"))
    page.page.get_by_label("Name").fill("bright")
    page.page.get_by_role("button", name="Run it").click()
    page.page.locator(".state.running").nth(1).wait_for(timeout=90_000)
    page.page.wait_for_timeout(500)
    assert running.ask("/api/session", X_Chunkloom_Session=only(running)).json["layers"] == [
        "raw",
        "fibsem-membrane",
        "bright",
    ]
    both = drawn(page)
    assert (np.abs(both.astype(int) - high.astype(int)).max(-1) > 20).mean() > 0.005

    page.page.get_by_role("tab", name="Output").click()
    with page.page.expect_download() as download:
        page.page.get_by_role("link", name="Save as YAML").click()
    download.value.save_as(tmp_path / "session.yaml")
    text = (tmp_path / "session.yaml").read_text()
    assert "bright.py" in text
    assert "ThresholdPostprocessor" in text

    with again(tmp_path / "session.yaml") as link:
        page.open(link)
        page.page.locator("iframe[title=Neuroglancer]").wait_for(timeout=60_000)
        page.page.wait_for_timeout(1500)
        same = drawn(page)
    assert (np.abs(same.astype(int) - both.astype(int)).max(-1) > 20).mean() < 0.02


@contextlib.contextmanager
def again(file):
    """The link of a dashboard that a saved session opens."""
    words = [sys.executable, "-m", "chunkloom", "yaml", str(file), "--no-browser"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr:
            if line.startswith("Dashboard: "):
                yield line.removeprefix("Dashboard: ").strip()
                break
        else:
            raise AssertionError("no dashboard")
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 128 + 15


def only(running):
    return running.dashboard.sessions.only().short


@pytest.mark.timeout(120)
def test_a_model_that_fails_to_start_says_why_on_the_screen(dashboard, page, shared, tmp_path):  # noqa: F811
    (tmp_path / "broken.py").write_text("raise RuntimeError('no weights here')\n")
    running = dashboard([shared / "data"])
    visit(page, running)
    open_data(page, shared / "data" / "fibsem.zarr" / "raw")
    page.page.get_by_text("50 × 100 × 200").wait_for()
    page.page.get_by_role("tab", name="Models").click()
    page.page.get_by_label("Kind").select_option("script")
    page.page.get_by_label("Script path").fill(str(tmp_path / "broken.py"))
    page.page.get_by_role("button", name="Run it").click()
    alert = page.page.get_by_role("alert")
    alert.wait_for(timeout=60_000)
    assert "no weights here" in alert.inner_text()
    page.page.get_by_role("button", name="Log", exact=False).first.click()
    page.page.get_by_role("log").get_by_text("no weights here").first.wait_for()
