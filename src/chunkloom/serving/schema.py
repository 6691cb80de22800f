"""The bodies of the REST API as pydantic models, made from the fields of the ops there are.

One schema, from the classes, for `/api/schema`, `/api/ops` and the OpenAPI document. Imports pydantic: only for the
REST API.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import typing
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError

from chunkloom.chain.parameters import declared_parameters
from chunkloom.engine.op import Op, field_types, known_ops
from chunkloom.errors import ParameterError
from chunkloom.serving.app import RESERVED
from chunkloom.serving.volumes import checked_name

MOST_OPS = 100
MOST_REASON = 1000
CODE_OPS = frozenset({"python"})
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())

Name = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        max_length=200,
        description="One path segment of URLs.",
        json_schema_extra={"not": {"enum": sorted(RESERVED)}},
    ),
    AfterValidator(checked_name),
]
Source = Annotated[
    str,
    Field(
        min_length=1,
        max_length=4096,
        description="A path or URL below a place that the server may open, or synthetic://….",
        examples=["synthetic://em"],
    ),
]


class ModelEntry(BaseModel):
    """A model by its type and the parameters of that type."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False, protected_namespaces=())
    type: str = Field(description="The type of model.", examples=["onnx"])


class Specs(typing.NamedTuple):
    """The models of request bodies: of a volume to make, and of what replaces one."""

    volume: type[BaseModel]
    computation: type[BaseModel]


def offered_ops(allow_code: bool) -> dict[str, type[Op]]:
    """The ops that callers may use, by name: those of JSON parameters, and those that run code only if allowed."""
    found = {}
    for name, cls in known_ops().items():
        if runs_code(cls) and not allow_code:
            continue
        try:
            op_model(cls)
        except PydanticSchemaGenerationError:
            continue  # made from Python objects, by the engine
        found[name] = cls
    return found


def runs_code(cls: type[Op]) -> bool:
    """Whether an op runs Python code from its parameters."""
    return cls.name in CODE_OPS or bool(getattr(cls, "runs_code", False))


def op_model(cls: type[Op]) -> type[BaseModel]:
    """The JSON form of an op, `{"op": name, parameter: value}`, as a pydantic model."""
    hints = field_types(cls)
    helps = documented(cls)
    declared = declared_parameters(cls)
    fields: dict[str, Any] = {"op": (Literal[cls.name], Field(description="Which op."))}
    for f in dataclasses.fields(cls):
        known = declared[f.name]
        default = f.default if f.default is not dataclasses.MISSING else ...
        if f.default_factory is not dataclasses.MISSING:
            default = f.default_factory()
        hint = hints[f.name]
        if known.choices:
            hint = Literal[(*known.choices, *((None,) if known.optional else ()))]
        fields[f.name] = (
            hint,
            Field(
                default,
                description=known.help or helps.get(f.name),
                ge=known.minimum,
                le=known.maximum,
                gt=known.above,
            ),
        )
    made: type[BaseModel] = create_model(f"Op_{cls.name}", __config__=_STRICT, __doc__=summary(cls), **fields)
    return made


def spec_models(ops: dict[str, type[Op]]) -> Specs:
    """The bodies that make and replace volumes, over these ops."""
    union: Any = typing.Union[tuple(op_model(cls) for cls in ops.values())]  # noqa: UP007
    one: Any = Annotated[union, Field(discriminator="op")]
    fields: dict[str, Any] = {
        "source": (Source, ...),
        "select": (
            dict[str, Annotated[int, Field(ge=0)]],
            Field(default={}, description="A position on each axis that is not wanted whole.", max_length=8),
        ),
        "model": (
            Annotated[str, Field(min_length=1, max_length=4096)] | ModelEntry | None,
            Field(default=None, description="A model over the source: a bundled one's name, a path, or an entry."),
        ),
        "ops": (
            list[one],
            Field(default=[], max_length=MOST_OPS, description="Applied in order, after the model if there is one."),
        ),
    }
    computation = create_model(
        "Computation", __config__=_STRICT, __doc__="What a volume is made of: a source, a model, ops.", **fields
    )
    volume = create_model(
        "VolumeSpec", __config__=_STRICT, __doc__="A volume to make, with its name.", name=(Name, ...), **fields
    )
    return Specs(volume, computation)


def read_body(model: type[BaseModel], body: bytes) -> dict[str, Any]:
    """The JSON data of a body, checked against `model` and left as it was written.

    Raises
    ------
    ParameterError
        In one line: where in the body, what is wrong, what was found.
    """
    try:
        data = json.loads(body, parse_constant=_no_constant)
        model.model_validate_json(body)
    except ValidationError as error:
        raise ParameterError(reason(error)) from error
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"the body is not JSON: {one_line(error)}") from error
    return dict(data)


def reason(error: ValidationError) -> str:
    """The first thing wrong, in one line."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the body"
    found = "" if first["type"] == "missing" else f", found {_brief(first['input'])}"
    more = f" ({error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return one_line(f"{where}: {first['msg'].rstrip('.')}{found}{more}")


def one_line(error: object) -> str:
    """A message as one line of text that can be sent."""
    text = " ".join(str(error).split()) or type(error).__name__
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= MOST_REASON else text[: MOST_REASON - 1] + "…"


def summary(cls: type[Op]) -> str:
    """What an op does: its docstring up to the first section."""
    text = inspect.cleandoc(cls.__doc__ or "")
    return re.split(r"\n+(?:Parameters|Attributes|Examples|Notes|Raises)\n-{3,}", text)[0].strip()


def documented(cls: type[Op]) -> dict[str, str]:
    """Field to description, from the numpydoc sections "Parameters" and "Attributes"."""
    text = inspect.cleandoc(cls.__doc__ or "")
    found: dict[str, str] = {}
    for section in re.findall(r"^(?:Parameters|Attributes)\n-{3,}\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)", text, re.S | re.M):
        names: list[str] = []
        for line in section.splitlines():
            if line and not line[0].isspace():
                names = [name.strip() for name in line.partition(":")[0].split(",")]
            elif line.strip():
                for name in names:
                    found[name] = f"{found.get(name, '')} {line.strip()}".strip()
    return found


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")
