"""N5: attributes in JSON, blocks of big-endian values behind a header, edge blocks cut where the data ends.

Spec: github.com/saalfeldlab/n5, "File-system specification" 4.0.0. Axes are x first. Readers differ in where they look
for voxel size and offset, so both are written: `pixelResolution`, `downsamplingFactors` and `scales` for viewers,
`transform` (to the corner of voxel 0, as such attributes always meant) for readers that place data in the world.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from chunkloom.engine.formats.base import (
    ChunkKey,
    Format,
    Metadata,
    canonical_json,
    codec_of,
    compress,
    needs_cast,
    parse_index,
    parse_level,
    same_layout,
)
from chunkloom.engine.volume import Array, Level, Volume

if TYPE_CHECKING:
    from chunkloom.io.layout import StoredLayout

DTYPES = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64")

COMPRESSIONS: dict[str, dict[str, Any]] = {
    "none": {"type": "raw"},
    "zstd": {"type": "zstd", "level": 1},
    "blosc": {"type": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 1, "blocksize": 0},
    "gzip": {"type": "gzip", "level": 1, "useZlib": False},
}


class N5(Format):
    """N5, block keys ``s0/x/y/z`` (channel axes last)."""

    name: ClassVar[str] = "n5"

    def metadata(self, volume: Volume, name: str) -> Metadata:
        return {path: canonical_json(data) for path, data in self.documents(volume, name).items()}

    def documents(self, volume: Volume, name: str) -> dict[str, Any]:
        """`metadata`, before it is text."""
        finest = volume.levels[0]
        needs_cast(volume, DTYPES, "N5")
        factors = [
            [a / b for a, b in zip(level.voxel_size_nm, finest.voxel_size_nm, strict=True)] for level in volume.levels
        ]
        group: dict[str, Any] = {
            "n5": "4.0.0",
            "name": name,
            "multiScale": True,
            "axes": _x_first(finest.axes),
            "units": ["nm", "nm", "nm", *[""] * len(finest.channels)],
        }
        whole = all(abs(f - round(f)) < 1e-9 for factor in factors for f in factor)
        if whole:
            # Viewers read whole factors only; others are found in each level's own attributes.
            rounded = [_x_first([1] * len(finest.channels) + [round(f) for f in factor]) for factor in factors]
            group["scales"] = rounded
            group["downsamplingFactors"] = rounded
        group["resolution"] = _x_first([1] * len(finest.channels) + list(finest.voxel_size_nm))
        group["pixelResolution"] = {"dimensions": _x_first(finest.voxel_size_nm), "unit": "nm"}
        documents: dict[str, Any] = {"attributes.json": group}
        for i, (level, factor) in enumerate(zip(volume.levels, factors, strict=True)):
            documents[f"s{i}/attributes.json"] = self.array_metadata(level, factor if whole else None)
        return documents

    def array_metadata(self, level: Level, factor: Sequence[float] | None) -> dict[str, Any]:
        """The `attributes.json` of a level."""
        extra = len(level.channels)
        made: dict[str, Any] = {
            "dimensions": _x_first(level.shape),
            "blockSize": _x_first(level.chunk_shape),
            "dataType": level.dtype.name,
            "compression": COMPRESSIONS[self.codec],
        }
        if factor is not None:
            made["downsamplingFactors"] = _x_first([1] * extra + [round(f) for f in factor])
        made["pixelResolution"] = {"dimensions": _x_first(level.voxel_size_nm), "unit": "nm"}
        made["transform"] = {
            "axes": list(level.axes[-3:]),
            "scale": list(level.voxel_size_nm),
            "translate": list(level.grid.corner_nm),
            "units": ["nm", "nm", "nm"],
        }
        return made

    def parse_key(self, path: str, volume: Volume) -> ChunkKey | None:
        first, *rest = path.split("/")
        level = parse_level(first)
        if level is None:
            return None
        index = parse_index(rest[::-1])
        return None if index is None else ChunkKey(level, index, len(rest))

    def passes(self, layout: StoredLayout, level: Level) -> bool:
        return (
            layout.format == "n5"
            and same_layout(layout, level, "cropped")
            and np.dtype(layout.dtype).newbyteorder(">") == np.dtype(layout.dtype)
            and codec_of(layout) == self.codec
        )

    def encode(self, block: Array, level: Level) -> bytes:
        header = struct.pack(">HH", 0, block.ndim) + struct.pack(f">{block.ndim}I", *_x_first(block.shape))
        values = np.ascontiguousarray(block, block.dtype.newbyteorder(">"))
        return header + compress(self.codec, values.data.cast("B"), level.dtype.itemsize)


def _x_first(values: Sequence[Any]) -> list[Any]:
    return list(values)[::-1]
