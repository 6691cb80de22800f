"""The op that runs Python code, which has to be allowed first.

The code is not sandboxed: it can read, write and send whatever the process can. So it is refused until the process
says `allow_code()`, which `--allow-code` does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chunkloom.engine.op import Op
from chunkloom.engine.ops.filters import triple
from chunkloom.engine.volume import Array
from chunkloom.errors import ParameterError

_allowed = False


def allow_code() -> None:
    """Let ops of this process run Python code, from now on. Nothing then keeps that code from doing harm."""
    global _allowed
    _allowed = True


def forbid_code() -> None:
    """Refuse to make further ops of Python code."""
    global _allowed
    _allowed = False


@dataclass(frozen=True)
class Python(Op):
    """Python code that defines ``apply(block)``, which gets an array (channels first, z, y, x) and returns one.

    Not sandboxed: the code can do whatever this process can, so it must be allowed with --allow-code. `np` is numpy.
    `dtype` is what comes out (left out: what goes in), `context` the voxels read around each chunk (one number, or
    z, y, x), which `apply` may leave on. The block is read-only.
    """

    code: str
    dtype: str | None = None
    context: int | tuple[int, int, int] = 0

    name: ClassVar[str] = "python"

    def __post_init__(self) -> None:
        if not _allowed:
            raise ParameterError(
                "op 'python' runs code that can do whatever this process can, and is not allowed here: "
                "start with --allow-code if you trust it (in Python: chunkloom.engine.ops.python.allow_code())"
            )
        if not all(0 <= n <= 256 for n in triple(self.context)):
            raise ParameterError(f"context is {self.context}: expected 0 to 256 voxels")
        if self.dtype is not None:
            try:
                np.dtype(self.dtype)
            except TypeError as error:
                raise ParameterError(f"{self.dtype!r} is not a dtype: expected one like uint8 or float32") from error
        object.__setattr__(self, "_function", _defined(self.code))

    @property
    def halo(self) -> tuple[int, int, int]:
        return triple(self.context)

    def output_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return dtype if self.dtype is None else np.dtype(self.dtype)

    def apply(self, block: Array) -> Array:
        view = block.view()
        view.setflags(write=False)
        try:
            made = np.asarray(self.__dict__["_function"](view))
        except Exception as error:
            raise ParameterError(f"apply(block) raised {_said(error)}") from error
        return made if self.dtype is None else made.astype(self.dtype, copy=False)


def _defined(code: str) -> Callable[[Array], Any]:
    """The function `apply` that the code defines."""
    names: dict[str, Any] = {"np": np, "__name__": "chunkloom_code"}
    try:
        exec(compile(code, "<code>", "exec"), names)
    except Exception as error:
        raise ParameterError(f"op 'python': the code raised {_said(error)}") from error
    function = names.get("apply")
    if not callable(function):
        raise ParameterError("op 'python': the code defines no function apply(block)")
    return function  # type: ignore[no-any-return]


def _said(error: Exception) -> str:
    """The error in words, with the line of the code where it happened."""
    line = error.lineno if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<code>":
            line = trace.tb_lineno
        trace = trace.tb_next
    where = "" if line is None else f" in line {line}"
    return f"{type(error).__name__}{where}: {error}"
