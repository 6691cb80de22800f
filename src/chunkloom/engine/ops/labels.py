"""Ops that make labels of a mask, or look at labels."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from chunkloom.engine.op import CoarsePolicy, Op
from chunkloom.engine.volume import Array, Kind, Level, Volume
from chunkloom.errors import ParameterError
from chunkloom.geometry import Box
from chunkloom.kernels.seams import Seams


@dataclass(frozen=True)
class Label(Op):
    """Connected components of what is not 0 (nor NaN) in each chunk, with ids of their own. uint64.

    `connectivity` 1 joins over faces, 2 over edges too, 3 over corners too. An id is unique over all chunks, and an
    object that continues in the next chunk has another one there: `connected_components` tells which belong together.
    `chunk` (z, y, x) is the grid on which objects are cut; the pipeline's when left out.
    """

    connectivity: int = 1
    chunk: tuple[int, int, int] | None = None

    name: ClassVar[str] = "label"
    pad: ClassVar[Literal["edge", "constant", "cut"]] = "cut"
    coarse: ClassVar[CoarsePolicy] = "downsample"
    output_kind: ClassVar[Kind | None] = "labels"

    def __post_init__(self) -> None:
        if self.connectivity not in (1, 2, 3):
            raise ParameterError(
                f"connectivity is {self.connectivity}: expected 1 (over faces), 2 (over edges too) or 3 (corners too)"
            )
        if self.chunk is not None and not all(n >= 1 for n in self.chunk):
            raise ParameterError(f"chunk is {self.chunk}: expected at least 1 voxel on each axis")

    @property
    def block(self) -> tuple[int, int, int] | None:
        return self.chunk

    def bind(self, source: Volume, chunk: Sequence[int]) -> Self:
        z, y, x = self.chunk or chunk
        return dataclasses.replace(self, chunk=(z, y, x))

    def output_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return np.dtype(np.uint64)

    def output_level(self, level: Level) -> Level:
        if level.channels:
            raise ParameterError(
                f"op {self.name!r} labels z, y, x: the data has axes {', '.join(level.axes)} of shape {level.shape}; "
                f"choose one channel before it with channels:channels=0"
            )
        return super().output_level(level)

    def apply_at(self, block: Array, box: Box, level: int) -> Array:
        from chunkloom.kernels.labels import add_to_ids, chunk_id_offset, label

        found, _ = label(block, self.connectivity)
        try:
            offset = chunk_id_offset(self.index_of(box), math.prod(self.chunk or box.shape))
        except ValueError as error:
            raise ParameterError(f"op {self.name!r}: {error}; use smaller chunks, or a part of the volume") from error
        return add_to_ids(found, offset)

    def index_of(self, box: Box) -> tuple[int, ...]:
        """Which chunk `box` is."""
        assert self.chunk is not None, "a pipeline binds the op to a grid before it computes"
        return tuple(b // n for b, n in zip(box.lo, self.chunk, strict=True))


@dataclass(frozen=True)
class ConnectedComponents(Label):
    """As `label`, and objects that touch over the borders of chunks are one. uint64.

    What a chunk shows are its own ids, so that it is the same whoever asks; which of them are one object is known
    once both chunks are computed (`seams`; viewers draw such ids in one colour), and a volume that is written gets one
    id per object in a second pass (`chunkloom.engine.finalize`). With `min_voxels` or `min_fraction`, objects are one
    only where they touch over a face in at least so many voxels, and in at least this share of the smaller one's
    voxels on that face.
    """

    min_voxels: int = 1
    min_fraction: float = 0.0

    name: ClassVar[str] = "connected_components"

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            seams = Seams(self.connectivity, self.min_voxels, self.min_fraction)
        except ValueError as error:
            raise ParameterError(str(error)) from error
        # Not a field: what has been found so far is not what the op is. Each stage binds an op of its own.
        object.__setattr__(self, "_seams", seams)

    @property
    def seams(self) -> Seams:
        seams: Seams = self.__dict__["_seams"]
        return seams

    def at_level(self, factor: Sequence[float]) -> Self:
        raise ParameterError(
            f"op {self.name!r} joins the objects of the finest level only: make its pipeline with coarse='downsample'"
        )


@dataclass(frozen=True)
class Contacts(Op):
    """1 in voxels with an id where any of the six neighbours over a face has another id (0 is none), else 0. uint8."""

    name: ClassVar[str] = "contacts"
    output_kind: ClassVar[Kind | None] = "mask"

    @property
    def halo(self) -> tuple[int, int, int]:
        return (1, 1, 1)

    def output_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        if dtype.kind not in "bui":
            raise ParameterError(f"op 'contacts' needs ids, found {dtype}: make labels first, for example with label")
        return np.dtype(np.uint8)

    def apply(self, block: Array) -> Array:
        from chunkloom.kernels.labels import contacts

        return contacts(block)
