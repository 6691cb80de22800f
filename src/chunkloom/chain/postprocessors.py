"""Postprocessors that look at one voxel at a time: from a model's output to what is shown or kept.

Data is channel first, `(c, z, y, x)`, or `(z, y, x)` from a model without a channel axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chunkloom.chain.expression import SafeExpression, apply_to_array, looks_beyond_a_voxel
from chunkloom.chain.parameters import Parameter, number, text
from chunkloom.chain.steps import Array, PostProcessor
from chunkloom.errors import ParameterError
from chunkloom.kernels import cast, pointwise

_UINT8: Any = np.dtype(np.uint8)
_FLOAT32: Any = np.dtype(np.float32)


@dataclass(frozen=True, repr=False)
class DefaultPostprocessor(PostProcessor):
    """Clip, add a bias, multiply, and drop the fraction: floats to uint8."""

    clip_min: float = number(-1.0, "Smallest value kept.")
    clip_max: float = number(1.0, "Largest value kept.")
    bias: float = number(1.0, "Added after clipping.")
    multiplier: float = number(127.5, "Multiplied after adding the bias.")
    dtype: ClassVar[Any] = _UINT8
    is_segmentation: ClassVar[bool | None] = False

    def check(self) -> None:
        if self.clip_max < self.clip_min:
            raise ParameterError(
                f"DefaultPostprocessor: clip_max must not be less than clip_min, got {self.clip_max!r} and "
                f"{self.clip_min!r}"
            )

    def _process(self, data: Array) -> Array:
        scaled = cast.clip(data, self.clip_min, self.clip_max)
        scaled += self.bias
        scaled *= self.multiplier
        return cast.truncate(scaled, np.uint8)


@dataclass(frozen=True, repr=False)
class SigmoidPostprocessor(PostProcessor):
    """1 / (1 + exp(-x)): logits to probabilities."""

    dtype: ClassVar[Any] = _FLOAT32

    def _process(self, data: Array) -> Array:
        return pointwise.sigmoid(data)


@dataclass(frozen=True, repr=False)
class ThresholdPostprocessor(PostProcessor):
    """1 where the value is above the threshold, else 0."""

    threshold: float = number(0.5, "Values above it become 1.")
    dtype: ClassVar[Any] = _UINT8
    is_segmentation: ClassVar[bool | None] = True

    def _process(self, data: Array) -> Array:
        return cast.threshold_exclusive(data, self.threshold)


@dataclass(frozen=True, repr=False)
class LambdaPostprocessor(PostProcessor):
    """Any NumPy expression in x, for example x*255, on float32 data."""

    expression: str = text(help="Expression in x, such as x*255 or np.clip(x, 0, 1).")
    dtype: ClassVar[Any] = _FLOAT32

    def check(self) -> None:
        SafeExpression.parse(self.expression)

    @property
    def whole_chunks(self) -> bool:
        return looks_beyond_a_voxel(self.expression)

    def _process(self, data: Array) -> Array:
        return apply_to_array(self.expression, data)


@dataclass(frozen=True, repr=False)
class ChannelSelection(PostProcessor):
    """Keep some channels, in the order given."""

    channels: str = text("0", "Channel numbers from 0, separated by commas, such as 0,2.")

    def __post_init__(self) -> None:
        object.__setattr__(self, "channels", ",".join(str(n) for n in _channel_list(self.channels)))

    @property
    def indices(self) -> tuple[int, ...]:
        """The channel numbers."""
        return tuple(int(n) for n in self.channels.split(","))

    @property
    def num_channels(self) -> int | None:
        return len(self.indices)

    def _process(self, data: Array) -> Array:
        indices = self.indices
        if data.ndim == 3:  # a model without a channel axis has one channel, which the axis is not needed for
            count = 1
        else:
            count = data.shape[0]
        missing = [n for n in indices if n >= count]
        if missing:
            raise ParameterError(
                f"ChannelSelection: there is no channel {missing[0]} in data of shape {data.shape}, "
                f"which has {count}; channels count from 0"
            )
        if data.ndim == 3:
            return data if len(indices) == 1 else np.stack([data] * len(indices))
        return data[list(indices)]


def _channel_list(channels: Any) -> list[int]:
    given = channels
    if isinstance(channels, str):
        channels = [part for part in channels.strip("[]() ").split(",") if part.strip()]
    elif not isinstance(channels, (list, tuple)):
        channels = [channels]
    if not channels:
        raise ParameterError(f"ChannelSelection: channels must name at least one channel, got {given!r}")
    one = Parameter("integer", minimum=0)
    return [one.parse("ChannelSelection: channels", part) for part in channels]
