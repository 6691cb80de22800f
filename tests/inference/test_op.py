"""Tiled equals whole: a served or read prediction is one forward pass over the whole padded array."""

from __future__ import annotations

import json

import numpy as np
import pytest

from chunkloom import Box, array_volume
from chunkloom.engine.cache import ChunkCache
from chunkloom.errors import ModelError
from chunkloom.inference.op import predict
from chunkloom.inference.runner import ModelRunner
from chunkloom.models.registry import parse_model

torch = pytest.importorskip("torch", reason="needs the torch extra")

SCRIPT = """
import torch

input_voxel_size, output_voxel_size = {input_voxel}, {output_voxel}
input_size, output_size = {input_size}, {output_size}
output_channels, channels = {channels}, {names!r}
torch.manual_seed(5)
model = {model}
"""

CHAIN = {
    "input_norm": [{"name": "MinMaxNormalizer"}, {"name": "LambdaNormalizer", "expression": "x*2-1"}],
    "postprocess": [],
}


def script(
    folder, model, *, input_size, output_size, input_voxel=(8, 8, 8), output_voxel=None, names=("a",), chain=CHAIN
):
    """A model script as its author would write it, with a model.json for the chain."""
    text = SCRIPT.format(
        input_voxel=input_voxel,
        output_voxel=output_voxel or input_voxel,
        input_size=input_size,
        output_size=output_size,
        channels=len(names),
        names=list(names),
        model=model,
    )
    (folder / "model.py").write_text(text)
    (folder / "weights").touch()
    card = {
        "format": "chunkloom-model/1",
        "name": "made",
        "weights": "weights",
        "input_voxel_size_nm": input_voxel,
        "output_voxel_size_nm": output_voxel or input_voxel,
        "input_shape": input_size,
        "output_shape": output_size,
        "channels": list(names),
        "chain": chain,
    }
    (folder / "model.json").write_text(json.dumps(card))
    return folder / "model.py"


def whole(loaded_script, array, *, context, tile, factor=1):
    """One forward over the whole array: normalized, then padded with 0 to whole tiles and by the context."""
    names = {"__file__": str(loaded_script)}
    exec(loaded_script.read_text(), names)
    normalized = (array.astype(np.float32) / 255) * 2 - 1
    up = [-(-n // (t * factor)) * t * factor - n for n, t in zip(array.shape, tile, strict=True)]
    padded = np.pad(normalized, [(c, c + u) for c, u in zip(context, up, strict=True)])
    with torch.inference_mode():
        out = names["model"].eval()(torch.from_numpy(padded)[None, None])[0].numpy()
    shape = [-(-n // factor) for n in array.shape]
    return out[:, : shape[0], : shape[1], : shape[2]]


def prediction(path, array, **kw):
    loaded = parse_model(str(path)).load()
    return predict(array_volume(array, **kw), ModelRunner(loaded), loaded.chain, cache=ChunkCache())


RNG = np.random.default_rng(11)
BATCHNORM = (
    "torch.nn.Sequential(torch.nn.Conv3d(1, 4, 3), torch.nn.BatchNorm3d(4), torch.nn.ReLU(), "
    "torch.nn.Conv3d(4, 2, (1, 3, 5)))"
)


def test_tiled_equals_whole_with_shapes_that_are_no_multiple_of_the_tile(tmp_path):
    path = script(tmp_path, BATCHNORM, input_size=(12, 20, 22), output_size=(10, 16, 16), names=("a", "b"))
    array = RNG.integers(0, 255, (23, 37, 41)).astype(np.uint8)
    made = prediction(path, array, voxel_size_nm=(8, 8, 8), corner_nm=(-4, -4, -4))
    expected = whole(path, array, context=(1, 2, 3), tile=(10, 16, 16))
    assert made.levels[0].shape == (2, 23, 37, 41)
    assert made.levels[0].grid.corner_nm == (-4, -4, -4)
    assert np.abs(made.read() - expected).max() <= 1e-5


def test_any_box_equals_the_crop_of_the_whole(tmp_path):
    path = script(tmp_path, BATCHNORM, input_size=(12, 20, 22), output_size=(10, 16, 16), names=("a", "b"))
    array = RNG.integers(0, 255, (23, 37, 41)).astype(np.uint8)
    made = prediction(path, array, voxel_size_nm=(8, 8, 8))
    all_of_it = made.read()
    box = Box((7, 11, 3), (22, 35, 40))
    assert np.array_equal(made.read(box), all_of_it[(slice(None), *box.slices())])


def test_one_tile_larger_than_the_data(tmp_path):
    path = script(tmp_path, BATCHNORM, input_size=(34, 36, 38), output_size=(32, 32, 32), names=("a", "b"))
    array = RNG.integers(0, 255, (5, 6, 7)).astype(np.uint8)
    expected = whole(path, array, context=(1, 2, 3), tile=(32, 32, 32))
    assert np.abs(prediction(path, array, voxel_size_nm=(8, 8, 8)).read() - expected).max() <= 1e-5


def test_an_output_of_larger_voxels_covers_the_data(tmp_path):
    path = script(
        tmp_path, "torch.nn.AvgPool3d(2)", input_size=(16, 16, 16), output_size=(8, 8, 8), output_voxel=(16, 16, 16)
    )
    array = RNG.integers(0, 255, (17, 30, 21)).astype(np.uint8)
    made = prediction(path, array, voxel_size_nm=(8, 8, 8), corner_nm=(0, 100, 0))
    assert made.levels[0].shape == (1, 9, 15, 11)
    assert made.levels[0].grid.voxel_size_nm == (16, 16, 16)
    assert made.levels[0].grid.corner_nm == (0, 100, 0)
    assert np.abs(made.read() - whole(path, array, context=(0, 0, 0), tile=(8, 8, 8), factor=2)).max() <= 1e-5


def test_the_level_is_chosen_by_the_models_voxel_size(tmp_path):
    from chunkloom import Pipeline

    path = script(
        tmp_path, "torch.nn.Conv3d(1, 1, 1)", input_size=(8, 8, 8), output_size=(8, 8, 8), input_voxel=(17, 17, 17)
    )
    loaded = parse_model(str(path)).load()
    raw = Pipeline(
        array_volume(RNG.integers(0, 255, (40, 40, 40)).astype(np.uint8), voxel_size_nm=(8, 8, 8)), chunk=(8, 8, 8)
    )
    made = predict(raw, ModelRunner(loaded), loaded.chain, cache=ChunkCache())
    assert made.levels[0].grid.voxel_size_nm == (16, 16, 16)
    assert made.levels[0].spatial_shape == (20, 20, 20)
    assert any("17, 17, 17" in warning and "16, 16, 16" in warning for warning in made.warnings)


def test_padding_comes_after_the_normalizers(tmp_path):
    chain = {"input_norm": [{"name": "LambdaNormalizer", "expression": "x+100"}], "postprocess": []}
    path = script(tmp_path, "torch.nn.AvgPool3d(3, stride=1)", input_size=(6, 6, 6), output_size=(4, 4, 4), chain=chain)
    made = prediction(path, np.zeros((4, 4, 4), np.uint8), voxel_size_nm=(8, 8, 8)).read()[0]
    assert made[0, 0, 0] == pytest.approx(100 * 8 / 27, rel=1e-6)
    assert made[1, 1, 1] == pytest.approx(100, rel=1e-6)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"output_size": (8, 16, 16)}, "declares an output of shape"),
        ({"names": ("a", "b", "c")}, "declares an output of shape"),
        ({"input_size": (13, 20, 22)}, "same whole number of voxels"),
    ],
    ids=["wrong output", "wrong channels", "half a voxel of context"],
)
def test_a_wrong_declaration_is_found_by_the_warm_up(tmp_path, change, reason):
    given = {"input_size": (12, 20, 22), "output_size": (10, 16, 16), "names": ("a", "b"), **change}
    path = script(tmp_path, BATCHNORM, **given)
    with pytest.raises(ModelError, match=reason):
        ModelRunner(parse_model(str(path)).load()).warm_up()


def test_channels_that_do_not_fit_are_refused(tmp_path):
    path = script(tmp_path, "torch.nn.Conv3d(1, 1, 1)", input_size=(8, 8, 8), output_size=(8, 8, 8))
    with pytest.raises(ModelError, match="reads 1 channel"):
        prediction(path, np.zeros((2, 8, 8, 8), np.uint8), voxel_size_nm=(8, 8, 8))


def test_the_chain_chooses_the_raw_channel(tmp_path):
    chain = {"input_norm": [{"name": "ChannelSelector", "channel": 1}, *CHAIN["input_norm"]], "postprocess": []}
    path = script(tmp_path, "torch.nn.Conv3d(1, 1, 3)", input_size=(10, 10, 10), output_size=(8, 8, 8), chain=chain)
    array = RNG.integers(0, 255, (2, 9, 10, 11)).astype(np.uint8)
    expected = whole(path, array[1], context=(1, 1, 1), tile=(8, 8, 8))
    assert np.abs(prediction(path, array, voxel_size_nm=(8, 8, 8)).read() - expected).max() <= 1e-5


def test_steps_that_depend_on_their_chunk_give_the_same_whoever_asks(tmp_path):
    steps = [
        {"name": "ThresholdPostprocessor"},
        {"name": "LabelPostprocessor"},
        {"name": "MortonSegmentationRelabeling"},
    ]
    chain = {"input_norm": [], "postprocess": steps}
    path = script(tmp_path, "torch.nn.AvgPool3d(3, 1)", input_size=(10, 10, 10), output_size=(8, 8, 8), chain=chain)
    array = (RNG.random((20, 20, 20)) < 0.5).astype(np.float32)
    made = prediction(path, array)
    all_of_it = made.read()
    assert all_of_it.dtype == np.uint64
    assert len(np.unique(all_of_it)) > 27
    box = Box((5, 6, 7), (18, 19, 20))
    assert np.array_equal(prediction(path, array).read(box), all_of_it[(slice(None), *box.slices())])
    first, second = all_of_it[0, :8, :8, :8], all_of_it[0, :8, :8, 8:16]
    assert not set(np.unique(first)) & set(np.unique(second)) - {0}


def test_whole_volume_statistics_are_frozen_into_the_chain(tmp_path):
    chain = {"input_norm": [{"name": "WholeVolumeStandardizer"}], "postprocess": []}
    path = script(tmp_path, "torch.nn.Identity()", input_size=(8, 8, 8), output_size=(8, 8, 8), chain=chain)
    array = RNG.integers(0, 255, (20, 21, 22)).astype(np.uint8)
    made = prediction(path, array).read()[0]
    assert np.allclose(made, (array - array.mean()) / array.std(), atol=1e-5)


def test_other_weights_are_another_volume(tmp_path):
    array = np.zeros((8, 8, 8), np.uint8)
    path = script(tmp_path, "torch.nn.Conv3d(1, 1, 1)", input_size=(8, 8, 8), output_size=(8, 8, 8))
    first = prediction(path, array).digest
    path.write_text(path.read_text().replace("manual_seed(5)", "manual_seed(6)"))
    assert prediction(path, array).digest != first
