"""zarr v2 with OME-NGFF 0.4: groups and arrays of JSON files, chunks of little-endian bytes.

Spec: zarr-specs v2 (full-size edge chunks, `fill_value` of the dtype), ngff.openmicroscopy.org/0.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from chunkloom.engine.formats.base import (
    ChunkKey,
    Format,
    Metadata,
    canonical_json,
    codec_of,
    compress,
    ome_multiscales,
    padded,
    parse_index,
    parse_level,
    same_layout,
)
from chunkloom.engine.volume import Array, Level, Volume

if TYPE_CHECKING:
    from chunkloom.io.layout import StoredLayout

COMPRESSORS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "zstd": {"id": "zstd", "level": 1},
    "blosc": {"id": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 1, "blocksize": 0},
    "gzip": {"id": "gzip", "level": 1},
}


class Zarr2(Format):
    """zarr v2, chunk keys ``s0/z/y/x`` (``s0/z.y.x`` is answered too)."""

    name: ClassVar[str] = "zarr2"

    def metadata(self, volume: Volume, name: str) -> Metadata:
        paths = [f"s{i}" for i in range(len(volume.levels))]
        documents: dict[str, Any] = {
            ".zgroup": {"zarr_format": 2},
            ".zattrs": {"multiscales": ome_multiscales(volume, name, paths, "0.4")},
        }
        for path, level in zip(paths, volume.levels, strict=True):
            documents[f"{path}/.zarray"] = self.array_metadata(level)
            documents[f"{path}/.zattrs"] = {"_ARRAY_DIMENSIONS": list(level.axes)}
        documents[".zmetadata"] = {"metadata": dict(documents), "zarr_consolidated_format": 1}
        return {path: canonical_json(data) for path, data in documents.items()}

    def array_metadata(self, level: Level) -> dict[str, Any]:
        """The `.zarray` of a level."""
        return {
            "zarr_format": 2,
            "shape": list(level.shape),
            "chunks": list(level.chunk_shape),
            "dtype": level.dtype.newbyteorder("<").str,
            "compressor": COMPRESSORS[self.codec],
            "fill_value": False if level.dtype.kind == "b" else 0,
            "order": "C",
            "filters": None,
            "dimension_separator": "/",
        }

    def parse_key(self, path: str, volume: Volume) -> ChunkKey | None:
        first, *rest = path.split("/")
        level = parse_level(first)
        if level is None or not rest:
            return None
        words = rest[0].split(".") if len(rest) == 1 else rest
        index = parse_index(words)
        return None if index is None else ChunkKey(level, index, len(words))

    def passes(self, layout: StoredLayout, level: Level) -> bool:
        return passes_as_zarr(layout, level, self.codec)

    def encode(self, block: Array, level: Level) -> bytes:
        return compress(self.codec, little_endian(padded(block, level)), level.dtype.itemsize)


def passes_as_zarr(layout: StoredLayout, level: Level, codec: str) -> bool:
    """Whether stored chunks are valid in zarr v2 and v3: both put the same bytes in a chunk."""
    return (
        layout.format in ("zarr2", "zarr3")
        and same_layout(layout, level, "padded")
        and np.dtype(layout.dtype).newbyteorder("<") == np.dtype(layout.dtype)
        and codec_of(layout) == codec
    )


def little_endian(block: Array) -> memoryview:
    """The array's values as little-endian bytes in C order, without a copy where they are that already."""
    ordered: Array = np.ascontiguousarray(block, block.dtype.newbyteorder("<"))
    return ordered.data.cast("B")
