"""zarr v3: `zarr.json` documents of arrays to `ArrayLayout`, chunk keys.

Source: zarr v3 core specification and its registered codecs (bytes, transpose, blosc, gzip, zstd, crc32c,
sharding_indexed); `numcodecs.*` codecs as zarr-python writes them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunkloom.errors import FormatError
from chunkloom.io import parse
from chunkloom.io.layout import ArrayLayout, StoredLayout

_TYPES = {
    **{name: name for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    **{name: name for name in ("float16", "float32", "float64", "complex64", "complex128")},
}
_REGISTERED = ("bytes", "transpose", "blosc", "gzip", "zstd", "crc32c", "sharding_indexed")
_MEMBERS = {
    *("zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs"),
    *("attributes", "dimension_names", "storage_transformers", "consolidated_metadata"),
}


@dataclass(frozen=True)
class Codec:
    """One step of a codec pipeline. `inner` and `index` are the pipelines inside a shard."""

    name: str
    configuration: dict[str, Any]
    inner: tuple[Codec, ...] = ()
    index: tuple[Codec, ...] = ()
    chunk_shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Zarr3Codecs:
    """What the layer over numcodecs decodes a chunk with."""

    codecs: tuple[Codec, ...]
    encoding: str
    separator: str
    outer_shape: tuple[int, ...]


def parse_array(document: object, where: str, separator: str | None = None) -> ArrayLayout:
    """The layout that the `zarr.json` of an array declares. Errors as in `zarr2.parse_array`."""
    members = parse.mapping(document, where)
    if members.get("zarr_format") != 3 or members.get("node_type") != "array":
        raise FormatError(f"{where}: expected zarr_format 3 and node_type 'array'")
    _refuse_unknown(members, where)
    for needed in ("shape", "data_type", "chunk_grid", "codecs"):
        if needed not in members:
            raise FormatError(f"{where} has no member {needed!r}: it is not a whole zarr.json document")
    shape = parse.integers(members["shape"], f"{where}: shape")
    dtype = _data_type(members["data_type"], f"{where}: data_type")
    outer = _chunk_grid(members["chunk_grid"], f"{where}: chunk_grid", len(shape))
    encoding, declared = _key_encoding(members.get("chunk_key_encoding", "default"), f"{where}: chunk_key_encoding")
    separator = separator or declared
    fill = parse.fill_number(members.get("fill_value"), dtype, f"{where}: fill_value")
    codecs = _pipeline(members["codecs"], outer, dtype, f"{where}: codecs", depth=0)
    inner = _read_shape(outer, codecs)
    sharded = any(codec.name == "sharding_indexed" for codec in codecs)
    # Whole shards are never decoded at once, so the bound is on the inner chunk.
    parse.check_chunk_size(inner, dtype, where)
    readable = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(outer)}},
        "chunk_key_encoding": {"name": encoding, "configuration": {"separator": separator}},
        "fill_value": members.get("fill_value") if dtype.kind == "f" else _json_fill(fill),
        "codecs": [_readable(codec, dtype) for codec in codecs],
    }
    if readable["fill_value"] is None:
        readable["fill_value"] = 0
    stored_dtype = _stored_dtype(codecs, dtype)
    return ArrayLayout(
        format="zarr3",
        shape=shape,
        chunk_shape=inner,
        dtype=dtype,
        stored_dtype=stored_dtype,
        names=_names(members.get("dimension_names"), f"{where}: dimension_names", len(shape)),
        codec=_codec_text(codecs),
        fill=fill,
        reader="tensorstore" if len(shape) > 0 and _all_registered(codecs) else "chunkwise",
        spec={"driver": "zarr3", "metadata": readable},
        stored=None
        if sharded
        else StoredLayout(
            format="zarr3",
            chunk_shape=outer,
            dtype=stored_dtype.str,
            order="C",
            codec={"codecs": members["codecs"]},
            fill_value=members.get("fill_value"),
            edge="padded",
        ),
        details=Zarr3Codecs(codecs, encoding, separator, outer),
    )


def chunk_key(index: Sequence[int], encoding: str, separator: str) -> str:
    """The key of a chunk under `default` (`c/0/0/0`) or `v2` (`0.0.0`) encoding."""
    if encoding == "default":
        return separator.join(["c", *map(str, index)])
    return separator.join(map(str, index)) or "0"


def _refuse_unknown(members: dict[str, Any], where: str) -> None:
    for name, value in members.items():
        if name in _MEMBERS or (isinstance(value, dict) and value.get("must_understand") is False):
            continue
        raise FormatError(f"{where} has a member {parse.brief(name)} that must be understood and is not known")
    if members.get("storage_transformers"):
        raise FormatError(f"{where}: storage_transformers are not known to any reader: rewrite the array without them")


def _named(value: object, where: str) -> tuple[str, dict[str, Any]]:
    """A name with its configuration; the configuration may be left out, and then the name may stand alone."""
    if isinstance(value, str):
        return value, {}
    members = parse.mapping(value, where)
    name = parse.text(members.get("name"), f"{where}.name")
    configuration = members.get("configuration")
    return name, parse.mapping({} if configuration is None else configuration, f"{where}.configuration")


def _data_type(value: object, where: str) -> np.dtype[Any]:
    name, _ = _named(value, where)
    if name not in _TYPES:
        raise FormatError(f"{where} is {parse.brief(name)}: expected one of {', '.join(_TYPES)}")
    return np.dtype(_TYPES[name])


def _chunk_grid(value: object, where: str, ndim: int) -> tuple[int, ...]:
    name, configuration = _named(value, where)
    if name != "regular":
        raise FormatError(f"{where} is {parse.brief(name)}: expected 'regular'")
    return parse.integers(configuration.get("chunk_shape"), f"{where}.chunk_shape", ndim, least=1)


def _key_encoding(value: object, where: str) -> tuple[str, str]:
    name, configuration = _named(value, where)
    if name not in ("default", "v2"):
        raise FormatError(f"{where} is {parse.brief(name)}: expected 'default' or 'v2'")
    separator = configuration.get("separator", "/" if name == "default" else ".")
    if separator not in (".", "/"):
        raise FormatError(f"{where}.separator is {parse.brief(separator)}: expected '.' or '/'")
    return name, separator


def _names(value: object, where: str, ndim: int) -> tuple[str | None, ...] | None:
    if value is None:
        return None
    entries = parse.sequence(value, where, ndim)
    return tuple(None if entry is None else parse.text(entry, where) for entry in entries)


def _pipeline(value: object, shape: tuple[int, ...], dtype: np.dtype[Any], where: str, depth: int) -> tuple[Codec, ...]:
    entries = parse.sequence(value, where)
    if not entries or len(entries) > parse.MAX_RANK or depth > 4:
        raise FormatError(f"{where} has {len(entries)} entries at depth {depth}: expected a short list of codecs")
    codecs: list[Codec] = []
    for entry in entries:
        name, configuration = _named(entry, where)
        # "endian" is the draft's name of "bytes".
        name = "bytes" if name == "endian" else name
        at = f"{where}: {name}"
        if name == "transpose":
            order = _transpose_order(configuration.get("order"), at, len(shape))
            shape = tuple(shape[axis] for axis in order)
            configuration = {"order": list(order)}
        if name == "bytes" and configuration.get("endian", "little") not in ("little", "big"):
            raise FormatError(f"{at}.endian is {parse.brief(configuration['endian'])}: expected 'little' or 'big'")
        if name == "sharding_indexed":
            codecs.append(_shard(configuration, shape, dtype, at, depth))
            continue
        if name not in _REGISTERED and not name.startswith("numcodecs."):
            raise FormatError(
                f"{where} names {parse.brief(name)}: expected one of {', '.join(_REGISTERED)}, numcodecs.*"
            )
        codecs.append(Codec(name, configuration))
    if sum(codec.name in ("bytes", "sharding_indexed") for codec in codecs) != 1 and not any(
        codec.name in ("numcodecs.pcodec", "numcodecs.zfpy") for codec in codecs
    ):
        raise FormatError(f"{where}: expected exactly one codec that turns the array into bytes")
    return tuple(codecs)


def _transpose_order(value: object, where: str, ndim: int) -> tuple[int, ...]:
    if value == "C":
        return tuple(range(ndim))
    if value == "F":
        return tuple(reversed(range(ndim)))
    order = parse.integers(value, f"{where}.order", ndim)
    if sorted(order) != list(range(ndim)):
        raise FormatError(f"{where}.order is {list(order)}: expected each axis once")
    return order


def _shard(
    configuration: dict[str, Any], shape: tuple[int, ...], dtype: np.dtype[Any], where: str, depth: int
) -> Codec:
    inner = parse.integers(configuration.get("chunk_shape"), f"{where}.chunk_shape", len(shape), least=1)
    if any(outer % chunk for outer, chunk in zip(shape, inner, strict=True)):
        raise FormatError(f"{where}.chunk_shape {list(inner)} does not divide the shard's shape {list(shape)}")
    counts = tuple(outer // chunk for outer, chunk in zip(shape, inner, strict=True))
    if math.prod(counts) * 16 > parse.MAX_CHUNK_BYTES:
        raise FormatError(
            f"{where} has {math.prod(counts)} chunks in a shard, whose index alone would not fit in memory"
        )
    location = configuration.get("index_location", "end")
    if location not in ("start", "end"):
        raise FormatError(f"{where}.index_location is {parse.brief(location)}: expected 'start' or 'end'")
    index_codecs = configuration.get("index_codecs", [{"name": "bytes", "configuration": {"endian": "little"}}])
    index_type = np.dtype("u8")
    return Codec(
        "sharding_indexed",
        {"index_location": location},
        inner=_pipeline(configuration.get("codecs", [{"name": "bytes"}]), inner, dtype, f"{where}.codecs", depth + 1),
        index=_pipeline(index_codecs, (*counts, 2), index_type, f"{where}.index_codecs", depth + 1),
        chunk_shape=inner,
    )


def _read_shape(outer: tuple[int, ...], codecs: tuple[Codec, ...]) -> tuple[int, ...]:
    """The shape of the smallest piece that is decoded at once, in the array's axis order."""
    axes = list(range(len(outer)))
    for codec in codecs:
        if codec.name == "transpose":
            axes = [axes[axis] for axis in codec.configuration["order"]]
        if codec.name == "sharding_indexed":
            inner = _read_shape(codec.chunk_shape, codec.inner)
            shape = [0] * len(outer)
            for axis, size in zip(axes, inner, strict=True):
                shape[axis] = size
            return tuple(shape)
    return outer


def _all_registered(codecs: tuple[Codec, ...]) -> bool:
    return all(codec.name in _REGISTERED and _all_registered((*codec.inner, *codec.index)) for codec in codecs)


def _readable(codec: Codec, dtype: np.dtype[Any]) -> dict[str, Any]:
    """The codec for tensorstore, a writer's parameters replaced by ones that it accepts (see `zarr2`)."""
    configuration: dict[str, Any] | None
    match codec.name:
        case "bytes":
            configuration = {"endian": codec.configuration.get("endian", "little")}
            return {"name": "bytes", "configuration": configuration} if dtype.itemsize > 1 else {"name": "bytes"}
        case "blosc":
            configuration = {
                "cname": "lz4",
                "clevel": 5,
                "shuffle": "shuffle",
                "typesize": dtype.itemsize,
                "blocksize": 0,
            }
        case "gzip":
            configuration = {"level": 1}
        case "zstd":
            configuration = {"level": 1, "checksum": False}
        case "sharding_indexed":
            configuration = {
                "chunk_shape": list(codec.chunk_shape),
                "codecs": [_readable(inner, dtype) for inner in codec.inner],
                "index_codecs": [_readable(inner, np.dtype("u8")) for inner in codec.index],
                "index_location": codec.configuration["index_location"],
            }
        case "transpose":
            configuration = codec.configuration
        case _:
            return {"name": codec.name}
    return {"name": codec.name, "configuration": configuration}


def _json_fill(fill: Any) -> Any:
    if fill.dtype.kind == "c":
        return [float(fill.real), float(fill.imag)]
    return fill.item()


def _stored_dtype(codecs: tuple[Codec, ...], dtype: np.dtype[Any]) -> np.dtype[Any]:
    for codec in codecs:
        if codec.name == "bytes" and codec.configuration.get("endian") == "big":
            return dtype.newbyteorder(">")
    return dtype.newbyteorder("<")


def _codec_text(codecs: tuple[Codec, ...]) -> str:
    words = []
    for codec in codecs:
        if codec.name == "sharding_indexed":
            words.append(f"sharding({_codec_text(codec.inner)})")
        elif codec.name == "blosc" and isinstance(codec.configuration.get("cname"), str):
            words.append(f"blosc/{codec.configuration['cname']}")
        elif codec.name != "bytes":
            words.append(codec.name.removeprefix("numcodecs."))
    return "+".join(words) or "none"
