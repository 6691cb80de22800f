"""`model.json`: what stands beside a model's weights and says how to use them.

Format "chunkloom-model/1"; the browser engine reads the same file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from chunkloom.chain.spec import PipelineSpec
from chunkloom.errors import ChunkloomError, ModelError
from chunkloom.models.geometry import ModelGeometry

FORMAT = "chunkloom-model/1"
_REQUIRED = ("name", "weights", "input_voxel_size_nm", "output_voxel_size_nm", "input_shape", "output_shape")


@dataclass(frozen=True)
class ModelCard:
    """A parsed `model.json`: `weights` is the file it names, as a path."""

    name: str
    weights: Path
    geometry: ModelGeometry
    multiple_of: tuple[int, ...] | None = None
    chain: PipelineSpec = field(default_factory=PipelineSpec)
    licence: str | None = None
    source: str | None = None
    quality: dict[str, Any] | None = None
    input_axes: str = "czyx"


def find_model_json(path: Path) -> Path | None:
    """The `model.json` of a folder, or the ``<stem>.json`` or ``model.json`` beside a weights file; None if none."""
    if path.is_dir():
        candidates = [path / "model.json"]
    elif path.name.endswith(".json"):
        candidates = [path]
    else:
        candidates = [path.with_suffix(".json"), path.parent / "model.json"]
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def card_of(path: Path) -> tuple[ModelCard, Path]:
    """The card of a weights file, a folder or a `model.json`, and where it is. Raises `ModelError` where none is."""
    found = find_model_json(path)
    if found is None:
        if not path.exists():
            raise ModelError(f"no such model: {path}")
        names = " or ".join(dict.fromkeys([path.with_suffix(".json").name, "model.json"]))
        raise ModelError(f"{path}: expected {names} beside it, which gives voxel sizes and shapes")
    return read_model_json(found), found


def read_model_json(path: Path) -> ModelCard:
    """Parse a `model.json`. Raises `ModelError` naming the file, the member, what was found and what is expected."""
    data = _document(path)
    missing = [name for name in _REQUIRED if name not in data]
    if missing:
        raise ModelError(f"{path}: misses {', '.join(missing)}")
    channels = data.get("channels") or []
    if not isinstance(channels, list) or not all(isinstance(c, str) for c in channels):
        raise ModelError(f'{path}: member "channels" is {channels!r}: expected a list of names')
    try:
        geometry = ModelGeometry(
            input_voxel_size=data["input_voxel_size_nm"],
            output_voxel_size=data["output_voxel_size_nm"],
            input_shape=data["input_shape"],
            output_shape=data["output_shape"],
            output_channels=max(1, len(channels)),
            channel_names=tuple(channels),
            output_dtype=data.get("output_dtype", "float32"),
            input_channels=data.get("input_channels", 1),
        )
    except ChunkloomError as error:
        raise ModelError(f"{path}: {error}") from error
    chain = _chain(data, path)
    # A bare name: a card must not reach beyond its own folder.
    weights = path.parent / Path(str(data["weights"])).name
    if str(data["weights"]) != weights.name or not weights.is_file():
        raise ModelError(f'{path}: member "weights" is {data["weights"]!r}: expected the name of a file beside it')
    multiple = data.get("multiple_of")
    axes = data.get("input_axes", "czyx")
    if axes not in ("czyx", "zyx"):
        raise ModelError(f'{path}: member "input_axes" is {axes!r}: expected "czyx", or "zyx" without channels')
    return ModelCard(
        name=str(data["name"]),
        weights=weights,
        geometry=geometry,
        multiple_of=tuple(multiple) if isinstance(multiple, list) else None,
        chain=chain,
        licence=data.get("licence"),
        source=data.get("source"),
        quality=data.get("quality"),
        input_axes=axes,
    )


def read_chain(path: Path) -> PipelineSpec:
    """The chain of a `model.json` alone, for a model that needs nothing else of it."""
    return _chain(_document(path), path)


def _chain(data: dict[str, Any], path: Path) -> PipelineSpec:
    try:
        spec = PipelineSpec.from_json_data(data.get("chain") or {"input_norm": [], "postprocess": []})
        spec.build()
    except ChunkloomError as error:
        raise ModelError(f'{path}: member "chain": {error}') from error
    return spec


def _document(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ModelError(f"{path}: is not JSON: {error}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        found = data.get("format") if isinstance(data, dict) else type(data).__name__
        raise ModelError(f'{path}: member "format" is {found!r}: expected "{FORMAT}"')
    return data


def bundled_models() -> dict[str, Path]:
    """The models that come with chunkloom: name to folder."""
    root = Path(str(resources.files("chunkloom.models"))) / "bundled"
    return {p.name: p for p in sorted(root.iterdir()) if (p / "model.json").is_file()} if root.is_dir() else {}
