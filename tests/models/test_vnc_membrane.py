"""The anisotropic sample model: good on what was kept aside, and served it equals one forward over everything."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from chunkloom import open_volume
from chunkloom.inference.op import predict
from chunkloom.inference.runner import ModelRunner
from chunkloom.models.registry import parse_model

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "models" / "vnc-membrane"
pytestmark = pytest.mark.skipif(
    not (FOLDER / "model.json").is_file(), reason="not trained: examples/train_sample_model.py --recipe vnc-membrane"
)


def test_the_card_names_source_and_licence():
    info = json.loads((FOLDER / "model.json").read_text())
    assert info["licence"] == "CC-BY-NC-SA-3.0"
    assert "Gerhard" in info["source"]
    assert info["source"] in (FOLDER / "README.md").read_text()


def test_quality_on_what_was_kept_aside():
    assert json.loads((FOLDER / "model.json").read_text())["quality"]["roc_auc"] >= 0.975


@pytest.mark.long
def test_the_whole_volume_served_equals_one_forward(shared):
    torch = pytest.importorskip("torch")
    loaded = parse_model(str(FOLDER)).load()
    served = predict(open_volume(shared / "data" / "vnc.zarr" / "raw"), ModelRunner(loaded), loaded.chain)
    raw = open_volume(shared / "data" / "vnc.zarr" / "raw").read()
    info = json.loads((FOLDER / "model.json").read_text())
    shapes = zip(info["input_shape"], info["output_shape"], raw.shape, strict=True)
    pad = [((i - o) // 2, (i - o) // 2 + -n % o) for i, o, n in shapes]
    data = np.pad(raw.astype(np.float32) / 255 * 2 - 1, pad)
    net = runpy.run_path(str(FOLDER / "model.py"))["model"]
    with torch.inference_mode():
        logits = net(torch.from_numpy(data)[None, None])[0].numpy()
    whole = 1 / (1 + np.exp(-logits[:, : raw.shape[0], : raw.shape[1], : raw.shape[2]]))
    assert served.levels[0].shape == whole.shape
    assert np.abs(served.read() - whole).max() <= 1e-5
