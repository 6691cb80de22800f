"""What each kind's entry is, word for word: files of users and addresses of servers hold these."""

from __future__ import annotations

import json

import pytest

from chunkloom.models.registry import build_model, describe_parameters, model_type, model_types, models_schema

ENTRIES = {
    "bioimage": (
        {"type": "Bio", "model_path": "zoo/shark", "voxel_size": "8,4,4", "name": "n"},
        {"type": "bioimage", "model": "zoo/shark", "voxel_size": [8, 4, 4], "name": "n"},
    ),
    "cellmap": (
        {"type": "cellmap", "config_folder": "m/mito", "scale": "s1"},
        {"type": "cellmap", "folder_path": "m/mito", "scale": "s1"},
    ),
    "cellpose": (
        {"type": "cellpose", "voxel_size": 8.5, "diameter": "30"},
        {
            "type": "cellpose",
            "voxel_size": [8.5, 8.5, 8.5],
            "pretrained_model": "cpsam",
            "output": "cellprob",
            "slices_per_chunk": 8,
            "slice_size": 512,
            "context": 32,
            "batch_size": 8,
            "diameter": 30,
        },
    ),
    "dacapo": (
        {"type": "DaCapo", "run_name": "run7", "iteration": "2000"},
        {"type": "dacapo", "run_name": "run7", "iteration": 2000},
    ),
    "exported": ({"type": "exported", "path": "m.pt2"}, {"type": "exported", "path": "m.pt2"}),
    "finetune": (
        {"type": "finetune", "lora_adapter_path": "a", "base_model": {"type": "onnx", "path": "b"}},
        {"type": "finetune", "lora_adapter_path": "a", "base_model": {"type": "onnx", "path": "b"}},
    ),
    "fly": (
        {"type": "fly", "checkpoint": "m.ts", "classes": "mito,er", "resolution": [5.24, 4, 4], "input_size": "[64]"}
        | {"output_size": [48, 48, 48]},
        {
            "type": "fly",
            "checkpoint_path": "m.ts",
            "channels": ["mito", "er"],
            "input_voxel_size": [5.24, 4, 4],
            "input_size": [64, 64, 64],
            "output_size": [48, 48, 48],
        },
    ),
    "huggingface": (
        {"type": "hugging-face", "repo": "cellmap/er", "revision": "0f3c", "description": "older entries say more"},
        {"type": "huggingface", "repo": "cellmap/er", "revision": "0f3c"},
    ),
    "onnx": ({"type": "ONNX", "path": "m.onnx", "name": ""}, {"type": "onnx", "path": "m.onnx"}),
    "script": (
        {"type": "script", "script_path": "m.py", "scale": "s0"},
        {"type": "script", "script_path": "m.py", "scale": "s0"},
    ),
    "tensorflow": (
        {"type": "tensorflow", "path": "saved", "input_voxel_size": 8, "input_size": 64, "channels": ["a"]},
        {
            "type": "tensorflow",
            "path": "saved",
            "input_voxel_size": [8, 8, 8],
            "input_size": [64, 64, 64],
            "channels": ["a"],
        },
    ),
    "torchscript": ({"type": "torch_script", "path": "m.ts"}, {"type": "torchscript", "path": "m.ts"}),
}

PARAMETERS = {
    "bioimage": "model voxel_size edge_length_to_process weight_format name scale",
    "cellmap": "folder_path name scale",
    "cellpose": "voxel_size pretrained_model output slices_per_chunk slice_size context batch_size diameter name scale",
    "dacapo": "run_name iteration name scale",
    "exported": "path name scale",
    "finetune": "lora_adapter_path weights_path base_model name scale input_voxel_size output_voxel_size",
    "fly": "checkpoint_path channels input_voxel_size output_voxel_size name input_size output_size scale",
    "huggingface": "repo revision name scale",
    "onnx": "path name scale",
    "script": "script_path name scale",
    "tensorflow": "path input_voxel_size input_size output_size output_voxel_size channels name scale",
    "torchscript": "path name scale",
}


@pytest.mark.parametrize("kind", sorted(ENTRIES))
def test_the_entry_of_a_kind(kind):
    given, expected = ENTRIES[kind]
    made = build_model(given)
    assert json.dumps(made.to_dict()) == json.dumps(expected)
    assert build_model(made.to_dict()).to_dict() == expected


def test_the_parameters_of_every_kind():
    found = {kind: " ".join(p.name for p in describe_parameters(cls)) for kind, cls in model_types().items()}
    assert {kind: found[kind] for kind in PARAMETERS} == PARAMETERS


@pytest.mark.parametrize("kind", sorted(PARAMETERS))
def test_every_parameter_has_a_line_of_help(kind):
    assert [p.name for p in describe_parameters(model_type(kind)) if not p.help] == []


def test_the_schema_of_a_kind():
    one = next(s for s in models_schema()["oneOf"] if s["title"] == "dacapo")
    assert one["required"] == ["type", "run_name", "iteration"]
    assert one["properties"]["iteration"] == {
        "type": "integer",
        "description": "The iteration whose weights are used.",
    }
