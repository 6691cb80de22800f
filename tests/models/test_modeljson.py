"""What is wrong with a model.json is said; nothing of it is passed over."""

from __future__ import annotations

import json

import pytest

from chunkloom.errors import ModelError
from chunkloom.models.modeljson import read_chain, read_model_json

CARD = {
    "format": "chunkloom-model/1",
    "name": "a",
    "weights": "a.onnx",
    "input_voxel_size_nm": [8, 8, 8],
    "output_voxel_size_nm": [8, 8, 8],
    "input_shape": [12, 12, 12],
    "output_shape": [8, 8, 8],
    "channels": ["mito"],
    "chain": {"input_norm": [{"name": "MinMaxNormalizer"}], "postprocess": []},
}


def written(folder, **change):
    (folder / "a.onnx").touch()
    path = folder / "model.json"
    path.write_text(json.dumps({**CARD, **change}))
    return path


def test_a_card_is_read(tmp_path):
    card = read_model_json(written(tmp_path))
    assert card.geometry.context == (2, 2, 2)
    assert card.geometry.channel_names == ("mito",)
    assert [step["name"] for step in card.chain.input_norm] == ["MinMaxNormalizer"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other/2"}, ["format", "chunkloom-model/1"]),
        ({"input_shape": [12, 12]}, ["input_shape", "three numbers"]),
        ({"input_shape": [13, 12, 12]}, ["axis z", "same whole number"]),
        ({"input_voxel_size_nm": [8, 8, "x"]}, ["input_voxel_size"]),
        ({"channels": "mito"}, ["channels"]),
        ({"weights": "none.onnx"}, ["weights", "none.onnx"]),
        ({"weights": "../a.onnx"}, ["weights", "../a.onnx"]),
        ({"weights": "/etc/hostname"}, ["weights", "/etc/hostname"]),
        ({"chain": {"input_norm": [{"name": "MinMaxNormalyzer"}], "postprocess": []}}, ["chain", "MinMaxNormalizer"]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_wrong_is_named(tmp_path, change, words):
    with pytest.raises(ModelError) as refused:
        read_model_json(written(tmp_path, **change))
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize("text", ["", "[1]", "{"])
def test_what_is_no_card_is_named(tmp_path, text):
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(ModelError, match=r"model\.json"):
        read_model_json(path)


def test_the_chain_alone_needs_no_weights(tmp_path):
    path = written(tmp_path)
    (tmp_path / "a.onnx").unlink()
    assert len(read_chain(path).input_norm) == 1


def test_a_broken_chain_beside_a_script_is_not_passed_over(tmp_path):
    with pytest.raises(ModelError, match="chain"):
        read_chain(written(tmp_path, chain={"input_norm": [{"name": "Nothing"}]}))
