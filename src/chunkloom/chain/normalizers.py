"""Input normalizers: from stored voxels to what a model was trained on.

Data is `(z, y, x)` or `(c, z, y, x)`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from chunkloom.chain.expression import SafeExpression, apply_to_array, looks_beyond_a_voxel
from chunkloom.chain.parameters import boolean, integer, number, text
from chunkloom.chain.steps import Array, InputNormalizer, SampledNormalizer
from chunkloom.errors import ParameterError
from chunkloom.kernels import pointwise, statistics

_LEVEL_HELP = "Level the statistics come from, 0 being the finest; the coarsest when not given."


@dataclass(frozen=True, repr=False)
class MinMaxNormalizer(InputNormalizer):
    """Clip to [min_value, max_value] and scale to [0, 1]."""

    min_value: float = number(0.0, "Value that becomes 0.")
    max_value: float = number(255.0, "Value that becomes 1.")
    invert: bool = boolean(False, "Give 1 minus the result: bright becomes dark.")
    dtype: ClassVar[Any] = np.dtype(np.float32)

    def check(self) -> None:
        if self.max_value <= self.min_value:
            raise ParameterError(
                f"MinMaxNormalizer: max_value must be greater than min_value, got {self.max_value!r} and "
                f"{self.min_value!r}; to turn bright into dark, set invert"
            )

    def _process(self, data: Array) -> Array:
        kernel = pointwise.min_max_inverted if self.invert else pointwise.min_max
        return kernel(data, self.min_value, self.max_value)


@dataclass(frozen=True, repr=False)
class ZScoreNormalizer(InputNormalizer):
    """Subtract a mean and divide by a standard deviation, both given."""

    mean: float = number(0.0, "Value that becomes 0.")
    std: float = number(1.0, "What one unit of the result is, in units of the data.", above=0)
    dtype: ClassVar[Any] = np.dtype(np.float32)

    def _process(self, data: Array) -> Array:
        return pointwise.z_score(data, self.mean, self.std)


@dataclass(frozen=True, repr=False)
class LambdaNormalizer(InputNormalizer):
    """Any NumPy expression in x, for example x*2-1, on float32 data."""

    expression: str = text(help="Expression in x, such as x*2-1 or np.log1p(x).")
    dtype: ClassVar[Any] = np.dtype(np.float32)

    def check(self) -> None:
        SafeExpression.parse(self.expression)

    @property
    def whole_chunks(self) -> bool:
        return looks_beyond_a_voxel(self.expression)

    def _process(self, data: Array) -> Array:
        return apply_to_array(self.expression, data)


@dataclass(frozen=True, repr=False)
class WholeVolumeStandardizer(SampledNormalizer):
    """Subtract the volume's mean and divide by its standard deviation."""

    mean: float | None = number(None, "Mean of the volume; taken from the data when not given.")
    std: float | None = number(None, "Standard deviation of the volume; taken from the data when not given.", above=0)
    level: int | None = integer(None, _LEVEL_HELP, minimum=0)
    dtype: ClassVar[Any] = np.dtype(np.float32)

    @property
    def resolved(self) -> bool:
        return self.mean is not None and self.std is not None

    def resolve(self, sample: Array | Sequence[Array]) -> Self:
        if self.resolved:
            return self
        mean, std = _of_sample(self, lambda blocks: statistics.mean_std(blocks), sample)
        return dataclasses.replace(
            self, mean=mean if self.mean is None else self.mean, std=std if self.std is None else self.std
        )

    def _process(self, data: Array) -> Array:
        self._need_resolved()
        assert self.mean is not None
        assert self.std is not None
        return pointwise.z_score(data, self.mean, self.std)


@dataclass(frozen=True, repr=False)
class WholeVolumePercentile(SampledNormalizer):
    """Clip to two percentiles of the volume and scale to [0, 1]."""

    low_percent: float = number(1.0, "Percentile that becomes 0.", minimum=0, maximum=100)
    high_percent: float = number(99.0, "Percentile that becomes 1.", minimum=0, maximum=100)
    low_value: float | None = number(None, "Value of the low percentile; taken from the data when not given.")
    high_value: float | None = number(None, "Value of the high percentile; taken from the data when not given.")
    level: int | None = integer(None, _LEVEL_HELP, minimum=0)
    dtype: ClassVar[Any] = np.dtype(np.float32)

    def check(self) -> None:
        if self.high_percent <= self.low_percent:
            raise ParameterError(
                "WholeVolumePercentile: high_percent must be greater than low_percent, got "
                f"{self.high_percent!r} and {self.low_percent!r}"
            )
        if self.low_value is not None and self.high_value is not None and self.high_value <= self.low_value:
            raise ParameterError(
                "WholeVolumePercentile: high_value must be greater than low_value, got "
                f"{self.high_value!r} and {self.low_value!r}"
            )

    @property
    def resolved(self) -> bool:
        return self.low_value is not None and self.high_value is not None

    def resolve(self, sample: Array | Sequence[Array]) -> Self:
        if self.resolved:
            return self
        low, high = _of_sample(
            self, lambda blocks: statistics.percentiles(blocks, self.low_percent, self.high_percent), sample
        )
        return dataclasses.replace(
            self,
            low_value=low if self.low_value is None else self.low_value,
            high_value=high if self.high_value is None else self.high_value,
        )

    def _process(self, data: Array) -> Array:
        self._need_resolved()
        assert self.low_value is not None
        assert self.high_value is not None
        return pointwise.min_max(data, self.low_value, self.high_value)


@dataclass(frozen=True, repr=False)
class ChannelSelector(InputNormalizer):
    """Read one channel of raw data that has several; changes no value."""

    channel: int = integer(0, "Channel to read, from 0.", minimum=0)

    @property
    def num_channels(self) -> int | None:
        return 1

    def _process(self, data: Array) -> Array:
        return data


def raw_channel(steps: Sequence[InputNormalizer]) -> int | None:
    """Which channel of the raw data a chain reads: its last `ChannelSelector` says it, or None."""
    chosen = [step.channel for step in steps if isinstance(step, ChannelSelector)]
    return chosen[-1] if chosen else None


def _of_sample(step: SampledNormalizer, statistic: Any, sample: Array | Sequence[Array]) -> tuple[float, float]:
    blocks = [sample] if isinstance(sample, np.ndarray) else list(sample)
    try:
        first, second = statistic(blocks)
    except ValueError as error:
        raise ParameterError(f"{type(step).__name__}: cannot take statistics: {error}") from error
    return first, second


def resolve_normalizers(
    steps: Sequence[InputNormalizer], sample: Array | Sequence[Array]
) -> tuple[InputNormalizer, ...]:
    """The steps with each `SampledNormalizer` resolved, on the sample as the steps before it leave it."""
    blocks = [sample] if isinstance(sample, np.ndarray) else list(sample)
    done: list[InputNormalizer] = []
    for index, step in enumerate(steps):
        if isinstance(step, SampledNormalizer):
            step = step.resolve(blocks)
        done.append(step)
        if any(isinstance(later, SampledNormalizer) and not later.resolved for later in steps[index + 1 :]):
            blocks = [step.process(block) for block in blocks]
    return tuple(done)
