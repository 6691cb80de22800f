"""Model scripts: a Python file whose globals are a PyTorch module and what it reads and writes.

The file is the user's own program and runs as such, with all their rights: only scripts that they trust.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from chunkloom.chain.spec import PipelineSpec
from chunkloom.errors import MissingExtraError, ModelError
from chunkloom.models.geometry import ModelGeometry
from chunkloom.models.kinds.base import Array, LoadedModel, ModelConfig, file_version
from chunkloom.models.modeljson import read_chain


class ScriptModelConfig(ModelConfig):
    """A Python file that defines `model` and its geometry.

    Parameters
    ----------
    script_path
        The `.py` file.
    name
        What its volume is called. Default: the file's name without its ending.
    scale
        The raw data's level to read, such as "s1". Default: chosen by voxel size.
    """

    cli_name: ClassVar[str] = "script"

    def __init__(self, script_path: str, name: str | None = None, scale: str | None = None) -> None:
        self.script_path = Path(script_path)
        self.name = name
        self.scale = scale

    def load(self) -> LoadedModel:
        path = self.script_path
        names = run_script(path)
        geometry = script_geometry(names, path)
        module = names.get("model")
        if module is None:
            raise ModelError(f"{path}: defines no `model`: expected a torch.nn.Module under that name")
        try:
            import torch
        except ImportError as error:
            raise MissingExtraError(
                "script models need PyTorch, which is not installed: pip install 'chunkloom[torch]'"
            ) from error
        if not isinstance(module, torch.nn.Module):
            raise ModelError(f"{path}: `model` is a {type(module).__name__}: expected a torch.nn.Module")
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        module = module.to(device).eval()

        def forward(block: Array) -> Array:
            with torch.inference_mode():
                # A copy: torch warns about, and could write into, read-only arrays.
                given = torch.from_numpy(np.array(block[np.newaxis], np.float32)).to(device)
                return np.asarray(module(given)[0].float().cpu().numpy())

        return LoadedModel(
            name=self.name or path.stem,
            geometry=geometry,
            forward=forward,
            device=str(device),
            version=_version(path, module),
            chain=_chain_beside(path),
        )


def run_script(path: Path) -> dict[str, Any]:
    """The globals of a script after it ran, with `__file__` its path and its folder first on the import path."""
    try:
        source = path.read_bytes()
    except FileNotFoundError as error:
        raise ModelError(f"no such model script: {path}") from error
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    names: dict[str, Any] = {"__file__": str(path.resolve()), "__name__": "chunkloom_model_script"}
    sys.path.insert(0, str(path.resolve().parent))
    try:
        # What it prints is for the person: stdout is for what other programs read.
        with contextlib.redirect_stdout(sys.stderr):
            exec(compile(source, str(path), "exec"), names)
    except SystemExit as error:
        raise ModelError(
            f"{path}{_line_of(error, path)}: calls sys.exit({error.code}): a model script must end"
        ) from error
    except ImportError as error:
        if error.name in ("torch", "safetensors"):
            raise MissingExtraError(
                f"{path} needs PyTorch, which is not installed: {sys.executable} -m pip install 'chunkloom[torch]'"
            ) from error
        raise ModelError(f"{path}: cannot import {error.name or error}: {error}") from error
    except Exception as error:
        line = _line_of(error, path)
        reason = error.msg if isinstance(error, SyntaxError) else error
        raise ModelError(f"{path}{line}: {type(error).__name__}: {reason}") from error
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(str(path.resolve().parent))
    return names


def _line_of(error: BaseException, path: Path) -> str:
    if isinstance(error, SyntaxError) and error.lineno:
        return f", line {error.lineno}"
    import traceback

    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""


def script_geometry(names: dict[str, Any], path: Path) -> ModelGeometry:
    """The geometry from a script's globals: shapes in voxels (`input_size`) or in nm (`read_shape`)."""

    def need(name: str) -> Any:
        if names.get(name) is None:
            raise ModelError(f"{path}: defines no `{name}`")
        return names[name]

    try:
        input_voxel = _triple(need("input_voxel_size"))
        output_voxel = _triple(names.get("output_voxel_size") or input_voxel)
        channels = next((names[k] for k in ("channels", "channels_names", "classes") if names.get(k)), ())
        channels = (channels,) if isinstance(channels, str) else tuple(str(c) for c in channels)
        return ModelGeometry(
            input_voxel_size=input_voxel,
            output_voxel_size=output_voxel,
            input_shape=_voxels(names, "input_size", "read_shape", input_voxel, path),
            output_shape=_voxels(names, "output_size", "write_shape", output_voxel, path),
            output_channels=int(names.get("output_channels") or max(1, len(channels))),
            channel_names=channels,
            output_dtype=np.dtype(names.get("output_dtype") or "float32").name,
            input_channels=int(names.get("input_channels") or 1),
        )
    except ModelError as error:
        raise error if str(error).startswith(str(path)) else ModelError(f"{path}: {error}") from error
    except (TypeError, ValueError) as error:
        raise ModelError(f"{path}: {error}") from error


def _triple(values: Any) -> tuple[Any, ...]:
    if isinstance(values, int | float):
        return (values,) * 3
    return tuple(v.item() if isinstance(v, np.generic) else v for v in values)


def _voxels(names: dict[str, Any], voxels: str, nm: str, size: tuple[Any, ...], path: Path) -> Any:
    if names.get(voxels) is not None:
        return _triple(names[voxels])
    if names.get(nm) is None:
        raise ModelError(f"{path}: defines neither `{voxels}` (voxels) nor `{nm}` (nm)")
    counts = [length / v for length, v in zip(_triple(names[nm]), size, strict=True)]
    # The quotient of real numbers: whole within rounding is whole.
    return tuple(round(n) if abs(n - round(n)) < 1e-6 * max(1.0, n) else n for n in counts)


def _version(path: Path, module: Any) -> str:
    digest = hashlib.blake2b(file_version(path).encode(), digest_size=8)
    for name, tensor in module.state_dict().items():
        if not hasattr(tensor, "detach") or type(tensor).__name__.startswith("Uninitialized"):
            raise ModelError(f"{path}: parameter {name!r} has no values yet (a lazy module): run it once in the script")
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).numpy().tobytes())
    return digest.hexdigest()


def _chain_beside(path: Path) -> PipelineSpec:
    beside = path.with_name("model.json")
    return read_chain(beside) if beside.is_file() else PipelineSpec()
