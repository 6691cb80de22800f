"""Neuroglancer precomputed volumes, encoding raw.

Spec: neuroglancer, src/datasource/precomputed/volume.md. Axes are x first; chunks are cut where the data ends. The
format holds a whole number of voxels as offset: the corner is floored to one, and the exact corner stands in the extra
member `chunkloom_corner_nm` (z, y, x, as all that is ours).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from chunkloom.engine.formats.base import (
    ChunkKey,
    Format,
    Metadata,
    canonical_json,
    codec_of,
    needs_cast,
    parse_level,
    same_layout,
)
from chunkloom.engine.formats.zarr2 import little_endian
from chunkloom.engine.volume import Array, Level, Volume
from chunkloom.errors import FormatError

if TYPE_CHECKING:
    from chunkloom.io.layout import StoredLayout

DTYPES = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "float32")

_KEY = re.compile(r"(-?\d{1,15})-(-?\d{1,15})_(-?\d{1,15})-(-?\d{1,15})_(-?\d{1,15})-(-?\d{1,15})")


class Precomputed(Format):
    """Precomputed, chunk keys ``s0/x0-x1_y0-y1_z0-z1``, voxel offset included."""

    name: ClassVar[str] = "precomputed"

    def metadata(self, volume: Volume, name: str) -> Metadata:
        return {"info": canonical_json(self.info(volume, [f"s{i}" for i in range(len(volume.levels))]))}

    def info(self, volume: Volume, keys: Sequence[str]) -> dict[str, Any]:
        """The `info` of a volume whose levels lie at `keys`."""
        needs_cast(volume, DTYPES, "precomputed")
        finest = volume.levels[0]
        if len(finest.channels) > 1:
            raise FormatError(
                f"precomputed holds one channel axis, this volume has {len(finest.channels)}: {finest.axes[:-3]}"
            )
        return {
            "@type": "neuroglancer_multiscale_volume",
            "type": "image" if volume.kind == "image" or finest.dtype.kind == "f" else "segmentation",
            "data_type": finest.dtype.name,
            "num_channels": finest.channels[0] if finest.channels else 1,
            "scales": [self.scale(key, level) for key, level in zip(keys, volume.levels, strict=True)],
        }

    def scale(self, key: str, level: Level) -> dict[str, Any]:
        """A level's entry in `info`."""
        return {
            "key": key,
            "size": list(level.spatial_shape[::-1]),
            "resolution": list(level.voxel_size_nm[::-1]),
            "voxel_offset": list(voxel_offset(level)[::-1]),
            "chunk_sizes": [list(level.spatial_chunk[::-1])],
            "encoding": "raw",
            "chunkloom_corner_nm": list(level.grid.corner_nm),
        }

    def parse_key(self, path: str, volume: Volume) -> ChunkKey | None:
        first, _, rest = path.partition("/")
        number, match = parse_level(first), _KEY.fullmatch(rest)
        if number is None or match is None or number >= len(volume.levels):
            return None
        level = volume.levels[number]
        numbers = [int(word) for word in match.groups()]
        index = []
        for axis in range(3):
            offset, chunk, size = voxel_offset(level)[axis], level.spatial_chunk[axis], level.spatial_shape[axis]
            begin, end = (n - offset for n in numbers[4 - 2 * axis : 6 - 2 * axis])
            if begin < 0 or begin % chunk or end != min(begin + chunk, size) or end <= begin:
                return None
            index.append(begin // chunk)
        return ChunkKey(number, (index[0], index[1], index[2]), len(level.shape))

    def passes(self, layout: StoredLayout, level: Level) -> bool:
        return layout.format == "precomputed" and same_layout(layout, level, "cropped") and codec_of(layout) == "none"

    def encode(self, block: Array, level: Level) -> bytes:
        return bytes(little_endian(block))


def voxel_offset(level: Level) -> tuple[int, ...]:
    """The whole voxel, z, y, x, in which the level's corner lies."""
    return tuple(math.floor(round(c / v, 6)) for c, v in zip(level.grid.corner_nm, level.voxel_size_nm, strict=True))
