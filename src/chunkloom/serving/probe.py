"""Advice on a chain from what the warm-up forward saw of a model's output: no double sigmoid, a range that fits.

Pure functions of steps as data and of the class of the output: "unit" (within [0, 1]), "signed_unit" (within [-1, 1])
or "unbounded". Nothing is changed; what a person configured stands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

Step = Mapping[str, Any]
Range = tuple[float, float]

SIGMOID, DEFAULT, THRESHOLD = "SigmoidPostprocessor", "DefaultPostprocessor", "ThresholdPostprocessor"
AFFINITY = "AffinityPostprocessor"
_KEEPS_VALUES = ("ChannelSelection",)
_RANGES: dict[str, Range] = {"unit": (0.0, 1.0), "signed_unit": (-1.0, 1.0)}
_ENDS_IN = {"unit": "a sigmoid", "signed_unit": "a tanh"}


@dataclass(frozen=True)
class Advice:
    """What is to be said of a chain.

    Attributes
    ----------
    level
        "ok", "suggest" (something is missing) or "warn" (something is wrong).
    message
        For the person.
    suggest
        Postprocessors to use, in order, by class name.
    params
        Parameters for each of them, by class name.
    """

    level: Literal["ok", "suggest", "warn"]
    message: str
    suggest: list[str] = field(default_factory=list)
    params: dict[str, dict[str, Any]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def suggest_postprocess_params(steps: Sequence[str], output_class: str, channels: int = 1) -> dict[str, dict[str, Any]]:
    """Parameters for each of `steps` (class names in order) after an output of `output_class`; empty where any will do.

    The uint8 cast is stretched over the range that reaches it, a threshold lies in its middle (0 where it has none),
    affinities repel below 0.5 and have as many offsets as there are channels.
    """
    known: dict[str, dict[str, Any]] = {}
    span = _RANGES.get(output_class)
    for name in steps:
        parameters: dict[str, Any] = {}
        if name == SIGMOID:
            span = (0.0, 1.0)
        elif name == DEFAULT and span is not None:
            low, high = span
            parameters = {
                "clip_min": low,
                "clip_max": high,
                "bias": 0.0 - low,
                "multiplier": 255 / (high - low),
            }
            span = (0.0, 255.0)
        elif name == THRESHOLD:
            parameters = {"threshold": 0.0 if span is None else sum(span) / 2}
            span = (0.0, 1.0)
        elif name == AFFINITY:
            parameters = {"bias": 0.5, "neighborhood": str(_offsets()[:channels])}
        known[name] = parameters
    return known


def review_postprocess(
    steps: Sequence[Step], output_class: str, *, channels: int = 1, name: str = "", channel_names: Sequence[str] = ()
) -> Advice:
    """Whether the postprocessors suit the output of a model called `name`."""
    names = [str(step.get("name")) for step in steps]
    seen = output_class
    for step in names:
        if step == SIGMOID and seen in _ENDS_IN:
            first = "an earlier step" if seen != output_class or SIGMOID in names[: names.index(step)] else "this model"
            return Advice("warn", f"{first} already ends in {_ENDS_IN[seen]}; drop {SIGMOID}", [], {})
        if step == SIGMOID:
            seen = "unit"
        elif step not in _KEEPS_VALUES:
            break
    if names.count(SIGMOID) > 1:
        return Advice("warn", f"{SIGMOID} stands {names.count(SIGMOID)} times in the chain; one is enough")
    if gives_affinities(name, channels, channel_names) and AFFINITY not in names:
        wanted = [*([SIGMOID] if output_class == "unbounded" else []), DEFAULT, AFFINITY]
        message = f"these are affinities ({channels} channels): {', '.join(wanted)} make objects of them"
        return Advice("suggest", message, wanted, suggest_postprocess_params(wanted, output_class, channels))
    if output_class == "signed_unit" and DEFAULT not in names:
        params = suggest_postprocess_params([DEFAULT], output_class)
        return Advice("suggest", f"the output lies in [-1, 1]: {DEFAULT} makes 0 to 255 of it", [DEFAULT], params)
    if output_class == "unbounded" and not names:
        return Advice(
            "suggest", f"the output is not a probability: a {SIGMOID} would make it one", [SIGMOID], {SIGMOID: {}}
        )
    return Advice("ok", "the chain suits the model's output")


def gives_affinities(name: str, channels: int, channel_names: Sequence[str] = ()) -> bool:
    """A guess: three channels or more, and "aff" in a name."""
    return channels >= 3 and any("aff" in text.lower() for text in (name, *channel_names))


def suggest_input_norm(
    *,
    declared: Sequence[Step] | None = None,
    framework: str | None = None,
    source: str | None = None,
    raw_dtype: Any = "uint8",
    data_range: Range | None = None,
) -> dict[str, Any]:
    """Normalizers for a model: what it declares, else [-1, 1], surely for DaCapo and CellMap models, else perhaps.

    Returns
    -------
    dict
        ``input_norm`` (steps), ``order`` (their names: some JSON writers sort what is keyed by name), ``confidence``
        ("high" or "low") and ``reason``.
    """
    if declared:
        steps = [dict(step) for step in declared]
        reason, confidence = "the model says so itself", "high"
    else:
        low, high = data_range or _range_of(np.dtype(raw_dtype))
        steps = [
            {"name": "MinMaxNormalizer", "min_value": low, "max_value": high},
            {"name": "LambdaNormalizer", "expression": "x*2-1"},
        ]
        kind = "dacapo" if (framework or "").lower() == "dacapo" else (source or "").lower()
        confidence = "high" if kind in ("dacapo", "cellmap") else "low"
        reason = {
            "dacapo": "DaCapo trains on [-1, 1]",
            "cellmap": "CellMap models are trained on [-1, 1]",
        }.get(kind, "a guess: many models are trained on [-1, 1]; ask who trained it")
    return {
        "input_norm": steps,
        "order": [str(step["name"]) for step in steps],
        "confidence": confidence,
        "reason": reason,
    }


def output_display_range(steps: Sequence[Step], output_class: str | None) -> Range | None:
    """The values shown black and white after the postprocessors; None where nothing is known of them."""
    span = _RANGES.get(output_class or "")
    for step in steps:
        name = step.get("name")
        if name == SIGMOID:
            span = (0.0, 1.0)
        elif name == DEFAULT:
            defaults = {"clip_min": -1.0, "clip_max": 1.0, "bias": 1.0, "multiplier": 127.5}
            try:
                values = {key: float(step.get(key, value)) for key, value in defaults.items()}
            except (TypeError, ValueError):
                return None
            ends = [(values[end] + values["bias"]) * values["multiplier"] for end in ("clip_min", "clip_max")]
            if not all(math.isfinite(end) for end in ends):
                return None
            low, high = (min(max(end, 0.0), 255.0) for end in sorted(ends))
            span = (low, high) if low < high else None
        elif name in (THRESHOLD, "FillHolesPostprocessor"):
            span = (0.0, 1.0)
        elif name not in _KEEPS_VALUES:
            span = None
    return span


def _range_of(dtype: np.dtype[Any]) -> Range:
    if dtype.kind in "iu":
        return (float(np.iinfo(dtype).min), float(np.iinfo(dtype).max))
    return (0.0, 1.0)


def _offsets() -> list[list[int]]:
    """The default offsets of affinities: 1, 3 and 9 along z, y, x."""
    return [[n if axis == along else 0 for axis in range(3)] for n in (1, 3, 9) for along in range(3)]
