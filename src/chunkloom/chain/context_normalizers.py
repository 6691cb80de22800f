"""Input normalizers that look at the neighbourhood of a voxel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chunkloom.chain.parameters import boolean, choice, integer, number, optional_choice
from chunkloom.chain.steps import Array, Halo, InputNormalizer
from chunkloom.errors import ParameterError
from chunkloom.kernels import distance, equalize, morphology, pointwise

_FLOAT32: Any = np.dtype(np.float32)

# Distances at which an activation has reached its last float32 value, above and below 0.
_SATURATED = {"tanh": (9.1, 9.1), "sigmoid": (17.4, 104.0)}


@dataclass(frozen=True, repr=False)
class EuclideanDistance(InputNormalizer):
    """Distance to the nearest voxel of another value, then an activation.

    With tanh or sigmoid, far distances all look the same, so a halo makes chunks join; with relu or none, a
    distance ends at the border of the chunk it is computed in.
    """

    anisotropy: int = integer(50, "Size of a voxel, along each axis.", minimum=1)
    black_border: bool = boolean(True, "Take what lies beyond the data for background.")
    parallel: int = integer(5, "Threads to compute on.", minimum=1)
    type: str = choice("edt", ("edt", "sdf"), "edt: 0 in the background; sdf: negative there.")
    activation: str | None = optional_choice(
        "tanh", ("tanh", "relu", "sigmoid"), "Function of the distance; none leaves it as it is."
    )
    dtype: ClassVar[Any] = _FLOAT32

    @property
    def whole_chunks(self) -> bool:
        return self.activation not in _SATURATED

    @property
    def halo(self) -> Halo:
        if self.activation not in _SATURATED:
            return (0, 0, 0)
        above, below = _SATURATED[self.activation]
        reach = max(above, below) if self.type == "sdf" else above
        return (distance.activation_halo(reach, self.anisotropy),) * 3

    def _process(self, data: Array) -> Array:
        transform = distance.signed_distance if self.type == "sdf" else distance.distance
        result = _each_volume(
            data,
            lambda volume: transform(
                volume, (self.anisotropy,) * 3, black_border=self.black_border, threads=self.parallel
            ),
        )
        if self.activation == "tanh":
            return np.tanh(result)
        if self.activation == "relu":
            return np.maximum(result, 0)
        if self.activation == "sigmoid":
            return pointwise.sigmoid(result)
        return result


@dataclass(frozen=True, repr=False)
class Dilate(InputNormalizer):
    """Largest value in a cube around each voxel: bright structures grow."""

    size: int = integer(1, "Edge of the cube in voxels; 1 changes nothing.", minimum=1, maximum=255)

    @property
    def halo(self) -> Halo:
        return morphology.window_halo(self.size)

    def _process(self, data: Array) -> Array:
        edges = [(0, 0)] * (data.ndim - 3) + [(h, h) for h in self.halo]
        return morphology.dilate(np.pad(data, edges, mode="edge"), self.size)


@dataclass(frozen=True, repr=False)
class CLAHENormalizer(InputNormalizer):
    """Even out contrast: adaptive histogram equalization with a limit (CLAHE), to [0, 1].

    The window slides with the voxel, so a voxel does not depend on how the volume is cut into chunks.
    """

    min_value: float = number(0.0, "Values below it count as it.")
    max_value: float = number(255.0, "Values above it count as it.")
    radius: int = integer(32, "Reach of the window along y and x, in voxels.", minimum=1, maximum=256)
    radius_z: int = integer(0, "Reach of the window along z; 0 treats each plane alone.", minimum=0, maximum=256)
    clip_limit: float = number(
        0.03, "Largest share of the window in one bin of its histogram; 1 for no limit.", above=0, maximum=1
    )
    bins: int = integer(64, "Bins of the histogram.", minimum=2, maximum=1024)
    dtype: ClassVar[Any] = _FLOAT32

    def check(self) -> None:
        if self.max_value <= self.min_value:
            raise ParameterError(
                f"CLAHENormalizer: max_value must be greater than min_value, got {self.max_value!r} and "
                f"{self.min_value!r}"
            )

    @property
    def halo(self) -> Halo:
        return (self.radius_z, self.radius, self.radius)

    def _process(self, data: Array) -> Array:
        return self.process_cropped(data, (0, 0, 0), (0, 0, 0))

    def process_cropped(self, data: Array, before: Sequence[int], after: Sequence[int], **context: Any) -> Array:
        return _each_volume(
            np.asarray(data),
            lambda volume: equalize.equalize(
                volume,
                self.min_value,
                self.max_value,
                self.halo,
                self.clip_limit,
                self.bins,
                before,
                after,
            ),
        )


def _each_volume(data: Array, function: Callable[[Array], Array]) -> Array:
    """`function` of `(z, y, x)` data, or of each channel of `(c, z, y, x)`."""
    if data.ndim == 3:
        return function(data)
    return np.stack([function(channel) for channel in data])
