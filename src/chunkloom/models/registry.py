"""The kinds of model by name, and a model from an entry, a file, a folder or the name of a bundled one."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

from chunkloom.errors import ModelError, ParameterError, nearest
from chunkloom.models.kinds import (
    CellMapModelConfig,
    ExportedModelConfig,
    ModelConfig,
    OnnxModelConfig,
    ScriptModelConfig,
    TorchScriptModelConfig,
)
from chunkloom.models.modeljson import bundled_models, card_of
from chunkloom.models.parameters import ModelParameter, describe_parameters, kind_schema, parse_parameters


def model_types() -> dict[str, type[ModelConfig]]:
    """Every kind of model, by its word."""
    found: dict[str, type[ModelConfig]] = {}
    waiting = list(ModelConfig.__subclasses__())
    while waiting:
        cls = waiting.pop()
        waiting.extend(cls.__subclasses__())
        if inspect.isabstract(cls):
            continue
        name = cls.__dict__.get("cli_name") or cls.__name__.removesuffix("ModelConfig").lower()
        found[name] = cls
    return dict(sorted(found.items()))


def model_type(name: str) -> type[ModelConfig]:
    """The kind called `name`; case, "-" and "_" do not count."""
    types = model_types()
    plain = {re.sub("[-_]", "", word.lower()): cls for cls in types.values() for word in cls.other_names}
    plain |= {re.sub("[-_]", "", known.lower()): cls for known, cls in types.items()}
    found = plain.get(re.sub("[-_]", "", name.lower()))
    if found is None:
        raise ParameterError(f"unknown type of model {name!r}: {nearest(name, list(types))}")
    return found


def build_model(entry: dict[str, Any]) -> ModelConfig:
    """The model of an entry ``{"type": …, parameter: value, …}``."""
    if "type" not in entry:
        raise ParameterError(f'model entry {entry!r} has no "type": {nearest("", list(model_types()))}')
    cls = model_type(str(entry["type"]))
    parameters = {k: v for k, v in entry.items() if k != "type"}
    return cls(**parse_parameters(cls, str(entry["type"]), parameters))


def parse_model(text: str) -> ModelConfig:
    """A model as typed: a JSON entry, a file or folder, or the name of a bundled model."""
    if text.lstrip().startswith("{"):
        try:
            entry = json.loads(text)
        except ValueError as error:
            raise ParameterError(f"model {text!r} is not JSON: {error}") from error
        return build_model(entry)
    bundled = bundled_models()
    if text in bundled:
        return OnnxModelConfig(str(bundled[text]))
    path = Path(text).expanduser()
    if path.suffix == ".py":
        return ScriptModelConfig(str(path))
    if path.exists():
        return _of_file(path)
    raise ModelError(
        f"no such model: {text!r} is neither a file, a folder with a model.json, a JSON entry nor a bundled model "
        f"({nearest(text, list(bundled)) if bundled else 'none is bundled'})"
    )


def _of_file(path: Path) -> ModelConfig:
    """The model of a file or folder, by what is in it."""
    names = {p.name for p in path.iterdir()} if path.is_dir() else {path.name}
    if "metadata.json" in names and "model.json" not in names:
        return CellMapModelConfig(str(path))
    weights = path
    if path.is_dir() or path.suffix == ".json":
        weights = card_of(path)[0].weights
    kinds: dict[str, type[ModelConfig]] = {
        ".pt": TorchScriptModelConfig,
        ".ts": TorchScriptModelConfig,
        ".pt2": ExportedModelConfig,
        ".py": ScriptModelConfig,
    }
    return kinds.get(weights.suffix, OnnxModelConfig)(str(path))


def models_schema() -> dict[str, Any]:
    """Every kind's entry as one JSON Schema: what a command line, a YAML file and a form may hold."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "model",
        "oneOf": [kind_schema(cls, name) for name, cls in model_types().items()],
    }


__all__ = [
    "ModelParameter",
    "build_model",
    "describe_parameters",
    "model_type",
    "model_types",
    "models_schema",
    "parse_model",
]
