"""Small models made in the tests, saved as each kind of model keeps them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

INPUT, OUTPUT = (12, 20, 22), (10, 16, 16)
CONTEXT = (1, 2, 3)
VOXEL = (8, 8, 8)


def network(seed: int = 5) -> torch.nn.Module:
    """One channel in, two out, context 1, 2, 3; its batch norm has seen data."""
    torch.manual_seed(seed)
    made = torch.nn.Sequential(
        torch.nn.Conv3d(1, 4, 3), torch.nn.BatchNorm3d(4), torch.nn.ReLU(), torch.nn.Conv3d(4, 2, (1, 3, 5))
    )
    made(torch.randn(4, 1, *INPUT))
    return made.eval()


def card(folder: Path, weights: str, **change: Any) -> Path:
    """A model.json beside `weights`."""
    path = folder / "model.json"
    path.write_text(
        json.dumps(
            {
                "format": "chunkloom-model/1",
                "name": "made",
                "weights": weights,
                "input_voxel_size_nm": VOXEL,
                "output_voxel_size_nm": VOXEL,
                "input_shape": INPUT,
                "output_shape": OUTPUT,
                "channels": ["a", "b"],
                **change,
            }
        )
    )
    return path


def example() -> tuple[torch.Tensor]:
    return (torch.zeros(1, 1, *INPUT),)


def torchscript(folder: Path, model: torch.nn.Module, name: str = "model.ts") -> Path:
    torch.jit.trace(model, example()).save(str(folder / name))
    return folder / name


def cellmap_export(folder: Path, model: torch.nn.Module) -> Path:
    """What cellmap-models exports, with training shapes that are not those of inference."""
    folder.mkdir(exist_ok=True)
    torchscript(folder, model)
    metadata = {
        "model_name": "made",
        "framework": "torch",
        "spatial_dims": 3,
        "in_channels": 1,
        "out_channels": 2,
        "input_voxel_size": VOXEL,
        "output_voxel_size": VOXEL,
        "channels_names": ["a", "b"],
        "input_shape": [1, 1, 6, 8, 10],
        "output_shape": [1, 2, 4, 4, 4],
        "inference_input_shape": INPUT,
        "inference_output_shape": OUTPUT,
    }
    (folder / "metadata.json").write_text(json.dumps(metadata))
    return folder


def script(folder: Path, more: str = "", seed: int = 5) -> Path:
    torch.save(network(seed).state_dict(), folder / "state.pt")
    path = folder / "made.py"
    path.write_text(
        f"""
from pathlib import Path
import torch
input_voxel_size = output_voxel_size = {VOXEL}
input_size, output_size = {INPUT}, {OUTPUT}
output_channels, channels = 2, ["a", "b"]
model = torch.nn.Sequential(
    torch.nn.Conv3d(1, 4, 3), torch.nn.BatchNorm3d(4), torch.nn.ReLU(), torch.nn.Conv3d(4, 2, (1, 3, 5))
)
model.load_state_dict(torch.load(Path(__file__).parent / "state.pt", weights_only=True))
{more}
"""
    )
    return path


def onnx(folder: Path, model: torch.nn.Module, name: str = "model.onnx") -> Path:
    torch.onnx.export(model, example(), str(folder / name), dynamo=False, opset_version=17)
    return folder / name


def adapter(folder: Path, layers: dict[str, torch.nn.Module], rank: int = 2, alpha: int = 6, seed: int = 3) -> Path:
    """A LoRA adapter as PEFT writes one, with random halves."""
    from safetensors.torch import save_file

    torch.manual_seed(seed)
    folder.mkdir(exist_ok=True)
    tensors = {}
    for name, layer in layers.items():
        o, i, *k = layer.weight.shape
        tensors[f"base_model.model.{name}.lora_A.weight"] = torch.randn(rank, i, *k) / 10
        tensors[f"base_model.model.{name}.lora_B.weight"] = torch.randn(o, rank, *[1] * len(k)) / 10
    save_file(tensors, str(folder / "adapter_model.safetensors"))
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": alpha, "bias": "none", "target_modules": list(layers)}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder
