"""What a step's constructor takes: kind, default, range, help, and how a value is read.

Dashboard forms and URLs send every value as text, so `"0.5"`, `"True"` and `"3"` are read like 0.5, True and
3.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import numbers
from dataclasses import dataclass
from typing import Any, Literal

from chunkloom.errors import ParameterError

Kind = Literal["number", "integer", "boolean", "string"]

_TRUE = {"true", "1", "yes", "on"}
_FALSE = {"false", "0", "no", "off"}
_NONE = {"", "none", "null"}
_METADATA = "chunkloom.parameter"


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Any = _Required()


@dataclass(frozen=True)
class Parameter:
    """One constructor argument. `minimum` and `maximum` are inclusive; `optional` admits None."""

    kind: Kind | None
    default: Any = REQUIRED
    help: str = ""
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    choices: tuple[str, ...] | None = None
    optional: bool = False

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    def parse(self, where: str, value: Any) -> Any:
        """`value`, or the value its text says, as this kind of value.

        Raises
        ------
        ParameterError
            If it is not of the kind or not in the range; the message begins with `where`.
        """
        if self.optional and (value is None or (isinstance(value, str) and value.strip().lower() in _NONE)):
            return None
        if self.kind == "number":
            return self._within(where, _number(where, value))
        if self.kind == "integer":
            return self._within(where, _integer(where, value))
        if self.kind == "boolean":
            return _boolean(where, value)
        if self.kind == "string":
            return self._text(where, value)
        return value

    def json_schema(self) -> dict[str, Any]:
        """This parameter as a JSON Schema."""
        schema: dict[str, Any] = {}
        if self.kind is not None:
            schema["type"] = [self.kind, "null"] if self.optional else self.kind
        if self.choices is not None:
            schema["enum"] = [*self.choices, *([None] if self.optional else [])]
        if not self.required:
            schema["default"] = self.default
        for key, value in (
            ("minimum", self.minimum),
            ("maximum", self.maximum),
            ("exclusiveMinimum", self.above),
        ):
            if value is not None:
                schema[key] = value
        if self.help:
            schema["description"] = self.help
        return schema

    def _within(self, where: str, value: Any) -> Any:
        if self.minimum is not None and value < self.minimum:
            raise ParameterError(f"{where} must be at least {self.minimum:g}, got {value!r}")
        if self.above is not None and value <= self.above:
            raise ParameterError(f"{where} must be greater than {self.above:g}, got {value!r}")
        if self.maximum is not None and value > self.maximum:
            raise ParameterError(f"{where} must be at most {self.maximum:g}, got {value!r}")
        return value

    def _text(self, where: str, value: Any) -> str:
        if not isinstance(value, str):
            raise ParameterError(f"{where} must be text, got {value!r}")
        if self.choices is not None and value not in self.choices:
            raise ParameterError(f"{where} must be one of {', '.join(self.choices)}, got {value!r}")
        return value


def number(
    default: float | None = REQUIRED,
    help: str = "",
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
) -> Any:
    """A dataclass field for a finite real number; None is admitted when it is the default."""
    optional = default is None
    return _field(Parameter("number", default, help, minimum, maximum, above, optional=optional))


def integer(
    default: int | None = REQUIRED, help: str = "", *, minimum: int | None = None, maximum: int | None = None
) -> Any:
    """A dataclass field for a whole number; None is admitted when it is the default."""
    return _field(Parameter("integer", default, help, minimum, maximum, optional=default is None))


def boolean(default: bool = REQUIRED, help: str = "") -> Any:
    """A dataclass field for True or False."""
    return _field(Parameter("boolean", default, help))


def text(default: str = REQUIRED, help: str = "") -> Any:
    """A dataclass field for free text."""
    return _field(Parameter("string", default, help))


def choice(default: str, choices: tuple[str, ...], help: str = "") -> Any:
    """A dataclass field for one of a few words."""
    return _field(Parameter("string", default, help, choices=choices))


def optional_choice(default: str | None, choices: tuple[str, ...], help: str = "") -> Any:
    """A dataclass field for one of a few words, or None."""
    return _field(Parameter("string", default, help, choices=choices, optional=True))


def _field(parameter: Parameter) -> Any:
    default = dataclasses.MISSING if parameter.required else parameter.default
    return dataclasses.field(default=default, metadata={_METADATA: parameter})


def declared_parameters(cls: type) -> dict[str, Parameter]:
    """Constructor arguments of a step class, in order.

    Fields made by `number`, `integer`, … say everything; for a class with an `__init__` of its own, the kind
    comes from the default value or the annotation.
    """
    fields = {f.name: f for f in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else {}
    parameters: dict[str, Parameter] = {}
    for argument in constructor_signature(cls).parameters.values():
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            continue
        declared = fields[argument.name].metadata.get(_METADATA) if argument.name in fields else None
        parameters[argument.name] = declared or _from_argument(argument)
    return parameters


def constructor_signature(cls: type) -> inspect.Signature:
    """Signature of `cls.__init__` without self; empty when the class has no `__init__`."""
    if cls.__init__ is object.__init__:  # type: ignore[misc]
        return inspect.Signature()
    signature = inspect.signature(cls.__init__)  # type: ignore[misc]
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def _from_argument(argument: inspect.Parameter) -> Parameter:
    default = REQUIRED if argument.default is argument.empty else argument.default
    kinds: tuple[tuple[Kind, type, str], ...] = (
        ("boolean", bool, "bool"),
        ("integer", int, "int"),
        ("number", float, "float"),
        ("string", str, "str"),
    )
    for kind, python_type, word in kinds:
        if isinstance(default, python_type) or argument.annotation in (python_type, word):
            return Parameter(kind, default)
    return Parameter(None, default)


def _number(where: str, value: Any) -> float:
    if isinstance(value, str) or (isinstance(value, numbers.Real) and not isinstance(value, bool)):
        try:
            result = float(value)
        except (ValueError, OverflowError):
            result = math.nan
        if math.isfinite(result):
            return result
    raise ParameterError(f"{where} must be a finite number, got {value!r}")


def _integer(where: str, value: Any) -> int:
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            pass
    if isinstance(value, (str, numbers.Real)) and not isinstance(value, bool):
        try:
            result = float(value)
            if result.is_integer():
                return int(result)
        except ValueError:
            pass
    raise ParameterError(f"{where} must be a whole number, got {value!r}")


def _boolean(where: str, value: Any) -> bool:
    # bool("False") is True, so text is read by its words.
    word = str(value).strip().lower()
    if isinstance(value, (bool, int, str)) and word in _TRUE:
        return True
    if isinstance(value, (bool, int, str)) and word in _FALSE:
        return False
    raise ParameterError(f"{where} must be true or false, got {value!r}")
