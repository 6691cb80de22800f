"""Pre- and postprocessing as bioimage.io descriptions name it, over arrays (c, z, y, x).

Statistics of a step are those of the array it is given. Source: the processing operations of the bioimage.io model
specification 0.4 and 0.5, https://bioimage-io.github.io/spec-bioimage-io.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from chunkloom.errors import ModelError, nearest
from chunkloom.models.kinds.base import Array

Run = Callable[[Array, Array | None], Array]
Options = dict[str, Any]
_LETTERS = {"channel": "c", "batch": "b"}


def processing(steps: Sequence[tuple[str, Options]], path: Path) -> Run:
    """All steps in turn, as a function of the array and of the input it is compared with. Unknown ones are refused."""
    made: list[Run] = []
    for name, options in steps:
        if name not in STEPS:
            raise ModelError(f"{path}: asks for processing {name!r}: {nearest(name, list(STEPS))}")
        try:
            made.append(STEPS[name](dict(options)))
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(
                f"{path}: processing {name!r} with {options!r}: {type(error).__name__}: {error}"
            ) from error

    def run(array: Array, reference: Array | None) -> Array:
        array = array.astype(np.float32, copy=False)
        for step in made:
            array = step(array, reference)
        return array

    return run


def _axes(options: Options) -> tuple[int, ...]:
    """The axes statistics go over: those named, but no batch; all where none is named."""
    named = options.get("axes")
    if named is None:
        return (0, 1, 2, 3)
    letters = [_LETTERS.get(a, a) for a in named]
    return tuple("czyx".index(a) for a in letters if a != "b")


def _axis(options: Options) -> int:
    name = str(options.get("axis") or "channel")
    return "czyx".index(_LETTERS.get(name, name))


def _along(values: Any, options: Options) -> Array:
    """Numbers of a step as an array that broadcasts: one for all, or one for each place along an axis."""
    array = np.asarray(values, np.float32)
    if array.ndim == 0:
        return array
    array = array.reshape(-1)
    axes = _axis(options)
    return array.reshape([-1 if i == axes else 1 for i in range(4)])


def _binarize(options: Options) -> Run:
    threshold = _along(options["threshold"], options)
    return lambda a, r: (a > threshold).astype(np.float32)


def _clip(options: Options) -> Run:
    low, high = options.get("min"), options.get("max")
    for name in ("min_percentile", "max_percentile"):
        if options.get(name) is not None:
            raise ValueError(f"{name} is not supported")
    return lambda a, r: np.clip(a, low, high)


def _scale_linear(options: Options) -> Run:
    gain, offset = _along(options.get("gain", 1.0), options), _along(options.get("offset", 0.0), options)
    return lambda a, r: a * gain + offset


def _sigmoid(options: Options) -> Run:
    def run(a: Array, r: Array | None) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(1 / (1 + np.exp(-a)))

    return run


def _softmax(options: Options) -> Run:
    axis = _axis(options)

    def run(a: Array, r: Array | None) -> Array:
        e = np.exp(a - a.max(axis=axis, keepdims=True))
        return np.asarray(e / e.sum(axis=axis, keepdims=True))

    return run


def _fixed(options: Options) -> Run:
    mean, std = _along(options["mean"], options), _along(options["std"], options)
    eps = float(options.get("eps", 0.0))
    return lambda a, r: (a - mean) / (std + eps)


def _zero_mean(options: Options) -> Run:
    if options.get("mode") == "fixed":
        return _fixed({"eps": 1e-6, **options})
    axes, eps = _axes(options), float(options.get("eps", 1e-6))

    def run(a: Array, r: Array | None) -> Array:
        return np.asarray((a - a.mean(axis=axes, keepdims=True)) / (a.std(axis=axes, keepdims=True) + eps))

    return run


def _scale_range(options: Options) -> Run:
    axes, eps = _axes(options), float(options.get("eps", 1e-6))
    low, high = float(options.get("min_percentile", 0.0)), float(options.get("max_percentile", 100.0))
    to_input = options.get("reference_tensor") is not None

    def run(a: Array, r: Array | None) -> Array:
        of = a if r is None or not to_input else r
        lo, hi = (np.percentile(of, q, axis=axes, keepdims=True) for q in (low, high))
        return np.asarray((a - lo) / (hi - lo + eps), np.float32)

    return run


def _scale_mean_variance(options: Options) -> Run:
    axes, eps = _axes(options), float(options.get("eps", 1e-6))

    def run(a: Array, r: Array | None) -> Array:
        of = a if r is None else r
        own = (a - a.mean(axis=axes, keepdims=True)) / (a.std(axis=axes, keepdims=True) + eps)
        return np.asarray(own * (of.std(axis=axes, keepdims=True) + eps) + of.mean(axis=axes, keepdims=True))

    return run


def _ensure_dtype(options: Options) -> Run:
    dtype = np.dtype(options["dtype"])
    # As the specification's own runner does: rounded by the cast, then computed on as float.
    return lambda a, r: a.astype(dtype).astype(np.float32)


STEPS: dict[str, Callable[[Options], Run]] = {
    "binarize": _binarize,
    "clip": _clip,
    "ensure_dtype": _ensure_dtype,
    "fixed_zero_mean_unit_variance": _fixed,
    "scale_linear": _scale_linear,
    "scale_mean_variance": _scale_mean_variance,
    "scale_range": _scale_range,
    "sigmoid": _sigmoid,
    "softmax": _softmax,
    "zero_mean_unit_variance": _zero_mean,
}
