"""zarr v2: `.zarray` documents to `ArrayLayout`, chunk keys.

Source: zarr v2 specification; numcodecs for the meaning of compressors and filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from chunkloom.errors import FormatError
from chunkloom.io import parse
from chunkloom.io.layout import ArrayLayout, StoredLayout

# Compressors that tensorstore decodes. A writer's parameters (level, shuffle, checksum) do not matter to a reader: each
# encoded chunk says what was done to it, so tensorstore is given parameters that it accepts.
_READABLE: dict[str, dict[str, Any]] = {
    "blosc": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    "zlib": {"id": "zlib", "level": 1},
    "gzip": {"id": "gzip", "level": 1},
    "bz2": {"id": "bz2", "level": 1},
    "zstd": {"id": "zstd", "level": 1},
}


@dataclass(frozen=True)
class Zarr2Codecs:
    """What the layer over numcodecs decodes a chunk with."""

    compressor: dict[str, Any] | None
    filters: tuple[dict[str, Any], ...]
    order: Literal["C", "F"]
    separator: str


def parse_array(document: object, where: str, separator: str | None = None) -> ArrayLayout:
    """The layout that a `.zarray` declares.

    Parameters
    ----------
    separator : `.` or `/` when the caller says how chunk keys are written, in place of `dimension_separator`.

    Raises
    ------
    FormatError
        For anything that the specification does not allow, or that is no volume of numbers.
    """
    members = parse.mapping(document, where)
    if members.get("zarr_format") != 2:
        raise FormatError(f"{where}: zarr_format is {parse.brief(members.get('zarr_format'))}: expected 2")
    for needed in ("shape", "chunks", "dtype"):
        if needed not in members:
            raise FormatError(f"{where} has no member {needed!r}: it is not a whole .zarray document")
    shape = parse.integers(members["shape"], f"{where}: shape")
    chunks = parse.integers(members["chunks"], f"{where}: chunks", len(shape), least=1)
    if isinstance(members["dtype"], list):
        raise FormatError(f"{where}: dtype is a record of fields: expected one number per voxel")
    stored = parse.number_type(parse.text(members["dtype"], f"{where}: dtype"), f"{where}: dtype")
    parse.check_chunk_size(chunks, stored, where)
    order = members.get("order", "C")
    if order not in ("C", "F"):
        raise FormatError(f"{where}: order is {parse.brief(order)}: expected 'C' or 'F'")
    declared = members.get("dimension_separator") or "."
    if declared not in (".", "/"):
        raise FormatError(f"{where}: dimension_separator is {parse.brief(declared)}: expected '.' or '/'")
    separator = separator or declared
    fill = parse.fill_number(members.get("fill_value"), stored, f"{where}: fill_value")
    compressor = _codec(members.get("compressor"), f"{where}: compressor")
    filters = tuple(_filters(members.get("filters"), f"{where}: filters"))
    by_tensorstore = not filters and (compressor is None or compressor["id"] in _READABLE) and len(shape) > 0
    readable = {
        "zarr_format": 2,
        "shape": list(shape),
        "chunks": list(chunks),
        "dtype": stored.str,
        "compressor": compressor and _READABLE.get(compressor["id"]),
        "fill_value": _json_fill(fill),
        "order": order,
        "filters": None,
        "dimension_separator": separator,
    }
    return ArrayLayout(
        format="zarr2",
        shape=shape,
        chunk_shape=chunks,
        dtype=stored.newbyteorder("="),
        stored_dtype=stored,
        names=None,
        codec=_codec_text(compressor, filters),
        fill=fill,
        reader="tensorstore" if by_tensorstore else "chunkwise",
        spec={"driver": "zarr", "metadata": readable},
        stored=StoredLayout(
            format="zarr2",
            chunk_shape=chunks,
            dtype=stored.str,
            order=order,
            codec={"compressor": compressor, "filters": list(filters) or None},
            fill_value=members.get("fill_value"),
            edge="padded",
        ),
        details=Zarr2Codecs(compressor, filters, order, separator),
    )


def chunk_key(index: Sequence[int], separator: str) -> str:
    """The key of a chunk; an array without dimensions has the one chunk `0`."""
    return separator.join(map(str, index)) or "0"


def _json_fill(fill: Any) -> Any:
    if fill.dtype.kind == "f":
        value = float(fill)
        if value != value:
            return "NaN"
        return value if abs(value) != float("inf") else ("Infinity" if value > 0 else "-Infinity")
    if fill.dtype.kind == "c":
        # tensorstore takes no JSON complex numbers; null reads as 0, which is the only fill seen in practice.
        return None
    return fill.item()


def _codec(value: object, where: str) -> dict[str, Any] | None:
    if value is None:
        return None
    codec = parse.mapping(value, where)
    parse.text(codec.get("id"), f"{where}.id")
    return codec


def _filters(value: object, where: str) -> list[dict[str, Any]]:
    if value is None:
        return []
    filters = [_codec(entry, where) for entry in parse.sequence(value, where)]
    if len(filters) > parse.MAX_RANK:
        raise FormatError(f"{where} has {len(filters)} entries: expected a handful")
    return [entry for entry in filters if entry is not None]


def _codec_text(compressor: dict[str, Any] | None, filters: tuple[dict[str, Any], ...]) -> str:
    words = [str(entry["id"]) for entry in filters]
    if compressor is not None:
        word = str(compressor["id"])
        words.append(f"{word}/{compressor['cname']}" if isinstance(compressor.get("cname"), str) else word)
    return "+".join(words) or "none"
