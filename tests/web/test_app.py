"""The browser app in headless Chromium, as `chunkloom app` serves it, against `chunkloom materialize`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

WEB = Path(__file__).resolve().parents[2] / "web"


@pytest.fixture(scope="module")
def app(engine: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the built app, served by the command."""
    if not Path("/usr/bin/chromium").exists():
        pytest.skip("needs /usr/bin/chromium")
    ready = tmp_path_factory.mktemp("app") / "ready.json"
    words = [sys.executable, "-m", "chunkloom", "app", "--no-browser", "--ready-file", str(ready)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            end = time.monotonic() + 30
            while not ready.exists():
                assert process.poll() is None, process.stderr and process.stderr.read()
                assert time.monotonic() < end, "no ready file"
                time.sleep(0.05)
            yield json.loads(ready.read_text())["url"].rstrip("/")
        finally:
            process.terminate()
            process.communicate()


@pytest.fixture(scope="module")
def driven(app: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the page said while it was driven, and under "out" the folder of what it saved."""
    shared = WEB.parents[1] / "shared"
    shared = Path(os.environ.get("CHUNKLOOM_SHARED", shared))
    if not (shared / "data" / "vnc.zarr").is_dir():
        pytest.skip(f"no {shared / 'data' / 'vnc.zarr'}")
    folder = request.config.getoption("--pictures") or tmp_path_factory.mktemp("driven")
    run = subprocess.run(
        [shutil.which("node") or "node", str(WEB / "e2e" / "app.mjs"), str(folder)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env={**os.environ, "CHUNKLOOM_SHARED": str(shared), "APP": app},
    )
    assert run.returncode == 0, run.stderr
    assert "page:" not in run.stderr, run.stderr
    said: dict[str, Any] = json.loads(run.stdout)
    return said


@pytest.fixture(scope="module")
def materialized(driven: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Writes the box that was drawn in the page by the command."""
    box = json.loads((Path(driven["out"]) / "box.json").read_text())
    ranges = ",".join(f"{lo}:{hi}" for lo, hi in zip(box["lo"], box["hi"], strict=True))
    raw = Path(os.environ.get("CHUNKLOOM_SHARED", WEB.parents[1] / "shared")) / "data" / "vnc.zarr" / "raw"

    def write(*options: str) -> Path:
        target = tmp_path_factory.mktemp("command") / "box.zarr"
        words = [sys.executable, "-m", "chunkloom", "materialize", str(raw), str(target), "--box", ranges]
        done = subprocess.run([*words, "--codec", "none", *options], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return target

    return write


def stored(folder: Path) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    """The placement and the values of a store."""
    import zarr

    group = zarr.open_group(str(folder), mode="r")
    values: Any = group["0"]
    attributes: Any = dict(group.attrs)
    return attributes["ome"]["multiscales"][0]["datasets"][0], np.asarray(values[...])


pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def test_the_zip_of_a_prediction_is_what_the_command_writes(
    driven: dict[str, Any], materialized: Callable[..., Path]
) -> None:
    place, values = stored(Path(driven["out"]) / "zip")
    expected_place, expected = stored(materialized("--model", "fibsem-membrane"))
    assert values.dtype == expected.dtype == np.float32
    assert np.ptp(expected) > 0.5
    np.testing.assert_allclose(values, expected, atol=1e-4)
    assert place == expected_place


def test_the_zip_of_steps_is_what_the_command_writes(driven: dict[str, Any], materialized: Callable[..., Path]) -> None:
    place, values = stored(Path(driven["out"]) / "steps")
    expected_place, expected = stored(materialized("--op", "gaussian(sigma=1.5)"))
    assert values.dtype == expected.dtype
    np.testing.assert_allclose(values, expected, atol=1e-5 * 255)
    assert place == expected_place


def test_the_box_in_the_browsers_own_storage_is_the_zips(driven: dict[str, Any]) -> None:
    np.testing.assert_array_equal(stored(Path(driven["out"]) / "opfs")[1], stored(Path(driven["out"]) / "zip")[1])
    assert driven["layers"] == ["raw", "computed", "box", "saved"]


def test_the_box_drawn_by_mouse_is_off_the_chunk_grid_on_every_axis(driven: dict[str, Any]) -> None:
    box = json.loads((Path(driven["out"]) / "box.json").read_text())
    assert all(lo % 64 for lo in box["lo"])
    assert [hi // 64 - lo // 64 for lo, hi in zip(box["lo"], box["hi"], strict=True)] == [0, 1, 1]
    # The second drag set z and x, the first y.
    assert 0 < box["lo"][0] < box["hi"][0] < 20
    assert (box["lo"][1], box["hi"][1]) == (driven["drawn"]["lo"][1], driven["drawn"]["hi"][1])
    assert box["lo"][2] != driven["drawn"]["lo"][2]
    assert driven["boxLayer"][0]["type"] == "axis_aligned_bounding_box"


def test_the_prediction_is_seen(driven: dict[str, Any]) -> None:
    assert driven["redPixels"] > 0.02


def test_a_new_views_chunk_waits_for_one_background_job_at_most(driven: dict[str, Any]) -> None:
    assert driven["pans"]["still"] == 1, "the run had ended before the last pan"
    assert driven["pans"]["jobs95"] <= 1, driven["pans"]["jobs"]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("notAVolume", "is not a volume: there is no zarr.json"),
        ("cors", "ask it to send Access-Control-Allow-Origin"),
        ("dtype", "<c8; expected integers of 8 to 64 bits, floats or bool"),
        ("viewedAs", "Neuroglancer cannot show float64: raw is shown as float32, and saved as it is"),
        ("noModel", "there is no such file"),
        ("modelDoesNotFit", "takes an input of 1 x 1 x 12 x 14 x 16; model.json says 1 x 1 x 14 x 16 x 18"),
        ("outside", "outside the level or empty along z"),
        ("withdrawn", "what was written to withdrawn.zarr stays, marked as unfinished"),
        ("full", "the disk, or what the browser may use of it, is full"),
        ("notes", "was made for voxels of 10, 10, 10 nm; the level read has 50, 4.6, 4.6 nm"),
    ],
)
def test_what_is_wrong_is_said_in_words(driven: dict[str, Any], what: str, words: str) -> None:
    assert words in driven[what]


def test_what_was_written_before_the_disk_was_full_stays_and_says_so(driven: dict[str, Any]) -> None:
    assert driven["leftWhenFull"]["unfinished"]
    assert "Stopped after" in driven["full"]


def test_a_link_shows_the_same_place_and_box(driven: dict[str, Any]) -> None:
    assert driven["link"]["position"] == driven["state"]["look"]["position"]
    assert driven["link"]["box"].startswith(driven["state"]["box"]["lo"])


def test_the_page_is_isolated_so_that_models_use_threads(driven: dict[str, Any]) -> None:
    assert driven["isolated"]


def test_webgpu_gives_what_wasm_gives_and_is_not_chosen_where_it_is_imitated(driven: dict[str, Any]) -> None:
    auto, gpu = driven["providers"]["auto"], driven["providers"]["webgpu"]
    assert "thread" in auto["runsOn"]
    assert "WebGPU" in gpu["runsOn"]
    assert np.ptp(auto["values"]) > 0.01
    np.testing.assert_allclose(gpu["values"], auto["values"], atol=1e-5)
