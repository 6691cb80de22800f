"""Finetuned models: a base model with a LoRA adapter folded into its weights, or with weights of its own.

An adapter is read as PEFT writes it; PEFT itself is not needed to serve one.
"""

from __future__ import annotations

import base64
import binascii
import json
from pathlib import Path
from typing import Any, ClassVar

from chunkloom.errors import ModelError, ParameterError
from chunkloom.models.geometry import ModelGeometry
from chunkloom.models.kinds.base import VoxelSize
from chunkloom.models.kinds.torch_module import LoadedModule, TorchModelConfig, load_state, load_tensors, need_torch

PEFT_PREFIX = "base_model.model."


class FinetuneModelConfig(TorchModelConfig):
    """A base model with a LoRA adapter, or with all of its weights trained anew.

    Parameters
    ----------
    lora_adapter_path
        A folder with `adapter_config.json`, as PEFT writes it. Either this or weights_path.
    weights_path
        A state dict, `.pt` or `.safetensors`.
    base_model
        The entry of the model that was finetuned: a mapping, JSON, or JSON in base64.
    name
        What its volume is called. Default: the folder's name.
    scale
        The raw data's level to read, such as "s1". Default: chosen by voxel size.
    input_voxel_size
        nm it was finetuned at. Default: the base model's.
    output_voxel_size
        nm. Default: the base model's.
    """

    cli_name: ClassVar[str] = "finetune"

    def __init__(
        self,
        lora_adapter_path: str | None = None,
        weights_path: str | None = None,
        base_model: dict[str, Any] | str | None = None,
        name: str | None = None,
        scale: str | None = None,
        input_voxel_size: VoxelSize | None = None,
        output_voxel_size: VoxelSize | None = None,
    ) -> None:
        if (lora_adapter_path is None) == (weights_path is None):
            raise ParameterError("finetune: give exactly one of lora_adapter_path and weights_path")
        if base_model is None:
            raise ParameterError("finetune: base_model is missing: the entry of the model that was finetuned")
        self.adapter = None if lora_adapter_path is None else Path(lora_adapter_path)
        self.weights = None if weights_path is None else Path(weights_path)
        self.base_model = parse_base(base_model)
        self.name = name
        self.scale = scale
        self.input_voxel_size = input_voxel_size
        self.output_voxel_size = output_voxel_size

    def load_module(self) -> LoadedModule:
        from chunkloom.models.registry import build_model

        base_config = build_model(self.base_model)
        if not isinstance(base_config, TorchModelConfig):
            raise ModelError(
                f"finetune: base_model is of type {base_config.cli_name!r}, which is no PyTorch module and cannot be "
                "finetuned"
            )
        base = base_config.load_module()
        made_of: tuple[Path, ...]
        if self.adapter is not None:
            made_of = fold_adapter(base.module, self.adapter)
            default = self.adapter.resolve().name
        else:
            assert self.weights is not None
            load_state(base.module, load_tensors(self.weights), self.weights)
            made_of, default = (self.weights,), self.weights.stem
        geometry = ModelGeometry(
            input_voxel_size=self.input_voxel_size or base.geometry.input_voxel_size,
            output_voxel_size=self.output_voxel_size or base.geometry.output_voxel_size,
            input_shape=base.geometry.input_shape,
            output_shape=base.geometry.output_shape,
            output_channels=base.geometry.output_channels,
            channel_names=base.geometry.channel_names,
            output_dtype=base.geometry.output_dtype,
            input_channels=base.geometry.input_channels,
        )
        return LoadedModule(
            base.module,
            geometry,
            self.name or default,
            (*base.files, *made_of),
            base.chain,
            base.input_axes,
            base.around,
        )


def parse_base(base: dict[str, Any] | str) -> dict[str, Any]:
    """The entry of a base model, given as a mapping, as JSON, or as JSON in base64."""
    found: Any = base
    if isinstance(base, str):
        text = base.strip()
        try:
            if not text.startswith("{"):
                text = base64.b64decode(
                    text, altchars=b"-_" if {"-", "_"} & set(text) else None, validate=True
                ).decode()
            found = json.loads(text)
        except (binascii.Error, UnicodeDecodeError, ValueError) as error:
            raise ParameterError("finetune: base_model is neither a JSON object nor one in base64") from error
    if not isinstance(found, dict):
        raise ParameterError(f"finetune: base_model is a {type(found).__name__}: expected a model entry")
    return found


def fold_adapter(module: Any, folder: Path) -> tuple[Path, ...]:
    """Add an adapter's low-rank change to the weights of `module`; the files it was read from.

    For a layer with weight (o, i, k…), A (r, i, k…) and B (o, r, 1…) the change is ``s · Σ_r B[o, r] A[r, i, k…]`` with
    s = alpha / r (Hu et al. 2021, arXiv:2106.09685; alpha / sqrt(r) for rank-stabilized ones, arXiv:2312.03732).
    """
    torch = need_torch(f"adapter {folder}")
    config, config_path = _adapter_config(folder)
    path = next(
        (folder / n for n in ("adapter_model.safetensors", "adapter_model.bin") if (folder / n).is_file()),
        folder / "adapter_model.safetensors",
    )
    tensors = load_tensors(path)
    layers, left = _pairs(tensors)
    if left or not layers:
        raise ModelError(
            f"{path}: holds {left[0] if left else 'no layers'}: expected lora_A and lora_B of layers alone"
        )
    parameters = dict(module.named_parameters())
    with torch.no_grad():
        for layer, (a, b) in layers.items():
            name = _parameter_of(layer, parameters, path)
            weight, rank = parameters[name], a.shape[0]
            alpha = _pattern(config.get("alpha_pattern"), layer, config.get("lora_alpha", rank))
            scaling = alpha / (rank**0.5 if config.get("use_rslora") else rank)
            change = torch.einsum("or,r...->o...", b.float().flatten(1), a.float()) * scaling
            if config.get("fan_in_fan_out"):
                change = change.transpose(0, 1)
            if change.shape != weight.shape:
                raise ModelError(
                    f"{path}: layer {layer!r} changes a weight of shape {tuple(change.shape)}, the base model's has "
                    f"{tuple(weight.shape)}: it belongs to another model, or to a grouped or transposed convolution"
                )
            weight += change.to(weight.dtype).to(weight.device)
    return (path, config_path)


def _adapter_config(folder: Path) -> tuple[dict[str, Any], Path]:
    path = folder / "adapter_config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ModelError(f"{path}: is not JSON: {error}") from error
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        found = config.get("peft_type") if isinstance(config, dict) else type(config).__name__
        raise ModelError(f"{path}: peft_type is {found!r}: expected 'LORA'")
    for member in ("use_dora", "modules_to_save"):
        if config.get(member):
            raise ModelError(f"{path}: {member} is {config[member]!r}: only plain LoRA is folded in")
    if config.get("bias", "none") != "none":
        raise ModelError(f"{path}: bias is {config['bias']!r}: only 'none' is folded in")
    return config, path


def _pairs(tensors: dict[str, Any]) -> tuple[dict[str, tuple[Any, Any]], list[str]]:
    """Layer to its A and B, and the names that belong to neither."""
    halves: dict[str, dict[str, Any]] = {}
    left = []
    for name, tensor in tensors.items():
        plain = (
            name.removeprefix(PEFT_PREFIX)
            .replace(".lora_A.default.", ".lora_A.")
            .replace(".lora_B.default.", ".lora_B.")
        )
        for half in ("lora_A", "lora_B"):
            if plain.endswith(f".{half}.weight"):
                halves.setdefault(plain.removesuffix(f".{half}.weight"), {})[half] = tensor
                break
        else:
            left.append(name)
    left += [layer for layer, found in halves.items() if len(found) != 2]
    return {layer: (found["lora_A"], found["lora_B"]) for layer, found in halves.items() if len(found) == 2}, left


def _parameter_of(layer: str, parameters: dict[str, Any], path: Path) -> str:
    """The name of a layer's weight in the base; what trained it may have wrapped it in up to two modules more."""
    parts = layer.split(".")
    for skipped in range(min(3, len(parts))):
        name = ".".join([*parts[skipped:], "weight"])
        if name in parameters:
            return name
    known = [name.removesuffix(".weight") for name in parameters if name.endswith(".weight")]
    raise ModelError(
        f"{path}: changes layer {layer!r}, which the base model has not; it has {', '.join(known[:8]) or 'none'}"
    )


def _pattern(patterns: dict[str, float] | None, layer: str, default: float) -> float:
    for pattern, value in (patterns or {}).items():
        if layer == pattern or layer.endswith(f".{pattern}"):
            return value
    return default
