"""The parameters of a kind of model, read from its constructor: parsed from text, described, and as a JSON Schema."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from chunkloom.errors import ParameterError, nearest
from chunkloom.models.kinds.base import ModelConfig


@dataclass(frozen=True)
class ModelParameter:
    """One parameter of a kind of model, as its constructor declares it."""

    name: str
    required: bool
    default: Any
    help: str
    type: Any = str

    def schema(self) -> dict[str, Any]:
        """The parameter as JSON Schema."""
        made = {**_schema(self.type), "description": self.help}
        if self.default is not None:
            made["default"] = list(self.default) if isinstance(self.default, tuple) else self.default
        return made


def describe_parameters(cls: type[ModelConfig]) -> list[ModelParameter]:
    """The parameters of a kind, in order, with the help of its docstring."""
    helps, hints = _documented(cls.__doc__ or ""), _hints(cls)
    found = []
    for name, parameter in inspect.signature(cls.__init__).parameters.items():
        if name == "self" or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        required = parameter.default is inspect.Parameter.empty
        default = None if required else parameter.default
        found.append(ModelParameter(name, required, default, helps.get(name, ""), hints.get(name, Any)))
    return found


def _hints(cls: type[ModelConfig]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls.__init__)
    except (NameError, TypeError):
        return {}  # a plug-in's annotations may name what is not there at run time


def parse_parameters(cls: type[ModelConfig], kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments for a kind's constructor from what was typed, read from YAML or sent by a form.

    Text becomes what the parameter's annotation says: "8,8,8" or "[8, 8, 8]" three numbers, "8" one for all three.

    Raises
    ------
    ParameterError
        A parameter that the kind does not have, that is missing, or whose value does not fit.
    """
    described = {p.name: p for p in describe_parameters(cls)}
    parsed: dict[str, Any] = {}
    for key, value in given.items():
        name = cls.aliases.get(key, key)
        if name not in described:
            if key in cls.ignored:
                continue
            raise ParameterError(f"model type {kind!r} has no parameter {key!r}: {nearest(key, list(described))}")
        if name in parsed:
            raise ParameterError(f"model type {kind!r}: {name!r} is given twice, also as {key!r}")
        if value is None or (value == "" and not described[name].required):
            continue
        try:
            parsed[name] = _parsed(described[name].type, value)
        except (TypeError, ValueError) as error:
            raise ParameterError(f"model type {kind!r}: {name} is {value!r}: {error}") from error
    missing = [p.name for p in described.values() if p.required and p.name not in parsed]
    if missing:
        raise ParameterError(f"model type {kind!r} misses {', '.join(missing)}")
    return parsed


def kind_schema(cls: type[ModelConfig], kind: str) -> dict[str, Any]:
    """The entry of a kind of model as JSON Schema; its members in the order of the constructor."""
    parameters = describe_parameters(cls)
    return {
        "type": "object",
        "title": kind,
        "description": inspect.cleandoc(cls.__doc__ or "").partition("\n")[0],
        "properties": {"type": {"const": kind}, **{p.name: p.schema() for p in parameters}},
        "required": ["type", *(p.name for p in parameters if p.required)],
        "additionalProperties": False,
    }


def _options(hint: Any) -> list[Any]:
    """The types a parameter may be, None left out."""
    union = get_origin(hint) in (Union, types.UnionType)
    return [option for option in (get_args(hint) if union else (hint,)) if option is not type(None)]


def _parsed(hint: Any, value: Any) -> Any:
    options = _options(hint)
    if len(options) > 1:
        # A mapping or text, for an entry within an entry; text is parsed by the kind.
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, str):
            return value
        raise ValueError("expected text or a mapping")
    (only,) = options
    origin = get_origin(only)
    if origin is tuple:
        return _parsed_list(get_args(only), value)
    if origin is Literal:
        if value not in get_args(only):
            raise ValueError(f"expected one of {', '.join(map(str, get_args(only)))}")
        return value
    if only is bool:
        return _parsed_bool(value)
    if only in (int, float):
        return _number(only, value)
    if only is str:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError("expected text")
        return str(value)
    return value


def _parsed_list(inner: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        text = value.strip()
        value = json.loads(text) if text.startswith("[") else [part.strip() for part in text.split(",")]
    if len(inner) == 2 and inner[1] is Ellipsis:
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(_parsed(inner[0], item) for item in items)
    if isinstance(value, int | float):
        value = [value]
    items = list(value)
    if len(items) == 1:
        items *= len(inner)
    if len(items) != len(inner):
        raise ValueError(f"expected {len(inner)} numbers z, y, x, or one for all")
    return tuple(_number(kind, item) for kind, item in zip(inner, items, strict=True))


def _number(kind: Any, value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("expected a number")
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ValueError("expected a number") from error
    if kind is int:
        if not number.is_integer():
            raise ValueError("expected a whole number")
        return int(number)
    return number


def _parsed_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if str(value).lower() not in words:
        raise ValueError("expected true or false")
    return words[str(value).lower()]


def _schema(hint: Any) -> dict[str, Any]:
    options = _options(hint)
    if len(options) > 1:
        return {"anyOf": [_schema(option) for option in options]}
    (only,) = options
    origin, inner = get_origin(only), get_args(only)
    if origin is tuple:
        if len(inner) == 2 and inner[1] is Ellipsis:
            return {"type": "array", "items": _schema(inner[0])}
        return {"type": "array", "items": _schema(inner[0]), "minItems": len(inner), "maxItems": len(inner)}
    if origin is Literal:
        return {"enum": list(inner)}
    if origin is dict:
        return {"type": "object"}
    plain: dict[Any, dict[str, Any]] = {
        str: {"type": "string"},
        bool: {"type": "boolean"},
        int: {"type": "integer"},
        float: {"type": "number"},
    }
    return dict(plain.get(only, {}))


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
