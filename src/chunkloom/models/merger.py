"""Outputs of several models as one: AND, OR, SUM. Arrays in, an array out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from chunkloom.errors import ParameterError, nearest

Array = np.ndarray[Any, np.dtype[Any]]
Mode = Literal["and", "or", "sum"]

_WORDS: dict[str, Mode] = {
    "and": "and",
    "or": "or",
    "sum": "sum",
    "andmodelmerger": "and",
    "ormodelmerger": "or",
    "summodelmerger": "sum",
}


def merge_mode(name: str) -> Mode:
    """The mode called `name` ("AND", "or", "SumModelMerger", …; case does not count)."""
    found = _WORDS.get(name.strip().lower())
    if found is None:
        raise ParameterError(f"unknown way to merge models {name!r}: {nearest(name.upper(), ['AND', 'OR', 'SUM'])}")
    return found


def merge(outputs: Sequence[Array], mode: Mode = "and", dtype: DTypeLike | None = None) -> Array:
    """One output of several, element by element, as `dtype` (default: the first one's).

    "and" is the least, "or" the largest; "sum" is the mean, as float64 until it is cast, where integers are cut.

    Raises
    ------
    ParameterError
        No outputs, or of different shapes.
    """
    if not outputs:
        raise ParameterError("there are no models to merge: expected at least one")
    shapes = {output.shape for output in outputs}
    if len(shapes) > 1:
        raise ParameterError(f"models to merge give outputs of shapes {sorted(shapes)}: expected the same of each")
    result = np.array(outputs[0], np.float64 if mode == "sum" else None)
    for output in outputs[1:]:
        if mode == "and":
            result = np.minimum(result, output)
        elif mode == "or":
            result = np.maximum(result, output)
        else:
            result += output
    if mode == "sum":
        result /= len(outputs)
    return result.astype(outputs[0].dtype if dtype is None else dtype, copy=False)
