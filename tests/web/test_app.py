"""The browser app in headless Chromium: real EM, a model, Neuroglancer, a box saved to OPFS and as a zip."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

WEB = Path(__file__).resolve().parents[2] / "web"
MODEL = Path(__file__).resolve().parents[1] / "conformance" / "model"
LO, HI = (3, 101, 203), (17, 133, 241)


@pytest.mark.browser
@pytest.mark.timeout(600)
def test_a_box_of_a_prediction_saved_by_the_app_is_the_models(engine: Path, shared: Path, tmp_path: Path) -> None:
    if not Path("/usr/bin/chromium").exists() or shutil.which("npm") is None:
        pytest.skip("needs /usr/bin/chromium and npm")
    subprocess.run(["npm", "run", "build", "-w", "app"], cwd=WEB, check=True, capture_output=True)
    run = subprocess.run(
        ["node", str(WEB / "e2e" / "app.mjs"), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        env={**os.environ, "CHUNKLOOM_SHARED": str(shared)},
    )
    assert run.returncode == 0, run.stderr
    said = json.loads(run.stdout)
    assert "is not a volume" in said["notAVolume"]
    assert "outside the level" in said["outside"]
    assert said["redPixels"] > 0.2
    got = _stored(tmp_path / "opfs")
    np.testing.assert_array_equal(got, _stored(tmp_path / "zip"))
    np.testing.assert_allclose(got, _predicted(shared), atol=1e-4)


def _stored(folder: Path) -> np.ndarray:
    import zarr

    return np.asarray(zarr.open_group(str(folder), mode="r")["0"][...])  # type: ignore[index]


def _predicted(shared: Path) -> np.ndarray:
    """The model of `tests/conformance/model` on the whole volume, by SciPy, cut to the box."""
    import onnx
    import tensorstore
    from onnx import numpy_helper
    from scipy import ndimage

    path = f"{shared / 'data' / 'vnc.zarr' / 'raw' / 's0'}/"
    spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": path}}
    raw = tensorstore.open(spec, read=True).result().read().result().astype(np.float64) / 255
    constants = {
        tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(MODEL / "two_kernels.onnx").graph.initializer
    }
    near = tuple(slice(max(0, a - 2), b + 2) for a, b in zip(LO, HI, strict=True))
    inner = tuple(slice(a - n.start, b - n.start) for a, b, n in zip(LO, HI, near, strict=True))
    logits = [
        ndimage.correlate(raw[near], kernel[0].astype(np.float64), mode="constant") + bias
        for kernel, bias in zip(constants["kernel"], constants["bias"], strict=True)
    ]
    return (1 / (1 + np.exp(-np.stack(logits))))[(slice(None), *inner)]
