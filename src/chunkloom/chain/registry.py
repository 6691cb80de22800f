"""Which steps there are, how one is made from its wire form, and their JSON Schema.

A step exists because its class does: every subclass of `InputNormalizer` or `PostProcessor` that computes
something, plug-ins included, is found by its class name. Nothing is registered and nothing is cached.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from chunkloom.chain.parameters import constructor_signature
from chunkloom.chain.steps import InputNormalizer, PostProcessor, Step
from chunkloom.errors import ParameterError, nearest

S = TypeVar("S", bound=Step)

_WORDS = {InputNormalizer: "input normalizer", PostProcessor: "postprocessor"}


def input_normalizers() -> dict[str, type[InputNormalizer]]:
    """All input normalizers by wire name."""
    return steps_of(InputNormalizer)


def postprocessors() -> dict[str, type[PostProcessor]]:
    """All postprocessors by wire name."""
    return steps_of(PostProcessor)


def steps_of(base: type[S]) -> dict[str, type[S]]:
    """Subclasses of `base` that define what they compute, by class name; of two with one name, the later."""
    found: dict[str, type[S]] = {}
    for cls in base.__subclasses__():
        if cls._process is not Step._process or cls.process is not Step.process:
            found[cls.__name__] = cls
        found.update(steps_of(cls))
    return found


def build_step(base: type[S], data: Mapping[str, Any]) -> S:
    """The step that `{"name": …, **parameters}` describes.

    Raises
    ------
    ParameterError
        If there is no such step, a parameter it does not have, one missing, or one with a value it refuses.
    """
    parameters = dict(data)
    name = parameters.pop("name")
    known = steps_of(base)
    if name not in known:
        raise ParameterError(f"unknown {_WORDS.get(base, 'step')} {name!r}; {nearest(str(name), tuple(known))}")
    cls = known[name]
    _check_names(cls, parameters)
    try:
        return cls(**parameters)
    except ParameterError:
        raise
    except (TypeError, ValueError, ArithmeticError, KeyError) as error:
        raise ParameterError(f"{name}: cannot be made from {parameters!r}: {error}") from error


def _check_names(cls: type[Step], parameters: dict[str, Any]) -> None:
    signature = constructor_signature(cls)
    declared = cls.parameters()
    if not any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
        for given in parameters:
            if given not in declared:
                known = nearest(given, tuple(declared)) if declared else "it has none"
                raise ParameterError(f"{cls.__name__} has no parameter {given!r}; {known}")
    missing = [key for key, parameter in declared.items() if parameter.required and key not in parameters]
    if missing:
        raise ParameterError(f"{cls.__name__} needs the parameter {missing[0]!r}")


def describe_steps(base: type[Step]) -> list[dict[str, Any]]:
    """`{"class_name", "name", "params": {argument: default or ""}}` of each step, for forms."""
    return [
        {
            "class_name": name,
            "name": cls.name(),
            "params": {
                key: "" if parameter.required or parameter.default is None else parameter.default
                for key, parameter in cls.parameters().items()
            },
        }
        for name, cls in steps_of(base).items()
    ]


def step_schema(cls: type[Step]) -> dict[str, Any]:
    """JSON Schema of the wire form of one step."""
    parameters = cls.parameters()
    return {
        "title": cls.__name__,
        "description": cls.summary(),
        "type": "object",
        "properties": {
            "name": {"const": cls.__name__},
            **{key: parameter.json_schema() for key, parameter in parameters.items()},
        },
        "required": ["name", *(key for key, parameter in parameters.items() if parameter.required)],
        "additionalProperties": False,
    }


def chain_schema() -> dict[str, Any]:
    """JSON Schema of a chain: the steps there are, with parameters, types, ranges, defaults and help."""

    def steps(base: type[Step], description: str) -> dict[str, Any]:
        schemas = [step_schema(cls) for _, cls in sorted(steps_of(base).items())]
        return {"type": "array", "description": description, "default": [], "items": {"oneOf": schemas}}

    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Chain",
        "description": "What is done before and after a model, in order.",
        "type": "object",
        "properties": {
            "input_norm": steps(InputNormalizer, "Steps between the raw data and the model."),
            "postprocess": steps(PostProcessor, "Steps between the model's output and what is shown."),
        },
        "required": ["input_norm", "postprocess"],
    }
