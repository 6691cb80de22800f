"""The main job: a model's served prediction is one forward pass over the whole padded volume, whoever reads it."""

from __future__ import annotations

import json
import urllib.request

import numpy as np
import pytest

from chunkloom.models.modeljson import bundled_models
from chunkloom.models.registry import parse_model
from chunkloom.serving.volumes import volumes_to_serve

from .conftest import READERS

FORMS = {"onnx": "fibsem-membrane", "torch": "model.py"}


def whole_pass(raw: np.ndarray, context: int, tile: int, forward) -> np.ndarray:
    """Normalized, padded with 0 to whole tiles and by the context, one forward, cut to the data."""
    normalized = raw.astype(np.float32) / 255 * 2 - 1
    padded = np.pad(normalized, [(context, context + (-n) % tile) for n in raw.shape])
    out = forward(padded[None, None])[0]
    return out[:, : raw.shape[0], : raw.shape[1], : raw.shape[2]]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


@pytest.fixture(scope="module")
def expected(shared):
    """The probability of membrane over the whole FIB-SEM volume, by onnxruntime alone."""
    import onnxruntime
    import zarr

    raw = zarr.open_array(shared / "data/fibsem.zarr/raw/s0", mode="r")[...]
    folder = bundled_models()["fibsem-membrane"]
    card = json.loads((folder / "model.json").read_text())
    tile = card["output_shape"][0]
    context = (card["input_shape"][0] - tile) // 2
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    name = session.get_inputs()[0].name
    return sigmoid(whole_pass(raw, context, tile, lambda x: session.run(None, {name: x})[0]))


@pytest.mark.parametrize("form", FORMS)
def test_the_served_prediction_of_real_em_is_one_pass_over_the_whole(serve, shared, expected, form):
    if form == "torch":
        pytest.importorskip("torch", reason="needs the torch extra")
    model = FORMS[form] if form == "onnx" else str(bundled_models()["fibsem-membrane"] / FORMS[form])
    served = volumes_to_serve(str(shared / "data/fibsem.zarr/raw"), model=parse_model(model), name="membrane")
    server = serve(served.volumes)
    for word in ("zarr2", "zarr3"):
        for reader, read in READERS.items():
            found = read(f"{server.url}/membrane/{word}/s0", word)
            assert found.dtype == np.float32
            assert found.shape == (1, 50, 100, 200)
            assert found.std() > 0.05
            assert np.abs(found - expected).max() <= 1e-5, (word, reader)
    first = corner(server, "membrane")
    assert np.abs(first - corner(server, "raw")).max() <= 0.1
    assert np.abs(first - (-5)).max() <= 0.1


def corner(server, name: str) -> np.ndarray:
    """Lower corner of voxel 0 in nm, z, y, x, by the OME metadata."""
    with urllib.request.urlopen(f"{server.url}/{name}/zarr2/.zattrs") as answer:
        transforms = json.load(answer)["multiscales"][0]["datasets"][0]["coordinateTransformations"]
    scale, translation = np.array(transforms[0]["scale"]), np.array(transforms[1]["translation"])
    return (translation - scale / 2)[-3:]


ANISOTROPIC = """
import torch

input_voxel_size = output_voxel_size = (50, 4.6, 4.6)
input_size, output_size = (12, 72, 76), (8, 64, 64)
output_channels, channels = 2, ["a", "b"]
torch.manual_seed(3)
model = torch.nn.Sequential(
    torch.nn.Conv3d(1, 6, (3, 5, 7)), torch.nn.BatchNorm3d(6), torch.nn.ReLU(), torch.nn.Conv3d(6, 2, (3, 5, 7))
)
"""


def test_an_anisotropic_model_on_real_em_is_one_pass_over_the_whole(serve, shared, tmp_path):
    torch = pytest.importorskip("torch", reason="needs the torch extra")
    import zarr

    from chunkloom import array_volume
    from chunkloom.chain.spec import PipelineSpec
    from chunkloom.inference.op import predict
    from chunkloom.inference.runner import ModelRunner

    raw = zarr.open_array(shared / "data/vnc.zarr/raw/s0", mode="r")[:, :200, :300]
    (tmp_path / "model.py").write_text(ANISOTROPIC)
    loaded = parse_model(str(tmp_path / "model.py")).load()
    chain = PipelineSpec.from_json_data(
        {"input_norm": [{"name": "MinMaxNormalizer"}, {"name": "LambdaNormalizer", "expression": "x*2-1"}]}
    )
    volume = array_volume(raw, voxel_size_nm=(50, 4.6, 4.6), corner_nm=(-25, -2.3, -2.3))
    server = serve({"raw": volume, "made": predict(volume, ModelRunner(loaded), chain)})

    names: dict = {}
    exec(ANISOTROPIC, names)
    normalized = raw.astype(np.float32) / 255 * 2 - 1
    padded = np.pad(normalized, [(2, 2 + (-20) % 8), (4, 4 + (-200) % 64), (6, 6 + (-300) % 64)])
    with torch.inference_mode():
        whole = names["model"].eval()(torch.from_numpy(padded)[None, None])[0, :, :20, :200, :300].numpy()
    for word in ("zarr2", "zarr3"):
        for reader, read in READERS.items():
            found = read(f"{server.url}/made/{word}/s0", word)
            assert found.std() > 0.05
            assert np.abs(found - whole).max() <= 1e-5, (word, reader)
    assert np.abs(corner(server, "made") - (-25, -2.3, -2.3)).max() <= 0.1
