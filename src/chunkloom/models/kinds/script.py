"""Model scripts: a Python file whose globals are a PyTorch module and what it reads and writes.

The file is the user's own program and runs as such, with all their rights: only scripts that they trust.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from chunkloom.chain.spec import PipelineSpec
from chunkloom.errors import ModelError
from chunkloom.models.geometry import ModelGeometry
from chunkloom.models.kinds.base import Array, LoadedModel, file_version, missing_extra
from chunkloom.models.kinds.chunk_functions import function_forward
from chunkloom.models.kinds.torch_module import LoadedModule, TorchModelConfig, module_version, need_torch, runnable
from chunkloom.models.modeljson import read_chain
from chunkloom.models.older_imports import older_imports


class ScriptModelConfig(TorchModelConfig):
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

    def load_module(self) -> LoadedModule:
        path = self.script_path
        names = run_script(path)
        return self._module(names, script_geometry(names, path))

    def load(self) -> LoadedModel:
        path = self.script_path
        names = run_script(path)
        geometry = script_geometry(names, path)
        forward = function_forward(names, geometry, path)
        if forward is None:
            return runnable(self._module(names, geometry))

        def called(block: Array) -> Array:
            # What it imports only when called.
            with older_imports():
                return forward(block)

        return LoadedModel(
            name=self.name or path.stem,
            geometry=geometry,
            forward=called,
            device="as the script says",
            version=_version(path, names),
            chain=_chain_beside(path),
        )

    def _module(self, names: dict[str, Any], geometry: ModelGeometry) -> LoadedModule:
        path, module = self.script_path, names.get("model")
        if module is None:
            raise ModelError(
                f"{path}: defines no `model`: expected a torch.nn.Module under that name, or a function "
                "process_chunk(idi, roi)"
            )
        torch = need_torch(f"model script {path.name}")
        if not isinstance(module, torch.nn.Module):
            raise ModelError(f"{path}: `model` is a {type(module).__name__}: expected a torch.nn.Module")
        return LoadedModule(
            module,
            geometry,
            self.name or path.stem,
            (path,),
            _chain_beside(path),
            input_axes=_input_axes(names, path),
            around=older_imports,
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
        with contextlib.redirect_stdout(sys.stderr), older_imports():
            exec(compile(source, str(path), "exec"), names)
    except SystemExit as error:
        raise ModelError(
            f"{path}{_line_of(error, path)}: calls sys.exit({error.code}): a model script must end"
        ) from error
    except ImportError as error:
        if error.name in ("torch", "safetensors"):
            raise missing_extra(str(path), "PyTorch", "torch") from error
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


def _input_axes(names: dict[str, Any], path: Path) -> str:
    axes = "".join(str(a) for a in names.get("input_axes") or "czyx")
    if axes not in ("czyx", "zyx"):
        raise ModelError(f"{path}: `input_axes` is {axes!r}: expected 'czyx', or 'zyx' without channels")
    return axes


def _version(path: Path, names: dict[str, Any]) -> str:
    module = names.get("model")
    return module_version(module, path) if hasattr(module, "state_dict") else file_version(path)


def _chain_beside(path: Path) -> PipelineSpec:
    beside = path.with_name("model.json")
    return read_chain(beside) if beside.is_file() else PipelineSpec()
