"""The metadata files of a store that a materialize writes, for each format, and where its chunks lie.

Pure: levels in, texts out. What is in which order is a contract with the browser engine (`tests/conformance`).
While a run goes on, the root's attributes end with `UNFINISHED`, which names the runs that have not ended.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chunkloom.engine.demand import Work
from chunkloom.engine.formats.base import Metadata, canonical_json, ome_multiscales
from chunkloom.engine.formats.n5 import N5
from chunkloom.engine.formats.precomputed import Precomputed, voxel_offset
from chunkloom.engine.formats.zarr2 import Zarr2
from chunkloom.engine.formats.zarr3 import Zarr3
from chunkloom.engine.volume import Array, Kind, Level, Volume
from chunkloom.errors import ParameterError, nearest
from chunkloom.geometry import Box
from chunkloom.io.hierarchy import UNFINISHED

_RESERVED = {
    "zarr2": ("multiscales",),
    "zarr3": ("ome",),
    "n5": (
        "n5",
        "name",
        "multiScale",
        "axes",
        "units",
        "scales",
        "downsamplingFactors",
        "resolution",
        "pixelResolution",
    ),
    "precomputed": ("@type", "type", "data_type", "num_channels", "scales"),
}


@dataclass(frozen=True)
class StoreDescription:
    """A store that a materialize writes: everything its metadata say.

    Attributes
    ----------
    arrays : the levels that are written, finest first, as arrays (`Region.array`).
    fill_value : what chunks left out hold, and what is past the end.
    shards : shard shape z, y, x of each array, None without.
    attributes : the user's own.
    """

    format: str
    codec: str
    name: str
    kind: Kind
    arrays: tuple[Level, ...]
    fill_value: Any = 0
    shards: tuple[tuple[int, ...] | None, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked_attributes(self.format, self.attributes)
        if self.format in ("n5", "precomputed"):
            if self.fill != 0:
                raise ParameterError(f"fill_value is {self.fill_value!r}: {self.format} knows no fill value but 0")
            if any(shard is not None for shard in self.shards):
                raise ParameterError(f"shard is given: {self.format} has no shards; write zarr3")
        elif self.format == "zarr2" and any(shard is not None for shard in self.shards):
            raise ParameterError("shard is given: zarr2 has no shards; write zarr3")
        if self.format == "precomputed" and self.codec != "none":
            raise ParameterError(f"codec is {self.codec!r}: precomputed is written raw; leave it out, or say none")

    @property
    def fill(self) -> Any:
        """The fill value in the dtype of the arrays."""
        return as_fill(self.fill_value, self.arrays[0].dtype)

    def path(self, number: int) -> str:
        """Where array `number` lies below the root."""
        return f"s{number}" if self.format == "n5" else str(number)

    def documents(self, unfinished: Mapping[str, str] | None = None) -> Metadata:
        """Every metadata file, the root's first. With `unfinished` (run: its box), marked as such."""
        more = sorted_deeply(dict(self.attributes), "attributes")
        if unfinished:
            more[UNFINISHED] = dict(unfinished)
        made = {"zarr2": self._zarr2, "zarr3": self._zarr3, "n5": self._n5, "precomputed": self._precomputed}
        return {key: canonical_json(data) for key, data in made[self.format](more).items()}

    @property
    def root_document(self) -> str:
        """The file that carries the attributes, and the mark."""
        return {"zarr2": ".zattrs", "zarr3": "zarr.json", "n5": "attributes.json", "precomputed": "info"}[self.format]

    def chunk_key(self, number: int, index: Sequence[int]) -> str:
        """The file of a chunk (of a shard, where there are shards) by its index z, y, x."""
        channels = len(self.arrays[number].channels)
        words = [*["0"] * channels, *map(str, index)]
        if self.format == "zarr2":
            return "/".join((self.path(number), *words))
        if self.format == "zarr3":
            return "/".join((self.path(number), "c", *words))
        if self.format == "n5":
            return "/".join((self.path(number), *words[::-1]))
        level = self.arrays[number]
        box = Box.of_chunk(index, level.spatial_chunk).intersect(level.box).shift(voxel_offset(level))
        spans = [f"{b}-{h}" for b, h in zip(box.lo, box.hi, strict=True)]
        return f"{self.path(number)}/{'_'.join(spans[::-1])}"

    def _multiscales(self, version: str) -> list[dict[str, Any]]:
        described = Described(self.arrays, self.kind)
        return ome_multiscales(described, self.name, [self.path(i) for i in range(len(self.arrays))], version)

    def _zarr2(self, more: dict[str, Any]) -> dict[str, Any]:
        multiscales = self._multiscales("0.4")
        documents: dict[str, Any] = {".zgroup": {"zarr_format": 2}, ".zattrs": {"multiscales": multiscales, **more}}
        for i, level in enumerate(self.arrays):
            array = Zarr2(self.codec).array_metadata(level)
            documents[f"{self.path(i)}/.zarray"] = {**array, "fill_value": fill_json(self.fill)}
        return documents

    def _zarr3(self, more: dict[str, Any]) -> dict[str, Any]:
        ome = {"version": "0.5", "multiscales": self._multiscales("0.5")}
        documents: dict[str, Any] = {
            "zarr.json": {"zarr_format": 3, "node_type": "group", "attributes": {"ome": ome, **more}}
        }
        for i, level in enumerate(self.arrays):
            array = {**Zarr3(self.codec).array_metadata(level), "fill_value": fill_json(self.fill)}
            shard = self.shards[i] if self.shards else None
            if shard is not None:
                index = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
                sharding = {
                    "chunk_shape": list(level.chunk_shape),
                    "codecs": array["codecs"],
                    "index_codecs": index,
                    "index_location": "end",
                }
                outer = {"chunk_shape": [*level.channels, *shard]}
                array["chunk_grid"] = {"name": "regular", "configuration": outer}
                array["codecs"] = [{"name": "sharding_indexed", "configuration": sharding}]
            documents[f"{self.path(i)}/zarr.json"] = array
        return documents

    def _n5(self, more: dict[str, Any]) -> dict[str, Any]:
        documents = N5(self.codec).documents(Described(self.arrays, self.kind), self.name)
        documents["attributes.json"] = {**documents["attributes.json"], **more}
        return documents

    def _precomputed(self, more: dict[str, Any]) -> dict[str, Any]:
        info = Precomputed("none").info(
            Described(self.arrays, self.kind), [self.path(i) for i in range(len(self.arrays))]
        )
        return {"info": {**info, **more}}


class Described(Volume):
    """Levels without voxels: what a format's metadata are made from."""

    def __init__(self, levels: tuple[Level, ...], kind: Kind) -> None:
        self.levels = levels
        self.kind = kind

    @property
    def stage_digest(self) -> str:
        raise NotImplementedError

    def read_box(self, level: int, box: Box, work: Work) -> Array:
        raise NotImplementedError


def as_fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """A fill value as one of `dtype`; refused where the dtype does not hold it."""
    if isinstance(value, str):
        words = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
        if value not in words:
            raise ParameterError(f"fill_value is {value!r}: {nearest(value, list(words))}, or a number")
        value = words[value]
    if not isinstance(value, bool | int | float | np.generic):
        raise ParameterError(f"fill_value is {value!r}: expected a number")
    if dtype.kind == "f":
        return dtype.type(value)
    exact = int(value) if math.isfinite(value) and int(value) == value else None
    if dtype.kind == "b" and exact in (0, 1):
        return np.bool_(exact)
    if dtype.kind in "iu" and exact is not None and np.iinfo(dtype).min <= exact <= np.iinfo(dtype).max:
        return dtype.type(exact)
    raise ParameterError(f"fill_value is {value!r}: {dtype.name} does not hold it")


def fill_json(fill: Any) -> Any:
    """A fill value as zarr v2 and v3 have it in JSON: not-a-number and infinities are text."""
    if isinstance(fill, np.bool_):
        return bool(fill)
    if isinstance(fill, np.floating):
        number = float(fill)
        if math.isnan(number):
            return "NaN"
        return number if math.isfinite(number) else ("Infinity" if number > 0 else "-Infinity")
    return int(fill)


def checked_attributes(format_word: str, attributes: Mapping[str, Any]) -> None:
    """Refuse attributes under names that the store uses itself."""
    for name in attributes:
        if name in (UNFINISHED, "multiscales", "ome", *_RESERVED[format_word]):
            raise ParameterError(f"attributes: {name!r} is the store's own; give it another name")


def sorted_deeply(value: Any, where: str) -> Any:
    """A user's value as JSON data, the members of every object sorted by UTF-16 code units."""
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise ParameterError(f"{where}: {name!r} is the name of a member: JSON has text there")
        names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        return {name: sorted_deeply(value[name], f"{where}.{name}") for name in names}
    if isinstance(value, list | tuple):
        return [sorted_deeply(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise ParameterError(f"{where} is {value}, which JSON cannot hold: write it as text")
    if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        raise ParameterError(f"{where} holds half a character (a lone surrogate), which UTF-8 cannot")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ParameterError(f"{where} is a {type(value).__name__}, which JSON cannot hold")
