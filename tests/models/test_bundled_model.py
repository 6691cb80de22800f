"""The bundled sample model: its files agree with each other, tiles hold what the whole holds, and it is good."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BUNDLED = Path(__file__).resolve().parents[2] / "src" / "chunkloom" / "models" / "bundled" / "fibsem-membrane"
FILES = ["README.md", "model.json", "model.onnx", "model.py", "model.safetensors"]


@pytest.fixture(scope="module")
def info() -> dict[str, Any]:
    return json.loads((BUNDLED / "model.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    """What the model script leaves in its globals."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    return runpy.run_path(str(BUNDLED / "model.py"))


@pytest.fixture(scope="module")
def session() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(BUNDLED / "model.onnx"), options)


def logits(session: Any, data: np.ndarray) -> np.ndarray:
    """The channel of one forward over `data` (z, y, x)."""
    return session.run(None, {session.get_inputs()[0].name: data[None, None].astype(np.float32)})[0][0, 0]


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def context_of(info: dict[str, Any]) -> int:
    extra = {(i - o) // 2 for i, o in zip(info["input_shape"], info["output_shape"], strict=True)}
    assert len(extra) == 1
    return extra.pop()


def test_files_are_there_and_small_together():
    assert sorted(path.name for path in BUNDLED.iterdir() if path.is_file()) == FILES
    assert sum((BUNDLED / name).stat().st_size for name in FILES) < 3_000_000


def test_model_json_has_the_members_a_reader_needs(info):
    assert info["format"] == "chunkloom-model/1"
    assert info["weights"] == "model.onnx"
    assert info["channels"] == ["membrane"]
    assert info["input_voxel_size_nm"] == info["output_voxel_size_nm"] == [10, 10, 10]
    assert info["chain"]["input_norm"][0] == {
        "name": "MinMaxNormalizer",
        "min_value": 0.0,
        "max_value": 255.0,
        "invert": False,
    }
    assert info["chain"]["input_norm"][1] == {"name": "LambdaNormalizer", "expression": "x*2-1"}
    assert info["chain"]["postprocess"] == [{"name": "SigmoidPostprocessor"}]
    assert info["licence"]
    assert info["source"]
    assert info["quality"]["roc_auc"] >= 0.975


def test_the_project_reads_its_own_model_json(info):
    from chunkloom.models.modeljson import read_model_json

    card = read_model_json(BUNDLED / "model.json")
    assert card.weights == BUNDLED / "model.onnx"
    assert list(card.geometry.output_shape) == info["output_shape"]
    assert card.multiple_of == tuple(info["multiple_of"])


def test_onnx_has_one_float_input_one_output_and_free_spatial_axes(session):
    (taken,), (given,) = session.get_inputs(), session.get_outputs()
    assert (taken.name, taken.type, given.name, given.type) == ("raw", "tensor(float)", "membrane", "tensor(float)")
    assert taken.shape[:2] == [1, 1]
    assert given.shape[:2] == [1, 1]
    assert all(isinstance(n, str) for n in taken.shape[2:] + given.shape[2:])


def test_onnx_and_script_give_the_same_in_the_declared_shapes(info, script, session):
    import torch

    data = noise(*info["input_shape"])
    found = logits(session, data)
    with torch.no_grad():
        expected = script["model"](torch.from_numpy(data)[None, None])[0, 0].numpy()
    assert list(found.shape) == info["output_shape"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_script_declares_what_model_json_declares(info, script):
    assert list(script["input_size"]) == info["input_shape"]
    assert list(script["output_size"]) == info["output_shape"]
    assert list(script["input_voxel_size"]) == info["input_voxel_size_nm"]
    assert list(script["output_voxel_size"]) == info["output_voxel_size_nm"]
    assert script["channels"] == info["channels"]
    assert script["output_channels"] == len(info["channels"])
    assert list(script["model"].multiple_of) == info["multiple_of"]


@pytest.mark.parametrize("tile", [(24, 24, 24), (12, 24, 48)], ids=["cubes", "slabs"])
def test_tiles_hold_what_one_pass_over_the_whole_holds(info, session, tile):
    context, whole = context_of(info), (24, 48, 48)
    data = noise(*(n + 2 * context for n in whole))
    expected = logits(session, data)
    found = np.full(whole, np.nan, np.float32)
    for corner in np.ndindex(*(n // t for n, t in zip(whole, tile, strict=True))):
        start = [i * t for i, t in zip(corner, tile, strict=True)]
        read = tuple(slice(s, s + t + 2 * context) for s, t in zip(start, tile, strict=True))
        found[tuple(slice(s, s + t) for s, t in zip(start, tile, strict=True))] = logits(session, data[read])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, 2], ids="zyx")
def test_context_is_exactly_what_an_output_reads(info, session, axis):
    """In one pass over three tiles in a row, the middle tile sees the voxels of its context and none beyond."""
    context, step = context_of(info), info["multiple_of"][axis]
    # A step more around, so that there is something outside the context to change.
    size = [4 + 2 * context] * 3
    size[axis] += 2 * step
    data = noise(*size)
    middle = [slice(None)] * 3
    middle[axis] = slice(step, step + 4)
    before = logits(session, data)[tuple(middle)]

    def change_at(index: int) -> float:
        other = data.copy()
        where: list[Any] = [slice(None)] * 3
        where[axis] = index
        # Larger than all else: every max pooling that reads it passes it on.
        other[tuple(where)] = noise(*np.delete(size, axis), seed=1) * 50
        return float(np.abs(logits(session, other)[tuple(middle)] - before).max())

    last = size[axis] - 1 - step
    assert change_at(step - 1) == 0
    assert change_at(last + 1) == 0
    assert change_at(step) > 0
    assert change_at(last) > 0


def test_a_constant_offset_of_intensity_changes_nothing(info, session):
    data = noise(*(4 + 2 * context_of(info),) * 3) * 0.5
    np.testing.assert_allclose(logits(session, data + 0.3), logits(session, data), rtol=0, atol=1e-3)


@pytest.mark.parametrize(("gain", "offset"), [(1, 0), (0.7, 30)], ids=["as it is", "gain and offset changed"])
def test_boundaries_are_found_in_data_kept_aside(info, session, shared, gain, offset):
    import tensorstore

    def read(name: str) -> np.ndarray:
        store = {"driver": "file", "path": str(shared / "data" / "fibsem.zarr" / name / "s0")}
        return tensorstore.open({"driver": "zarr", "kvstore": store}).result().read().result()

    ids = read("neurons")
    truth = ids == 0
    for axis in range(3):
        for step in (1, -1):
            # Rolling compares the first plane with the last; both lie outside the box looked at.
            truth |= ids != np.roll(ids, step, axis)
    context, box = context_of(info), np.s_[4:44, 26:74, 152:176]
    raw = (read("raw") * float(gain) + offset).astype(np.uint8)
    data = np.pad(raw / np.float32(255) * 2 - 1, context)
    found = logits(session, data[tuple(slice(s.start, s.stop + 2 * context) for s in box)])
    assert roc_auc(found, truth[box]) >= 0.975


def roc_auc(scores: np.ndarray, truth: np.ndarray) -> float:
    """The share of (true, false) pairs that the scores put in order; logits of float32 have next to no ties."""
    ordered = truth.ravel()[np.argsort(scores.ravel(), kind="stable")]
    falses_below = np.cumsum(~ordered)[ordered]
    return float(falses_below.mean() / (~ordered).sum())
