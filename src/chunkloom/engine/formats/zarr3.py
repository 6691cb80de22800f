"""zarr v3 with OME-NGFF 0.5: one `zarr.json` a node, chunks of little-endian bytes.

Spec: zarr-specs v3 core (regular grid: full-size edge chunks), ngff.openmicroscopy.org/0.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from chunkloom.engine.formats.base import (
    ChunkKey,
    Format,
    Metadata,
    canonical_json,
    compress,
    ome_multiscales,
    padded,
    parse_index,
    parse_level,
)
from chunkloom.engine.formats.zarr2 import little_endian, passes_as_zarr
from chunkloom.engine.volume import Array, Level, Volume

if TYPE_CHECKING:
    from chunkloom.io.layout import StoredLayout


class Zarr3(Format):
    """zarr v3, chunk keys ``s0/c/z/y/x``."""

    name: ClassVar[str] = "zarr3"

    def metadata(self, volume: Volume, name: str) -> Metadata:
        paths = [f"s{i}" for i in range(len(volume.levels))]
        documents: dict[str, Any] = {
            "zarr.json": {
                "zarr_format": 3,
                "node_type": "group",
                "attributes": {"ome": {"version": "0.5", "multiscales": ome_multiscales(volume, name, paths, "0.5")}},
            }
        }
        for path, level in zip(paths, volume.levels, strict=True):
            documents[f"{path}/zarr.json"] = self.array_metadata(level)
        return {path: canonical_json(data) for path, data in documents.items()}

    def array_metadata(self, level: Level) -> dict[str, Any]:
        """The `zarr.json` of a level."""
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(level.shape),
            "data_type": level.dtype.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(level.chunk_shape)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": False if level.dtype.kind == "b" else 0,
            "codecs": self._codecs(level),
            "attributes": {},
            "dimension_names": list(level.axes),
        }

    def _codecs(self, level: Level) -> list[dict[str, Any]]:
        # The spec leaves `endian` out for single-byte types.
        layout: dict[str, Any] = {"name": "bytes"}
        if level.dtype.itemsize > 1:
            layout["configuration"] = {"endian": "little"}
        if self.codec == "none":
            return [layout]
        return [layout, packing_codec(self.codec, level.dtype.itemsize)]

    def parse_key(self, path: str, volume: Volume) -> ChunkKey | None:
        first, *rest = path.split("/")
        level = parse_level(first)
        if level is None or len(rest) < 4 or rest[0] != "c":
            return None
        index = parse_index(rest[1:])
        return None if index is None else ChunkKey(level, index, len(rest) - 1)

    def passes(self, layout: StoredLayout, level: Level) -> bool:
        return passes_as_zarr(layout, level, self.codec)

    def encode(self, block: Array, level: Level) -> bytes:
        return compress(self.codec, little_endian(padded(block, level)), level.dtype.itemsize)


def packing_codec(codec: str, itemsize: int, gzip_level: int = 1) -> dict[str, Any]:
    """The JSON of a codec word other than "none"."""
    if codec == "zstd":
        return {"name": "zstd", "configuration": {"level": 1, "checksum": False}}
    if codec == "gzip":
        return {"name": "gzip", "configuration": {"level": gzip_level}}
    settings = {"cname": "zstd", "clevel": 1, "shuffle": "shuffle", "typesize": itemsize, "blocksize": 0}
    return {"name": "blosc", "configuration": settings}
