"""Exports of cellmap-models: a folder with `metadata.json` and the model in one or more formats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from chunkloom.errors import ChunkloomError, ModelError
from chunkloom.models.geometry import ModelGeometry
from chunkloom.models.kinds.torch_module import LoadedModule, TorchModelConfig, load_exported, load_torchscript

METADATA = "metadata.json"
# What is loaded, in this order.
LOADERS = {"model.ts": load_torchscript, "model.pt2": load_exported}


class CellMapModelConfig(TorchModelConfig):
    """A folder that cellmap-models exported.

    Parameters
    ----------
    folder_path
        The folder, with `metadata.json` and `model.ts` or `model.pt2`.
    name
        What its volume is called. Default: the folder's name.
    scale
        The raw data's level to read, such as "s1". Default: chosen by voxel size.
    """

    cli_name: ClassVar[str] = "cellmap"
    aliases: ClassVar[dict[str, str]] = {"config_folder": "folder_path"}

    def __init__(self, folder_path: str, name: str | None = None, scale: str | None = None) -> None:
        self.folder_path = Path(folder_path)
        self.name = name
        self.scale = scale

    def load_module(self) -> LoadedModule:
        folder = self.folder_path
        if not folder.is_dir():
            raise ModelError(f"no such folder: {folder}")
        weights = next((folder / name for name in LOADERS if (folder / name).is_file()), None)
        if weights is None:
            raise ModelError(f"{folder}: has none of {', '.join(LOADERS)}")
        return load_export(folder / METADATA, weights, self.name or folder.resolve().name)


def load_export(metadata: Path, weights: Path, name: str) -> LoadedModule:
    """The module of an export, from its metadata and one of its model files."""
    geometry = read_metadata(metadata)
    return LoadedModule(LOADERS[weights.name](weights), geometry, name, (weights, metadata))


def read_metadata(path: Path) -> ModelGeometry:
    """The geometry in a `metadata.json`. The shapes for inference come first, those of training else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ModelError(f"{path}: is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ModelError(f"{path}: is a {type(found).__name__}: expected an object")
    names = found.get("channels_names") or ()
    names = (names,) if isinstance(names, str) else tuple(str(n) for n in names)
    try:
        return ModelGeometry(
            input_voxel_size=_needed(found, path, "input_voxel_size"),
            output_voxel_size=found.get("output_voxel_size") or _needed(found, path, "input_voxel_size"),
            input_shape=_spatial(_needed(found, path, "inference_input_shape", "input_shape")),
            output_shape=_spatial(_needed(found, path, "inference_output_shape", "output_shape")),
            output_channels=int(found.get("out_channels") or max(1, len(names))),
            channel_names=names,
            input_channels=int(found.get("in_channels") or 1),
        )
    except ChunkloomError as error:
        raise error if str(error).startswith(str(path)) else ModelError(f"{path}: {error}") from error
    except (TypeError, ValueError) as error:
        raise ModelError(f"{path}: {error}") from error


def _needed(found: dict[str, Any], path: Path, *names: str) -> Any:
    for name in names:
        if found.get(name) is not None:
            return found[name]
    raise ModelError(f"{path}: misses {' or '.join(repr(name) for name in names)}")


def _spatial(shape: Any) -> Any:
    """The last three of a shape: some list the batch and the channels too."""
    return list(shape)[-3:] if isinstance(shape, Sequence) and not isinstance(shape, str) else shape
