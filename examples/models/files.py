"""Writes a trained model as chunkloom reads it: ONNX, safetensors, a model script, `model.json` and a card."""

from __future__ import annotations

import inspect
import json
import os
import warnings
from pathlib import Path

import numpy as np
import torch

from .recipes import Recipe
from .unet import UNet

TOLERANCE = 1e-5


def input_shape(recipe: Recipe, net: UNet) -> tuple[int, ...]:
    """The voxels read for one output tile, z, y, x."""
    return tuple(n + 2 * c for n, c in zip(recipe.output_shape, net.context, strict=True))


def write_model(out: Path, recipe: Recipe, net: UNet, quality: dict, trained: str) -> None:
    """Write all files of the model into `out`; each is complete or, after a crash, the old one."""
    from safetensors.torch import save

    out.mkdir(parents=True, exist_ok=True)
    write_onnx(out / "model.onnx", recipe, net)
    write(out / "model.safetensors", save({name: t.contiguous() for name, t in net.state_dict().items()}))
    write(out / "model.py", model_script(recipe, net).encode())
    write(out / "model.json", (json.dumps(model_json(recipe, net, quality), indent=2) + "\n").encode())
    write(out / "README.md", card(recipe, net, quality, trained).encode())


def write(path: Path, data: bytes) -> None:
    """Write beside the target, then move into place."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def write_onnx(path: Path, recipe: Recipe, net: UNet) -> None:
    """Export as one file with free spatial axes; stops if ONNX Runtime and torch disagree."""
    import onnxruntime

    sample = torch.rand((1, 1, *input_shape(recipe, net)), generator=torch.Generator().manual_seed(0)) * 2 - 1
    temporary = path.with_name(path.name + ".part")
    free = dict(zip((2, 3, 4), "zyx", strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The exporter without dynamo is deprecated; it alone writes one plain file.
        torch.onnx.export(
            net,
            (sample,),
            str(temporary),
            dynamo=False,
            opset_version=17,
            input_names=["raw"],
            output_names=[recipe.channel],
            dynamic_axes={"raw": free, recipe.channel: {a: f"{n}_out" for a, n in free.items()}},
        )
    with torch.no_grad():
        expected = net(sample).numpy()
    found = onnxruntime.InferenceSession(str(temporary)).run(None, {"raw": sample.numpy()})[0]
    off = float(np.abs(found - expected).max())
    if found.shape != expected.shape or off > TOLERANCE:
        raise SystemExit(f"{path}: ONNX Runtime and torch differ by {off:.1e}, expected at most {TOLERANCE}")
    os.replace(temporary, path)


def model_script(recipe: Recipe, net: UNet) -> str:
    """A model script: the network's source, its weights from the file beside it, and what it reads and writes."""
    return f'''"""{recipe.name}: {recipe.about.replace("*", "")}, as a model script.

Input: 8-bit raw data scaled to -1..1. Output: logits; a sigmoid makes them probabilities.
"""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

input_voxel_size = output_voxel_size = {recipe.voxel_size_nm}  # nm; z, y, x as everywhere
input_size, output_size = {input_shape(recipe, net)}, {recipe.output_shape}  # voxels
channels = ["{recipe.channel}"]
output_channels = len(channels)


{inspect.getsource(UNet)}

model = UNet(
    widths={recipe.widths},
    kernels={recipe.kernels},
    pools={recipe.pools},
    out_channels=output_channels,
)
model.load_state_dict(load_file(Path(__file__).with_name("model.safetensors")))
model.eval()
'''


def model_json(recipe: Recipe, net: UNet, quality: dict) -> dict:
    """What `model.json` says."""
    return {
        "format": "chunkloom-model/1",
        "name": recipe.name,
        "weights": "model.onnx",
        "input_voxel_size_nm": list(recipe.voxel_size_nm),
        "output_voxel_size_nm": list(recipe.voxel_size_nm),
        "input_shape": list(input_shape(recipe, net)),
        "output_shape": list(recipe.output_shape),
        "multiple_of": list(net.multiple_of),
        "input_channels": 1,
        "channels": [recipe.channel],
        "output_dtype": "float32",
        "chain": {
            "input_norm": [
                {"name": "MinMaxNormalizer", "min_value": 0.0, "max_value": 255.0, "invert": False},
                {"name": "LambdaNormalizer", "expression": "x*2-1"},
            ],
            "postprocess": [{"name": "SigmoidPostprocessor"}],
        },
        "licence": recipe.licence,
        "source": recipe.source,
        "quality": quality,
    }


def times(numbers: tuple[float, ...]) -> str:
    """Sizes as people write them."""
    return " x ".join(f"{number:g}" for number in numbers)


def card(recipe: Recipe, net: UNet, quality: dict, trained: str) -> str:
    """The model card, Markdown."""

    parameters = sum(p.numel() for p in net.parameters())
    voxel, step = times(recipe.voxel_size_nm), times(net.multiple_of)
    reads, writes, context = times(input_shape(recipe, net)), times(recipe.output_shape), times(net.context)
    rows = "\n".join(
        f"| {row['intensity']} | {row['roc_auc']:.4f} | {row['average_precision']:.4f} |"
        for row in [{"intensity": "as it is", **quality}, *quality["changed_intensity"]]
    )
    levels = ", ".join(f"{w} ({times(k)})" for w, k in zip(recipe.widths, recipe.kernels, strict=True))
    return f"""# {recipe.name}

Predicts {recipe.about}. Output channel: `{recipe.channel}`.

| | |
|---|---|
| Files | `model.onnx` and `model.json` (what is served); `model.py` and `model.safetensors` (a model script) |
| Voxel size | {voxel} nm (z, y, x), input and output |
| Shapes | reads {reads} voxels, writes {writes}; other sizes in steps of {step} work |
| Context | {context} voxels on each side of the output, exactly what the architecture reads |
| Input | 8-bit raw; the chain scales 0..255 to -1..1 (`MinMaxNormalizer`, then `LambdaNormalizer` `x*2-1`) |
| Output | logits, float32; the chain ends in `SigmoidPostprocessor`, so what is served are probabilities |
| Licence | {recipe.licence} |

## Data

{recipe.source}. {quality["training_voxels"]}
{recipe.target_is}

## Architecture

A 3-D U-Net of {parameters:,} parameters: two valid convolutions a stage, with as many channels (kernel) from the
finest level down as {levels};
max pooling by {", ".join(times(pool) for pool in recipe.pools)}; nearest upsampling; a 1 x 1 x 1 head.
Nothing is padded, so a chunk does not depend on how the volume is tiled: tiles that begin on multiples of
{step} voxels hold what one pass over the whole array holds. Batch norm was used in training and is folded
into the weights. The first kernels sum to zero: a constant offset of intensity changes nothing, save beside the
volume's faces, where the fill is read.

## Measured quality

On {quality["held_out"]}, which was kept aside: no voxel the network read there was seen in training.
{quality["held_out_voxels"]:,} voxels, {quality["held_out_positive"]:.1%} of them boundary.

| intensity | ROC AUC | average precision |
|---|---|---|
{rows}

## Use and limits

{recipe.limits}

## Training it again

    python examples/train_sample_model.py --recipe {recipe.name} --data PATH

{trained}
"""
