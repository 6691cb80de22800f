"""`chunkloom demo`: one command, real EM, a link that shows it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from browser import chromium  # noqa: F401


def test_once_prints_a_link_and_a_table_and_ends(chunkloom, shared):
    done = chunkloom("demo", "--once", "--data", shared / "data/fibsem.zarr/raw")
    assert done.returncode == 0, done.stderr
    link, head, raw, prediction = done.stdout.strip().splitlines()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v/[0-9a-f]+/", link)
    assert head.split() == ["volume", "after", "start", "(s)", "chunk", "(ms)", "bytes"]
    assert raw.split()[0] == "raw"
    assert prediction.split()[0] == "fibsem-membrane"


def test_once_without_data_shows_a_made_up_volume(chunkloom):
    done = chunkloom("demo", "--once")
    assert done.returncode == 0, done.stderr
    assert "synthetic://em" in done.stderr
    assert "fibsem-membrane" in done.stdout


@pytest.mark.browser
def test_the_printed_link_shows_em_and_the_prediction_over_it(started, shared, chromium, request):  # noqa: F811
    _, ready = started("demo", "--data", shared / "data/fibsem.zarr/raw", "--no-browser")
    page = chromium.page()
    page.open(ready["viewer"])
    page.wait_until_drawn()
    assert page.problems() == []
    picture = page.screenshot()
    panels = page.panels().values()
    page.close()
    folder = request.config.getoption("--pictures")
    if folder:
        from PIL import Image

        Image.fromarray(picture).save(f"{folder}/first-sight.png")
    grey = coloured = 0
    for panel in panels:
        pixels = panel.crop(picture).reshape(-1, 3).astype(int)
        spread = pixels.max(axis=1) - pixels.min(axis=1)
        shown = pixels.sum(axis=1) > 60
        grey += int(np.count_nonzero(shown & (spread < 12)))
        coloured += int(np.count_nonzero(shown & (spread > 60)))
    assert grey > 10_000, "the raw data is not visible"
    assert coloured > 5_000, "the prediction is not visible"


def test_a_huge_volume_of_one_level_opens_at_once(chunkloom, tmp_path):
    import json

    folder = tmp_path / "huge.zarr"
    folder.mkdir()
    metadata = {
        "zarr_format": 2,
        "shape": [2**34] * 3,
        "chunks": [64] * 3,
        "dtype": "|u1",
        "compressor": None,
        "fill_value": 0,
        "order": "C",
        "filters": None,
    }
    (folder / ".zarray").write_text(json.dumps(metadata))
    done = chunkloom("demo", "--once", "--data", folder)
    assert done.returncode == 0, done.stderr
