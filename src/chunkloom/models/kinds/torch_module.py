"""What kinds of model share that are a PyTorch module: the device, the forward, the version, and the loading of files.

Knows nothing of where a module comes from. torch is imported when a model is loaded.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from chunkloom.chain.spec import PipelineSpec
from chunkloom.errors import ModelError
from chunkloom.models.geometry import ModelGeometry
from chunkloom.models.kinds.base import (
    Array,
    LoadedModel,
    ModelConfig,
    channels_first,
    file_version,
    first_line,
    missing_extra,
)


@dataclass(frozen=True)
class LoadedModule:
    """A module and what it reads and writes; a finetuned model starts from one.

    Attributes
    ----------
    module
        (1, channels, z, y, x) float32 to the same; or a callable that behaves so.
    geometry
        What it declares.
    name
        What its volume is called.
    files
        What it was made of; their contents are part of its version.
    chain
        The normalizers and postprocessors used where nobody gives others.
    input_axes
        "czyx", or "zyx" for a module whose input has no axis of channels.
    around
        Makes a context in which each forward runs.
    """

    module: Any
    geometry: ModelGeometry
    name: str
    files: tuple[Path, ...]
    chain: PipelineSpec = field(default_factory=PipelineSpec)
    input_axes: str = "czyx"
    around: Callable[[], AbstractContextManager[Any]] = nullcontext


class TorchModelConfig(ModelConfig):
    """A kind of model whose forward is a PyTorch module."""

    @abstractmethod
    def load_module(self) -> LoadedModule:
        """The module on the CPU, before anything was run."""

    def load(self) -> LoadedModel:
        return runnable(self.load_module())


def need_torch(what: str) -> Any:
    """The torch package, or `MissingExtraError` saying what needs it."""
    try:
        import torch
    except ImportError as error:
        raise missing_extra(what, "PyTorch", "torch") from error
    return torch


def best_device(torch: Any) -> Any:
    """cuda, else mps, else cpu."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    mps = getattr(torch.backends, "mps", None)
    return torch.device("mps" if mps is not None and mps.is_available() else "cpu")


def runnable(loaded: LoadedModule) -> LoadedModel:
    """The module on its device, in eval mode, as a forward over arrays."""
    torch = need_torch(f"model {loaded.name!r}")
    device = best_device(torch)
    module, axes = on_device(loaded.module, device), loaded.input_axes

    def forward(block: Array) -> Array:
        with loaded.around(), torch.inference_mode():
            # A copy: torch warns about, and could write into, read-only arrays.
            given = torch.from_numpy(np.array(batched(block, axes), np.float32)).to(device)
            return channels_first(module(given).float().cpu().numpy())

    return LoadedModel(
        name=loaded.name,
        geometry=loaded.geometry,
        forward=forward,
        device=str(device),
        version=module_version(loaded.module, *loaded.files),
        chain=loaded.chain,
    )


def on_device(module: Any, device: Any) -> Any:
    """The module on `device`, in eval mode where it has modes (a program of torch.export has none)."""
    module = module.to(device)
    try:
        return module.eval()
    except NotImplementedError:
        return module


def batched(block: Array, axes: str) -> Array:
    """A block (c, z, y, x) with an axis of batches, and without that of channels where the model has none."""
    if axes == "zyx":
        if block.shape[0] != 1:
            raise ModelError(f"the model's input has no axis of channels, the data has {block.shape[0]} channels")
        return block
    return block[np.newaxis]


def module_version(module: Any, *files: Path) -> str:
    """A digest of the module's tensors and of the files it was made of."""
    import torch

    digest = hashlib.blake2b(file_version(*files).encode(), digest_size=8)
    for name, tensor in module.state_dict().items() if hasattr(module, "state_dict") else ():
        if not hasattr(tensor, "detach") or type(tensor).__name__.startswith("Uninitialized"):
            raise ModelError(
                f"{files[0] if files else 'model'}: parameter {name!r} has no values yet (a lazy module): run it once "
                "in the script"
            )
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def load_torchscript(path: Path) -> Any:
    """A TorchScript file as a module on the CPU."""
    torch = need_torch(f"TorchScript model {path.name}")
    _must_be_file(path)
    try:
        return torch.jit.load(str(path), map_location="cpu")
    except (RuntimeError, ValueError, EOFError) as error:
        raise ModelError(f"{path}: is not a TorchScript file that PyTorch can load: {first_line(error)}") from error


def load_exported(path: Path) -> Any:
    """A program saved by torch.export as a module on the CPU."""
    torch = need_torch(f"exported model {path.name}")
    _must_be_file(path)
    try:
        return torch.export.load(str(path)).module()
    except Exception as error:
        # torch.export has no base class for what it raises: zip, JSON, pickle and schema errors all come through.
        raise ModelError(
            f"{path}: is not a file of torch.export.save that PyTorch {torch.__version__} can load: {first_line(error)}"
        ) from error


def load_tensors(path: Path) -> dict[str, Any]:
    """The named tensors of a `.safetensors` file, or of a checkpoint read without running what is pickled in it."""
    torch = need_torch(f"weights {path.name}")
    _must_be_file(path)
    if path.suffix == ".safetensors":
        try:
            from safetensors.torch import load_file
        except ImportError as error:
            raise missing_extra(f"weights {path.name}", "safetensors", "torch") from error
        try:
            return dict(load_file(str(path)))
        except Exception as error:
            # safetensors raises an error of its own from Rust, without a Python base class.
            raise ModelError(f"{path}: cannot be read: {first_line(error)}") from error
    try:
        found = torch.load(str(path), map_location="cpu", weights_only=True)
    except Exception as error:
        # pickle.UnpicklingError, RuntimeError and EOFError; all mean the file is not one of plain tensors.
        raise ModelError(
            f"{path}: cannot be read as tensors alone (weights_only): {first_line(error)}. Save it as "
            "torch.save(model.state_dict(), …)"
        ) from error
    if not isinstance(found, dict):
        raise ModelError(f"{path}: holds a {type(found).__name__}: expected a dictionary of tensors")
    return found


def load_state(module: Any, state: dict[str, Any], path: Path) -> None:
    """Put `state` into `module`; every name must be there on both sides, with the same shape."""
    try:
        module.load_state_dict(state, strict=True)
    except (RuntimeError, TypeError, AttributeError) as error:
        lines = " ".join(str(error).split())
        raise ModelError(f"{path}: does not fit the model: {lines[:400]}") from error


def _must_be_file(path: Path) -> None:
    if not path.is_file():
        raise ModelError(f"no such model file: {path}")
