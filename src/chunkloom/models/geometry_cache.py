"""A model's geometry without building it where that can be had: a running server, a file of answers, else a build.

A key of the file changes with what it stands for: a script's key holds its time, a Hub model's its revision. What
has no such key is not kept.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from chunkloom.errors import ChunkloomError
from chunkloom.models.geometry import ModelGeometry
from chunkloom.models.kinds.base import ModelConfig
from chunkloom.settings import home

_log = logging.getLogger(__name__)

LARGEST = 200
_FIELDS = ("read_shape", "write_shape", "input_voxel_size", "output_voxel_size", "output_channels")


def model_geometry(config: ModelConfig, server: str | None = None) -> ModelGeometry:
    """The geometry of a model: from a running server of it, from the file of answers, or by loading the model.

    Parameters
    ----------
    config
        The model.
    server
        Address of a server that runs it, if there is one.

    Raises
    ------
    ModelError
        It had to be loaded, and could not be.
    """
    if server is not None and (told := geometry_of_server(server)) is not None:
        return told
    key = cache_key(config)
    kept = None if key is None else _parse(_read().get(key))
    if kept is not None:
        return kept
    geometry = config.load().geometry
    if key is not None:
        _store(key, geometry)
    return geometry


def cache_path() -> Path:
    """The file of answers."""
    return home() / "model_geometry_cache.json"


def cache_key(config: ModelConfig) -> str | None:
    """What the geometry of this model is kept under; None when nothing would say that it has changed."""
    kind, entry = config.cli_name, config.entry
    if kind == "script":
        path = Path(str(entry["script_path"])).expanduser().resolve()
        try:
            return f"script:{path}:{path.stat().st_mtime_ns}"
        except OSError:
            return None
    if kind == "huggingface" and entry.get("revision"):
        return f"hf:{entry['repo']}:{entry['revision']}"
    return None


def geometry_of_server(server: str, timeout: float = 3) -> ModelGeometry | None:
    """What a server's model_info says: all five fields, or None."""
    if urllib.parse.urlsplit(server).scheme not in ("http", "https"):
        return None
    try:
        with urllib.request.urlopen(f"{server.rstrip('/')}/__control__/model_info", timeout=timeout) as answer:
            return _parse(json.loads(answer.read(1 << 20)))
    except (OSError, ValueError) as error:
        _log.info("%s tells no geometry: %s", server, error)
        return None


def _parse(data: Any) -> ModelGeometry | None:
    if not isinstance(data, dict) or any(data.get(field) is None for field in _FIELDS):
        return None
    try:
        return ModelGeometry(
            input_voxel_size=data["input_voxel_size"],
            output_voxel_size=data["output_voxel_size"],
            input_shape=_voxels(data["read_shape"], data["input_voxel_size"]),
            output_shape=_voxels(data["write_shape"], data["output_voxel_size"]),
            output_channels=data["output_channels"],
            channel_names=tuple(data.get("channels") or ()),
            input_channels=data.get("input_channels", 1),
        )
    except (ChunkloomError, TypeError, ValueError, ZeroDivisionError):
        return None


def _voxels(shape_nm: list[float], voxel_nm: list[float]) -> tuple[Any, ...]:
    counts = [n / v for n, v in zip(shape_nm, voxel_nm, strict=True)]
    # A quotient of real numbers: whole within rounding is whole.
    return tuple(round(n) if abs(n - round(n)) < 1e-6 * max(1.0, n) else n for n in counts)


def _read() -> dict[str, Any]:
    try:
        data = json.loads(cache_path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # Answers that cannot be read are asked for again.
    return data if isinstance(data, dict) else {}


def _store(key: str, geometry: ModelGeometry) -> None:
    kept = _read()
    kept.pop(key, None)
    kept[key] = {
        "read_shape": list(geometry.read_shape),
        "write_shape": list(geometry.write_shape),
        "input_voxel_size": list(geometry.input_voxel_size),
        "output_voxel_size": list(geometry.output_voxel_size),
        "output_channels": geometry.output_channels,
        "channels": list(geometry.channel_names) or None,
        "input_channels": geometry.input_channels,
    }
    newest = dict(list(kept.items())[-LARGEST:])
    path = cache_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as beside:
            json.dump(newest, beside, indent=2)
        os.replace(beside.name, path)
    except OSError as error:
        _log.warning("the geometry of models is not kept: %s: %s", path, error)
