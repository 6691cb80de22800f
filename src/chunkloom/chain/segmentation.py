"""Postprocessors that make objects: holes filled, components labelled, watersheds, ids unique over chunks.

They look at one chunk at a time. Ids are unique within the chunk; `MortonSegmentationRelabeling` makes them
unique over all chunks, and `SimpleBlockwiseMerger` joins objects that continue in the next.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chunkloom.chain.parameters import Parameter, integer, number, text
from chunkloom.chain.steps import Array, PostProcessor
from chunkloom.errors import ParameterError
from chunkloom.kernels import cast, labels, morphology, watershed

_UINT8: Any = np.dtype(np.uint8)
_UINT32: Any = np.dtype(np.uint32)
_UINT64: Any = np.dtype(np.uint64)

_CHANNEL_HELP = "Channel to work on, from 0; the others are kept."
_MAX_OFFSETS = 128


@dataclass(frozen=True, repr=False)
class FillHolesPostprocessor(PostProcessor):
    """Make a mask of what is above the threshold and fill its enclosed holes."""

    threshold: float = number(0.0, "Values above it belong to the mask.")
    dtype: ClassVar[Any] = _UINT8
    is_segmentation: ClassVar[bool | None] = True
    whole_chunks: ClassVar[bool] = True

    def _process(self, data: Array) -> Array:
        return morphology.fill_holes(cast.threshold_exclusive(data, self.threshold)).view(np.uint8)


@dataclass(frozen=True, repr=False)
class LabelPostprocessor(PostProcessor):
    """Number the connected objects of a mask; ids are unique only within a chunk."""

    channel: int = integer(0, _CHANNEL_HELP, minimum=0)
    dtype: ClassVar[Any] = _UINT32
    is_segmentation: ClassVar[bool | None] = True
    whole_chunks: ClassVar[bool] = True

    def _process(self, data: Array) -> Array:
        found, _ = labels.label(channel_of(self, data, self.channel))
        return with_channel(data, self.channel, found)


@dataclass(frozen=True, repr=False)
class DistanceWatershedPostprocessor(PostProcessor):
    """Split touching objects at their necks, by the distance to the background."""

    threshold: float = number(0.5, "Values above it belong to objects.")
    min_distance: int = integer(5, "Least distance between the centres of two objects, in voxels.", minimum=1)
    anisotropy: float = number(1.0, "Size of a voxel along z, as a multiple of that along y and x.", above=0)
    channel: int = integer(0, _CHANNEL_HELP, minimum=0)
    dtype: ClassVar[Any] = _UINT32
    is_segmentation: ClassVar[bool | None] = True
    whole_chunks: ClassVar[bool] = True

    def _process(self, data: Array) -> Array:
        mask = cast.threshold_exclusive(channel_of(self, data, self.channel), self.threshold)
        found, _ = watershed.distance_watershed(mask, self.min_distance, (self.anisotropy, 1.0, 1.0))
        return with_channel(data, self.channel, found)


@dataclass(frozen=True, repr=False)
class MortonSegmentationRelabeling(PostProcessor):
    """Make the ids of a chunk unique over all chunks: add its size times its Morton number."""

    channel: int = integer(0, _CHANNEL_HELP, minimum=0)
    dtype: ClassVar[Any] = _UINT64
    is_segmentation: ClassVar[bool | None] = True
    whole_chunks: ClassVar[bool] = True

    def _process(
        self, data: Array, chunk_corner: Sequence[int] | None = None, chunk_num_voxels: int | None = None
    ) -> Array:
        found = channel_of(self, data, self.channel)
        offset = _offset(self, chunk_corner, chunk_num_voxels)
        return with_channel(data, self.channel, labels.add_to_ids(found, offset))


def _default_neighborhood() -> str:
    return str([[d if axis == a else 0 for a in range(3)] for d in (1, 3, 9) for axis in range(3)])


@dataclass(frozen=True, repr=False)
class AffinityPostprocessor(PostProcessor):
    """Turn affinities into objects by the mutex watershed; ids are unique over all chunks."""

    bias: float = number(0.0, "Affinities above it attract, below it repel; 0.5 is a good start.")
    neighborhood: str = text(
        _default_neighborhood(),
        "Offset in z, y, x voxels that each channel is the affinity to, as a list of lists.",
    )
    dtype: ClassVar[Any] = _UINT64
    is_segmentation: ClassVar[bool | None] = True
    whole_chunks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        given: Any = self.neighborhood
        object.__setattr__(self, "neighborhood", given if isinstance(given, str) else str(_listed(given)))
        super().__post_init__()

    def check(self) -> None:
        _offsets(self.neighborhood)

    @property
    def num_channels(self) -> int | None:
        return 1

    @property
    def offsets(self) -> tuple[tuple[int, int, int], ...]:
        """The neighborhood as numbers."""
        return _offsets(self.neighborhood)

    def _process(
        self, data: Array, chunk_corner: Sequence[int] | None = None, chunk_num_voxels: int | None = None
    ) -> Array:
        offsets = self.offsets
        if data.ndim != 4 or len(data) > len(offsets):
            raise ParameterError(
                f"AffinityPostprocessor: data must be (channel, z, y, x) with at most {len(offsets)} "
                f"channels, one for each offset of the neighborhood; got shape {data.shape}"
            )
        affinities = data if data.dtype.kind == "f" else data / 255.0
        found, _ = watershed.mutex_watershed(affinities, offsets[: len(data)], self.bias)
        if chunk_corner is None and chunk_num_voxels is None:  # all there is, in one piece
            return found[None]
        return labels.add_to_ids(found, _offset(self, chunk_corner, chunk_num_voxels))[None]


def channel_of(step: PostProcessor, data: Array, channel: int) -> Array:
    """The `(z, y, x)` data of a channel; data without a channel axis is channel 0."""
    count = 1 if data.ndim == 3 else len(data)
    if channel >= count:
        raise ParameterError(
            f"{type(step).__name__}: there is no channel {channel} in data of shape {data.shape}, "
            f"which has {count}; channels count from 0"
        )
    return data if data.ndim == 3 else np.asarray(data[channel])


def with_channel(data: Array, channel: int, result: Array) -> Array:
    """`data` in the dtype of `result`, with `result` as its channel."""
    if data.ndim == 3:
        return result
    channels = [result if n == channel else cast.truncate(other, result.dtype) for n, other in enumerate(data)]
    return np.stack(channels)


def _offset(step: PostProcessor, chunk_corner: Sequence[int] | None, chunk_num_voxels: int | None) -> int:
    if chunk_corner is None or chunk_num_voxels is None:
        raise ParameterError(
            f"{type(step).__name__} needs to know the chunk: call process(data, "
            "chunk_corner=its index on the grid, chunk_num_voxels=voxels of a whole chunk)"
        )
    try:
        return labels.chunk_id_offset([int(n) for n in chunk_corner], int(chunk_num_voxels))
    except ValueError as error:
        raise ParameterError(f"{type(step).__name__}: {error}") from error


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, (list, tuple, np.ndarray)) else value


def _offsets(neighborhood: str) -> tuple[tuple[int, int, int], ...]:
    wrong = ParameterError(
        "AffinityPostprocessor: neighborhood must be a list of offsets in z, y, x voxels, such as "
        f"[[1, 0, 0], [0, 1, 0], [0, 0, 1]], at most {_MAX_OFFSETS} of them; got {neighborhood[:80]!r}"
    )
    try:
        offsets = ast.literal_eval(neighborhood.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise wrong from None
    if not isinstance(offsets, (list, tuple)) or not 0 < len(offsets) <= _MAX_OFFSETS:
        raise wrong
    whole = Parameter("integer", minimum=-(2**15), maximum=2**15)
    parsed = []
    for offset in offsets:
        if not isinstance(offset, (list, tuple)) or len(offset) != 3:
            raise wrong
        z, y, x = (whole.parse("AffinityPostprocessor: an offset", n) for n in offset)
        if (z, y, x) == (0, 0, 0):
            raise wrong
        parsed.append((z, y, x))
    return tuple(parsed)
