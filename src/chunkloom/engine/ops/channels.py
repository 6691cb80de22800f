"""Choosing channels, and computing with an expression."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from chunkloom.engine.op import Op
from chunkloom.engine.volume import Array, Level, Volume
from chunkloom.errors import ParameterError


@dataclass(frozen=True)
class Channels(Op):
    """Some channels of the first channel axis, in the order given; one alone loses the axis."""

    channels: int | tuple[int, ...]

    name: ClassVar[str] = "channels"

    def __post_init__(self) -> None:
        chosen = self._chosen()
        if not chosen or len(set(chosen)) != len(chosen):
            raise ParameterError(f"channels is {self.channels}: expected one or several, each once")

    def output_level(self, level: Level) -> Level:
        if not level.channels:
            raise ParameterError("the data has no channel axis to choose from")
        count = level.channels[0]
        for channel in self._chosen():
            if not 0 <= channel < count:
                raise ParameterError(f"no channel {channel}: the data has {count}, 0 to {count - 1}")
        if isinstance(self.channels, int):
            return dataclasses.replace(
                level, shape=level.shape[1:], chunk_shape=level.chunk_shape[1:], axes=level.axes[1:]
            )
        n = len(self.channels)
        return dataclasses.replace(level, shape=(n, *level.shape[1:]), chunk_shape=(n, *level.chunk_shape[1:]))

    def apply(self, block: Array) -> Array:
        return np.take(block, self.channels, axis=0)

    def _chosen(self) -> tuple[int, ...]:
        return (self.channels,) if isinstance(self.channels, int) else self.channels


@dataclass(frozen=True)
class Expression(Op):
    """A formula in `x`, voxel by voxel, such as ``x*2-1`` or ``np.clip(x, 0, 1)``. float32.

    Only arithmetic, comparisons and a list of numpy functions; nothing else of Python can be reached.
    """

    expression: str

    name: ClassVar[str] = "expression"
    pad: ClassVar[Literal["edge", "constant", "cut"]] = "cut"

    def __post_init__(self) -> None:
        from chunkloom.chain.expression import SafeExpression

        SafeExpression.parse(self.expression)

    @property
    def block(self) -> tuple[int, int, int] | None:
        # What takes more than one voxel into account must see the same ones whoever asks: those of a whole chunk.
        from chunkloom.chain.expression import looks_beyond_a_voxel

        grid: tuple[int, int, int] | None = self.__dict__.get("_grid")
        return grid if looks_beyond_a_voxel(self.expression) else None

    def bind(self, source: Volume, chunk: Sequence[int]) -> Self:
        bound = dataclasses.replace(self)
        # Not a field: the grid is the pipeline's, and stands in its digest.
        object.__setattr__(bound, "_grid", tuple(chunk))
        return bound

    def output_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return np.dtype(np.float32)

    def output_level(self, level: Level) -> Level:
        try:
            self.apply(np.ones((*level.channels, 5, 6, 7), level.dtype))
        except ParameterError as error:
            # What is indexed may be there in a whole chunk.
            if not isinstance(error.__cause__, IndexError):
                raise
        return super().output_level(level)

    def apply(self, block: Array) -> Array:
        from chunkloom.chain.expression import apply_to_array

        return np.asarray(apply_to_array(self.expression, block), np.float32)
