"""The kinds of model by name, and a model from an entry, a file, a folder or the name of a bundled one."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chunkloom.errors import ModelError, ParameterError, nearest
from chunkloom.models.kinds import ModelConfig, OnnxModelConfig, ScriptModelConfig
from chunkloom.models.modeljson import bundled_models


def model_types() -> dict[str, type[ModelConfig]]:
    """Every kind of model, by its word."""
    found: dict[str, type[ModelConfig]] = {}
    waiting = list(ModelConfig.__subclasses__())
    while waiting:
        cls = waiting.pop()
        waiting.extend(cls.__subclasses__())
        name = cls.__dict__.get("cli_name") or cls.__name__.removesuffix("ModelConfig").lower()
        found[name] = cls
    return dict(sorted(found.items()))


def model_type(name: str) -> type[ModelConfig]:
    """The kind called `name`; case, "-" and "_" do not count."""
    types = model_types()
    plain = {re.sub("[-_]", "", known.lower()): cls for known, cls in types.items()}
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
    known = [name for name in inspect.signature(cls.__init__).parameters if name != "self"]
    for name in parameters:
        if name not in known:
            raise ParameterError(f"model type {entry['type']!r} has no parameter {name!r}: {nearest(name, known)}")
    try:
        return cls(**parameters)
    except TypeError as error:
        raise ParameterError(f"model type {entry['type']!r}: {error}") from error


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
        return OnnxModelConfig(str(path))
    raise ModelError(
        f"no such model: {text!r} is neither a file, a folder with a model.json, a JSON entry nor a bundled model "
        f"({nearest(text, list(bundled)) if bundled else 'none is bundled'})"
    )


@dataclass(frozen=True)
class ModelParameter:
    """One parameter of a kind of model, as its constructor declares it."""

    name: str
    required: bool
    default: Any
    help: str


def describe_parameters(cls: type[ModelConfig]) -> list[ModelParameter]:
    """The parameters of a kind, in order, with the help of its docstring."""
    helps = _documented(cls.__doc__ or "")
    found = []
    for name, parameter in inspect.signature(cls.__init__).parameters.items():
        if name == "self":
            continue
        required = parameter.default is inspect.Parameter.empty
        found.append(ModelParameter(name, required, None if required else parameter.default, helps.get(name, "")))
    return found


def _documented(docstring: str) -> dict[str, str]:
    """Parameter name to description, from a numpydoc "Parameters" section."""
    helps: dict[str, str] = {}
    name = None
    _, _, section = inspect.cleandoc(docstring).partition("Parameters\n----------\n")
    for line in section.splitlines():
        if line and not line[0].isspace():
            if line.startswith("---"):
                break
            name = line.split(":")[0].strip()
            helps[name] = ""
        elif name and line.strip():
            helps[name] = f"{helps[name]} {line.strip()}".strip()
    return helps
