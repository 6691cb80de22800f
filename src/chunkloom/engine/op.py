"""`Op`: one step of a computation over a volume.

An op is a frozen dataclass: its fields are its parameters, and everything that lists ops (command line, REST, forms,
docs) reads them from there. An op computes with `chunkloom.kernels`; the engine reads what it needs, pads it, crops
what comes back and keeps it. Knows nothing of caches, servers or where the data comes from.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import math
import re
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from chunkloom.engine.volume import Array, Kind, Level, Volume
from chunkloom.errors import ParameterError, nearest
from chunkloom.geometry import Box

if TYPE_CHECKING:
    from chunkloom.engine.demand import Work
    from chunkloom.kernels.seams import Seams

CoarsePolicy = Literal["op", "downsample"]
NO_HALO = (0, 0, 0)
DTYPES = ("bool", *(f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64)))
DTYPES = (*DTYPES, "float16", "float32", "float64")
"""Numbers that volumes are of."""
MOST_CHUNK = 2 << 30
"""Bytes of a chunk: codecs pack no more at a time."""


@dataclass(frozen=True)
class Op:
    """One step of a computation over a volume.

    A subclass overrides `apply`, and what else differs from a voxel-by-voxel op that keeps the dtype. The defaults
    of the class attributes below suit such an op.

    Attributes
    ----------
    cache
        Whether the engine keeps this op's output chunks (worth it where they are dear and asked for again).
    pad
        What lies outside the data, for an op with a halo: "edge" repeats the border voxel, "constant" is 0, and with
        "cut" the block ends where the data does.
    coarse
        What a coarser level is: "op" applies the op to the source's coarser level; "downsample" reduces the op's own
        fine output.
    runs_code
        Whether a parameter is code that runs: such an op is offered only with `--allow-code`.
    version
        Raised by the author whenever the op computes something else: kept chunks of the older one are then not used.
    dear
        Whether a block takes so long (a model's forward) that everything else comes first.
    output_kind
        "image", "labels" or "mask" where the op decides it; None keeps the source's.
    """

    name: ClassVar[str] = ""
    cache: ClassVar[bool] = False
    pad: ClassVar[Literal["edge", "constant", "cut"]] = "edge"
    coarse: ClassVar[CoarsePolicy] = "op"
    dear: ClassVar[bool] = False
    runs_code: ClassVar[bool] = False
    version: ClassVar[int] = 1
    output_kind: ClassVar[Kind | None] = None

    @property
    def halo(self) -> tuple[int, int, int]:
        """Voxels of context (z, y, x) read on each side of what is asked for."""
        return NO_HALO

    @property
    def block(self) -> tuple[int, int, int] | None:
        """The one output shape (z, y, x) the op can compute, on a grid from voxel 0; None when any box will do.

        Where the data ends inside a block, it is computed whole, or with `pad` "cut" as far as the data goes.
        """
        return None

    @property
    def seams(self) -> Seams | None:
        """For an op whose ids are those of a chunk: which of them are one object, as found so far.

        Such an op has a second pass (`chunkloom.engine.finalize`), which gives every object one id.
        """
        return None

    def note(self, chunk: Sequence[int], made: Array) -> None:
        """Take note of a chunk of this op's output, new or from a cache, by its index z, y, x: for `seams`.

        Called for every chunk of the finest level that is read; must take the same chunk again.
        """
        if self.seams is not None:
            self.seams.add(chunk, made)

    def bind(self, source: Volume, chunk: Sequence[int]) -> Op:
        """This op for what it reads and for the grid of chunks (z, y, x) it writes: where these change what it does."""
        return self

    def output_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype that comes out for one that goes in."""
        return dtype

    def output_level(self, level: Level) -> Level:
        """The level that comes out for one that goes in. Raises `ParameterError` for one it cannot take."""
        return dataclasses.replace(level, dtype=self.output_dtype(level.dtype))

    def at_level(self, factor: Sequence[float]) -> Op:
        """This op for a level whose voxels are `factor` (z, y, x) times the finest level's: sizes scale."""
        return self

    def needs(self, box: Box) -> Box:
        """The input voxels read to compute `box` (may reach outside the data)."""
        return box.grow(self.halo)

    def apply(self, block: Array) -> Array:
        """Compute a block.

        Parameters
        ----------
        block
            Channel axes, then z, y, x with the halo on both sides. May be read-only; never written into.

        Returns
        -------
        numpy.ndarray
            Of `output_dtype`; with the halo still on (the engine crops it) or already without it.
        """
        return block

    def apply_at(self, block: Array, box: Box, level: int) -> Array:
        """As `apply`, for an op whose output depends on where it is. `box` is what comes out, in voxels of `level`."""
        return self.apply(block)

    def run(self, block: Array, box: Box, level: int, work: Work) -> Array:
        """As `apply_at`, for an op that waits for something and must be able to give up meanwhile."""
        return self.apply_at(block, box, level)

    def identity(self) -> dict[str, Any]:
        """The op as JSON data that changes whenever its output can: part of the stage's digest."""
        cls = type(self)
        named = cls.__dict__.get("name") or f"{cls.__module__}.{cls.__qualname__}"
        return {"op": named, "version": self.version, "code": _code_digest(cls), "parameters": self.parameters()}

    def describe(self) -> dict[str, Any]:
        """The op as a person writes it in JSON: `{"op": name, parameter: value}`."""
        return {"op": self.name or type(self).__name__, **self.parameters()}

    def parameters(self) -> dict[str, Any]:
        """The fields as plain JSON data."""
        return {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}


def check_op(op: Op, made: Level) -> None:
    """Raise `ParameterError` where an op cannot work, or `made`, a level that comes out of it, cannot be."""
    name = op.describe()["op"]
    for parameter, value in op.parameters().items():
        if not _finite(value):
            raise ParameterError(f"op {name!r}: {parameter} is {value}: expected finite numbers")
    if made.dtype.name not in DTYPES:
        raise ParameterError(f"op {name!r} makes {made.dtype}: expected one of {', '.join(DTYPES)}; add a cast to it")
    check_chunk(made)


def check_chunk(level: Level) -> None:
    """Refuse chunks that no computer packs, or this one cannot hold."""
    from chunkloom.memory import free_memory

    most = min(MOST_CHUNK, free_memory() or MOST_CHUNK)
    if level.chunk_nbytes > most:
        raise ParameterError(
            f"chunks of shape {level.chunk_shape} and {level.dtype} take {level.chunk_nbytes / 2**30:.1f} GiB each: "
            f"expected at most {most / 2**30:.1f} GiB; choose smaller ones"
        )


def _finite(value: Any) -> bool:
    if isinstance(value, list):
        return all(_finite(v) for v in value)
    return not isinstance(value, float) or math.isfinite(value)


def _code_digest(cls: type[Op]) -> str | None:
    """Stands for the methods of an op that comes from elsewhere (a notebook, a plug-in): they change under one name."""
    if cls.__module__.startswith("chunkloom."):
        return None
    digest = hashlib.sha256()
    for base in cls.__mro__:
        if base.__module__.startswith("chunkloom.") or base is object:
            continue
        for name, member in sorted(base.__dict__.items()):
            function = getattr(member, "fget", None) or member
            code = getattr(function, "__code__", None)
            if code is not None:
                digest.update(
                    name.encode() + code.co_code + repr(code.co_consts).encode() + repr(code.co_names).encode()
                )
    return digest.hexdigest()[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value


def known_ops() -> dict[str, type[Op]]:
    """Every op that has a name, by its name."""
    import chunkloom.engine.ops  # noqa: F401  (registers the built-in ones)

    found: dict[str, type[Op]] = {}
    waiting = list(Op.__subclasses__())
    while waiting:
        cls = waiting.pop()
        waiting.extend(cls.__subclasses__())
        name = cls.__dict__.get("name", "")
        # What comes with chunkloom keeps its name, whatever a plug-in calls its own.
        if name and not (name in found and found[name].__module__.startswith("chunkloom.")):
            found[name] = cls
    return dict(sorted(found.items()))


def make_op(name: str, parameters: dict[str, Any]) -> Op:
    """The op called `name` with `parameters`, unknown names refused with the nearest known one."""
    ops = known_ops()
    if name not in ops:
        raise ParameterError(f"unknown op {name!r}: {nearest(name, list(ops))}")
    cls = ops[name]
    fields = [f.name for f in dataclasses.fields(cls)]
    for given in parameters:
        if given not in fields:
            hint = nearest(given, fields) if fields else "it takes none"
            raise ParameterError(f"op {name!r} has no parameter {given!r}: {hint}")
    missing = [
        f.name
        for f in dataclasses.fields(cls)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING and f.name not in parameters
    ]
    if missing:
        raise ParameterError(f"op {name!r} needs {', '.join(missing)}, for example {name}:{missing[0]}=1")
    hints = field_types(cls)
    for given, value in parameters.items():
        if not _fits(value, hints[given]):
            raise ParameterError(f"op {name!r}: {given} is {value!r}, expected {_spell(hints[given])}")
    try:
        return cls(**parameters)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"op {name!r}: {error}") from error


def field_types(cls: type[Op]) -> dict[str, Any]:
    """The types of an op's fields, by name.

    `Any` where an annotation names what is there for type checkers alone, as in plug-ins that import it under
    `TYPE_CHECKING`.
    """
    try:
        return typing.get_type_hints(cls)
    except (NameError, AttributeError, TypeError):
        hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        for name, annotation in inspect.get_annotations(base).items():
            # A class with this annotation alone, so that one that cannot be resolved spoils no other.
            alone = type("Alone", (), {"__annotations__": {name: annotation}, "__module__": base.__module__})
            try:
                hints[name] = typing.get_type_hints(alone)[name]
            except (NameError, AttributeError, TypeError):
                hints[name] = Any
    return hints


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value from JSON or the command line is of a field's type (a whole number is a float too)."""
    if hint is Any:
        return True
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in inner)
    if origin is Literal:
        return value in inner
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        parts = [inner[0]] * len(value) if inner[1:] == (...,) else list(inner)
        return len(parts) == len(value) and all(_fits(v, part) for v, part in zip(value, parts, strict=True))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return not isinstance(hint, type) or isinstance(value, hint)


def _spell(hint: Any) -> str:
    """A field's type in words."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_spell(part) for part in inner)
    if origin is Literal:
        return "one of " + ", ".join(map(str, inner))
    if origin is tuple:
        return f"a list of {_spell(inner[0])}" if inner[1:] == (...,) else f"a list of {len(inner)} numbers"
    return {float: "a number", int: "a whole number", bool: "true or false", str: "text", type(None): "none"}.get(
        hint, str(hint)
    )


_CALL = re.compile(r"^\s*(?P<name>[A-Za-z_]\w*)\s*(?:\((?P<inner>.*)\)|:(?P<rest>.*))?\s*$", re.DOTALL)


def parse_op(text: str) -> Op:
    """An op as typed on the command line.

    ``gaussian``, ``gaussian:sigma=1.5`` (several: ``clip:low=0,high=1``; a list: ``sigma=[1,2,2]``),
    ``gaussian(sigma=1.5)``, or JSON: ``{"op": "gaussian", "sigma": 1.5}``.
    """
    import json

    if text.lstrip().startswith("{"):
        try:
            data = json.loads(text)
            name = data.pop("op")
        except (ValueError, KeyError) as error:
            raise ParameterError(f'op {text!r} is not JSON with a member "op": {error}') from error
        return make_op(str(name), data)
    match = _CALL.match(text)
    if match is None:
        raise ParameterError(f"op {text!r} is not understood: expected NAME or NAME:parameter=value,parameter=value")
    inner = match["inner"] if match["inner"] is not None else match["rest"] or ""
    parameters: dict[str, Any] = {}
    for part in _split(inner):
        key, equals, value = part.partition("=")
        if not equals:
            raise ParameterError(f"op {text!r}: {part!r} is not parameter=value")
        parameters[key.strip()] = _value(value.strip())
    return make_op(match["name"], parameters)


def _split(text: str) -> list[str]:
    """`text` cut at commas outside brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append("")
            continue
        parts[-1] += letter
    return [part for part in parts if part.strip()]


def _value(text: str) -> Any:
    import json

    try:
        value = json.loads(text)
    except ValueError:
        value = {"true": True, "false": False, "none": None}.get(text.lower(), text.strip("\"'"))
    return tuple(value) if isinstance(value, list) else value
