"""The address that older viewers use: zarr v2 below the layer itself, one level, the channel axis last.

Voxel size and corner are those that older servers gave: the model's declared voxel size, and the corner in whole nm.
Only this address rounds; the voxels are the same as at every other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from chunkloom.engine.formats.base import ChunkKey, Format, Metadata, canonical_json, padded, parse_index
from chunkloom.engine.formats.zarr2 import little_endian
from chunkloom.engine.volume import Array, Level, Volume

if TYPE_CHECKING:
    from chunkloom.io.layout import StoredLayout

COMPRESSOR: dict[str, Any] = {"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 1, "blocksize": 0}
WORD = "older"


class OlderZarr(Format):
    """Chunk keys ``s0/z.y.x.c``, blosc.

    Parameters
    ----------
    declared_nm
        The model's output voxel size as it declares it, z, y, x, nm.
    """

    name: ClassVar[str] = WORD

    def __init__(self, declared_nm: tuple[float, float, float]) -> None:
        super().__init__("blosc")
        self.declared_nm = declared_nm

    def metadata(self, volume: Volume, name: str) -> Metadata:
        from chunkloom.io.ome import ome_translation

        level = volume.levels[0]
        # A level that is read as if it had the model's voxel size has its corner scaled alike.
        grid = level.grid
        scaled = [c * d / v for c, d, v in zip(grid.corner_nm, self.declared_nm, grid.voxel_size_nm, strict=True)]
        corner = [float(round(c)) for c in scaled]
        centre = ome_translation(corner, self.declared_nm)
        extra = len(level.channels)
        axes: list[dict[str, Any]] = [{"name": axis, "type": "space", "unit": "nanometer"} for axis in ("z", "y", "x")]
        axes += [{"name": "c", "type": "channel"}] * extra
        transforms = [
            {"type": "scale", "scale": [*self.declared_nm, *[1.0] * extra]},
            {"type": "translation", "translation": [*centre, *[0.0] * extra]},
        ]
        multiscales = {
            "version": "0.4",
            "name": name,
            "axes": axes,
            "datasets": [{"path": "s0", "coordinateTransformations": transforms}],
        }
        array = {
            "zarr_format": 2,
            "shape": _last(level.shape),
            "chunks": _last(level.chunk_shape),
            "dtype": level.dtype.newbyteorder("<").str,
            "compressor": COMPRESSOR,
            "fill_value": 0,
            "order": "C",
            "filters": None,
        }
        documents = {".zgroup": {"zarr_format": 2}, ".zattrs": {"multiscales": [multiscales]}, "s0/.zarray": array}
        return {path: canonical_json(data) for path, data in documents.items()}

    def parse_key(self, path: str, volume: Volume) -> ChunkKey | None:
        level, _, key = path.partition("/")
        words = key.split(".")
        if level != "s0" or len(words) not in (3, 4):
            return None
        # The channel's number last: `parse_index` has it first.
        index = parse_index([*words[3:], *words[:3]])
        return None if index is None else ChunkKey(0, index, len(words))

    def passes(self, layout: StoredLayout, level: Level) -> bool:
        return False

    def encode(self, block: Array, level: Level) -> bytes:
        import numcodecs

        whole = padded(block, level)
        ordered = np.moveaxis(whole, 0, -1) if whole.ndim == 4 else whole
        codec = numcodecs.Blosc("zstd", clevel=5, shuffle=1)
        itemsize = level.dtype.itemsize
        return bytes(codec.encode(np.frombuffer(little_endian(np.ascontiguousarray(ordered)), f"V{itemsize}")))


def _last(shape: tuple[int, ...]) -> list[int]:
    return [*shape[-3:], *shape[:-3]]
