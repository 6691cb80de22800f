"""N5: `attributes.json` to `ArrayLayout`, and the layouts of groups that N5 writers make.

N5 lists dimensions x first; everything that leaves this module is turned to z, y, x.
Source: N5 file-system specification; Neuroglancer's n5 data source for `scales`, `units` and inheritance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chunkloom.errors import FormatError
from chunkloom.io import parse, placement
from chunkloom.io.layout import ArrayLayout, StoredLayout
from chunkloom.io.placement import Found
from chunkloom.io.store import Store

_TYPES = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64")
# As in zarr2: what a writer chose does not matter to a reader.
_READABLE: dict[str, dict[str, Any]] = {
    "raw": {"type": "raw"},
    "gzip": {"type": "gzip", "level": 1},
    "bzip2": {"type": "bzip2", "blockSize": 9},
    "xz": {"type": "xz", "preset": 6},
    "blosc": {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    "zstd": {"type": "zstd", "level": 1},
}
_KNOWN = (*_READABLE, "lz4")


@dataclass(frozen=True)
class N5Codecs:
    """What the layer over numcodecs decodes a block with."""

    compression: dict[str, Any]


def parse_array(document: object, where: str) -> ArrayLayout:
    """The layout that an array's `attributes.json` declares.

    Raises
    ------
    FormatError
        For anything that the specification does not allow, or that is no volume of numbers.
    """
    members = parse.mapping(document, where)
    for needed in ("dimensions", "blockSize", "dataType"):
        if needed not in members:
            raise FormatError(f"{where} has no member {needed!r}: it does not describe an N5 array")
    dimensions = parse.integers(members["dimensions"], f"{where}: dimensions")
    blocks = parse.integers(members["blockSize"], f"{where}: blockSize", len(dimensions), least=1)
    name = members["dataType"]
    if name not in _TYPES:
        raise FormatError(f"{where}: dataType is {parse.brief(name)}: expected one of {', '.join(_TYPES)}")
    if members.get("isLabelMultiset") is True:
        raise FormatError(
            f"{where} stores label multisets (several labels per voxel), which are not a volume of numbers: "
            "convert them to uint64 labels"
        )
    stored = parse.number_type(name, f"{where}: dataType").newbyteorder(">")
    parse.check_chunk_size(blocks, stored, where)
    compression = _compression(members, where)
    kind = compression["type"]
    readable = dict(_READABLE.get(kind, {}))
    if kind == "gzip" and compression.get("useZlib") is True:
        readable["useZlib"] = True
    chunk = tuple(reversed(blocks))
    return ArrayLayout(
        format="n5",
        shape=tuple(reversed(dimensions)),
        chunk_shape=chunk,
        dtype=stored.newbyteorder("="),
        stored_dtype=stored,
        names=None,
        codec="none" if kind == "raw" else kind,
        fill=stored.newbyteorder("=").type(0),
        reader="tensorstore" if readable and dimensions else "chunkwise",
        spec={
            "driver": "n5",
            "metadata": {
                "dimensions": list(dimensions),
                "blockSize": list(blocks),
                "dataType": name,
                "compression": readable,
            },
        },
        stored=StoredLayout(
            format="n5",
            chunk_shape=chunk,
            dtype=stored.str,
            order="C",
            codec={"compression": compression},
            fill_value=0,
            edge="cropped",
        ),
        details=N5Codecs(compression),
    )


def chunk_key(index: Sequence[int]) -> str:
    """The key of the block at `index` (z, y, x): `x/y/z`."""
    return "/".join(map(str, reversed(tuple(index)))) or "0"


def own_placement(attributes: Mapping[str, Any], ndim: int, where: str) -> Found:
    """What an array's own attributes say; a resolution beside `downsamplingFactors` is that of the finest level."""
    found = placement.legacy_placement(attributes, ndim, where, x_first=True)
    if found.voxel_size_nm is None or isinstance(attributes.get("transform"), dict):
        return found
    factors = _factors(attributes.get("downsamplingFactors"), ndim, f"{where}: downsamplingFactors")
    return found if factors is None else _scaled(found, factors)


def level_placement(group: Mapping[str, Any], level: Mapping[str, Any], name: str, ndim: int, where: str) -> Found:
    """What a group says of its level `name` (`s2`): its base resolution times the level's downsampling factors.

    The group's list `scales` (or `downsamplingFactors`) wins over the level's own `downsamplingFactors`.
    """
    base = placement.legacy_placement(group, ndim, where, x_first=True)
    number = re.fullmatch(r"s?(\d{1,6})", name.rsplit("/", 1)[-1])
    for member in ("scales", "downsamplingFactors"):
        entries: Any = group.get(member)
        listed = isinstance(entries, list) and len(entries) > 0 and isinstance(entries[0], list)
        if listed and number and int(number.group(1)) < len(entries):
            factors = _factors(entries[int(number.group(1))], ndim, f"{where}: {member}")
            return base if factors is None else _scaled(base, factors)
    factors = _factors(level.get("downsamplingFactors"), ndim, f"{where}, {name}: downsamplingFactors")
    return base if factors is None else _scaled(base, factors)


def inner_folder(attributes: Mapping[str, Any], store: Store) -> tuple[str, list[str]] | None:
    """The folder with the levels in Paintera's and BigDataViewer's layouts, and what to say of it; else None."""
    if "painteraData" in attributes:
        return "data", []
    names = store.folders()
    name = store.location.name
    if names is None:
        return None
    for kind in ("setup", "timepoint"):
        numbers = sorted(int(n.removeprefix(kind)) for n in names if re.fullmatch(rf"{kind}\d{{1,9}}", n))
        if numbers:
            first = f"{kind}{numbers[0]}"
            more = [] if len(numbers) == 1 else [f"{name} holds {len(numbers)} {kind}s: {first} is read"]
            return first, more
    return None


def _factors(value: object, ndim: int, where: str) -> tuple[float, float, float] | None:
    """Downsampling factors along z, y, x of a list in dimension order; None where there is none that fits."""
    if not isinstance(value, list) or len(value) not in (3, ndim) or len(value) < 3:
        return None
    x, y, z = parse.voxel_sizes(value[:3], where)
    return (z, y, x)


def _scaled(base: Found, factors: tuple[float, float, float]) -> Found:
    """A level `factors` times as coarse: it begins at the same corner."""
    warnings = base.warnings
    sizes = base.voxel_size_nm
    if sizes is None:
        warnings = (*warnings, "the metadata give downsampling factors but no voxel size: 1 nm assumed for the finest")
        sizes = (1.0, 1.0, 1.0)
    z, y, x = (s * f for s, f in zip(sizes, factors, strict=True))
    return Found(base.axes, (z, y, x), base.corner_nm, warnings)


def _compression(members: Mapping[str, Any], where: str) -> dict[str, Any]:
    value = members.get("compression", members.get("compressionType", {"type": "raw"}))
    if isinstance(value, str):  # N5 before 2.0
        value = {"type": value}
    compression = parse.mapping(value, f"{where}: compression")
    kind = compression.get("type")
    if kind not in _KNOWN:
        raise FormatError(f"{where}: compression.type is {parse.brief(kind)}: expected one of {', '.join(_KNOWN)}")
    return compression
