"""Grey and binary morphology with a box, and filled holes. Beyond the data the border voxel is repeated."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from chunkloom.engine.op import Op
from chunkloom.engine.ops.filters import Size, check_size, scaled_size, triple, window
from chunkloom.engine.volume import Array, Kind
from chunkloom.errors import ParameterError


@dataclass(frozen=True)
class BoxMorphology(Op):
    """An op over a box of `size` voxels (odd; one number, or z, y, x), gone over `passes` times."""

    size: Size = 3

    passes: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_size(self.size)

    @property
    def halo(self) -> tuple[int, int, int]:
        z, y, x = (n * self.passes for n in window(self.size))
        return (z, y, x)

    def at_level(self, factor: Sequence[float]) -> Self:
        return dataclasses.replace(self, size=scaled_size(self.size, factor))


@dataclass(frozen=True)
class Dilate(BoxMorphology):
    """The largest value in the box around each voxel: bright things grow."""

    name: ClassVar[str] = "dilate"

    def apply(self, block: Array) -> Array:
        from chunkloom.kernels.morphology import dilate

        return dilate(block, self.size)


@dataclass(frozen=True)
class Erode(BoxMorphology):
    """The smallest value in the box around each voxel: bright things shrink."""

    name: ClassVar[str] = "erode"

    def apply(self, block: Array) -> Array:
        from chunkloom.kernels.morphology import erode

        return erode(block, self.size)


@dataclass(frozen=True)
class Open(BoxMorphology):
    """Erode, then dilate: bright things that the box does not fit into go."""

    name: ClassVar[str] = "open"
    passes: ClassVar[int] = 2

    def apply(self, block: Array) -> Array:
        from chunkloom.kernels.morphology import open_box

        return open_box(block, self.size)


@dataclass(frozen=True)
class Close(BoxMorphology):
    """Dilate, then erode: dark things that the box does not fit into are filled."""

    name: ClassVar[str] = "close"
    passes: ClassVar[int] = 2

    def apply(self, block: Array) -> Array:
        from chunkloom.kernels.morphology import close_box

        return close_box(block, self.size)


@dataclass(frozen=True)
class FillHoles(Op):
    """1 where the value is not 0, and in background that it encloses within `reach` voxels of a chunk. uint8.

    Looks as far as `reach` (one number, or z, y, x) beyond each chunk: a hole that is larger stays open.
    """

    reach: int | tuple[int, int, int] = 16

    name: ClassVar[str] = "fill_holes"
    output_kind: ClassVar[Kind | None] = "mask"
    pad: ClassVar[Literal["edge", "constant", "cut"]] = "cut"

    def __post_init__(self) -> None:
        if not all(0 <= n <= 128 for n in triple(self.reach)):
            raise ParameterError(f"reach is {self.reach}: expected 0 to 128 voxels")

    @property
    def halo(self) -> tuple[int, int, int]:
        return triple(self.reach)

    def at_level(self, factor: Sequence[float]) -> Self:
        z, y, x = (math.ceil(n / f) for n, f in zip(triple(self.reach), factor, strict=True))
        return dataclasses.replace(self, reach=(z, y, x))

    def output_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return np.dtype(np.uint8)

    def apply(self, block: Array) -> Array:
        from chunkloom.kernels.morphology import fill_holes

        return per_channel(block, lambda part: fill_holes(part).astype(np.uint8))


def per_channel(block: Array, function: Callable[[Array], Array]) -> Array:
    """`function` of each z, y, x of a block with channel axes first."""
    if block.ndim == 3:
        return function(block)
    parts = [function(part) for part in block.reshape(-1, *block.shape[-3:])]
    return np.stack(parts).reshape(*block.shape[:-3], *parts[0].shape)
