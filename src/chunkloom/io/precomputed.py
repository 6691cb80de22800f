"""Neuroglancer precomputed volumes: `info` to the levels of a pyramid.

precomputed lists dimensions x first; everything that leaves this module is turned to z, y, x.
Source: Neuroglancer's description of the precomputed volume format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chunkloom.errors import FormatError, ParameterError
from chunkloom.io import parse
from chunkloom.io.discover import Level, Pyramid, make_level, make_pyramid
from chunkloom.io.layout import ArrayLayout, StoredLayout
from chunkloom.io.placement import Found, Triple
from chunkloom.io.store import Store

_TYPES = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32")
_ENCODINGS = ("raw", "jpeg", "png", "compressed_segmentation")


def find(document: object, store: Store, where: str, states: Sequence[str], scale: int | None) -> Pyramid:
    """The volume that an `info` describes, or the one scale numbered `scale` (finest is 0, as listed)."""
    info = parse.mapping(document, where)
    scales = parse.sequence(info.get("scales"), f"{where}: scales")
    if not scales:
        raise FormatError(f"{where}: scales is empty: expected at least one")
    if len(scales) > 1000:
        raise FormatError(f"{where}: scales has {len(scales)} entries: expected a pyramid's")
    if scale is not None and scale >= len(scales):
        raise ParameterError(f"{store} has {len(scales)} scales: expected s0 to s{len(scales) - 1}, found s{scale}")
    numbers = range(len(scales)) if scale is None else [scale]
    return make_pyramid([_level(info, scales[i], i, store, where, states) for i in numbers])


def _level(info: dict[str, Any], value: object, number: int, store: Store, where: str, states: Sequence[str]) -> Level:
    at = f"{where}: scales[{number}]"
    scale = parse.mapping(value, at)
    layout = parse_scale(info, scale, where, at)
    x, y, z = parse.voxel_sizes(scale.get("resolution"), f"{at}.resolution", 3)
    size: Triple = (z, y, x)
    offset = _offset(scale, at)
    cx, cy, cz = (o * v for o, v in zip(offset, (x, y, z), strict=True))
    corner: Triple = (cz, cy, cx)
    # Our own writer keeps the exact corner, which a whole-numbered voxel_offset cannot hold (z, y, x; nm).
    exact = scale.get("chunkloom_corner_nm", info.get("chunkloom_corner_nm"))
    if exact is not None:
        ez, ey, ex = parse.numbers(exact, f"{at}.chunkloom_corner_nm", 3)
        corner = (ez, ey, ex)
    axes = ("z", "y", "x") if layout.ndim == 3 else ("c", "z", "y", "x")
    return make_level(store, layout, Found(axes, size, corner), None, states, path=f"{store}/s{number}")


def parse_scale(info: dict[str, Any], scale: dict[str, Any], where: str, at: str) -> ArrayLayout:
    """The layout of one scale; its one channel is no axis, several are `c`."""
    name = info.get("data_type")
    if name not in _TYPES:
        raise FormatError(f"{where}: data_type is {parse.brief(name)}: expected one of {', '.join(_TYPES)}")
    stored = parse.number_type(name, where).newbyteorder("<")
    channels = parse.integer(info.get("num_channels", 1), f"{where}: num_channels", least=1, most=2**20)
    key = parse.text(scale.get("key"), f"{at}.key")
    size = parse.integers(scale.get("size"), f"{at}.size", 3)
    chunk_sizes = parse.sequence(scale.get("chunk_sizes"), f"{at}.chunk_sizes")
    if not chunk_sizes:
        raise FormatError(f"{at}.chunk_sizes is empty: expected at least one")
    chunk = parse.integers(chunk_sizes[0], f"{at}.chunk_sizes[0]", 3, least=1)
    parse.check_chunk_size((*chunk, channels), stored, at)
    encoding = scale.get("encoding")
    if encoding not in _ENCODINGS:
        raise FormatError(f"{at}.encoding is {parse.brief(encoding)}: expected one of {', '.join(_ENCODINGS)}")
    sharding = scale.get("sharding")
    kind = info.get("type")
    readable_scale: dict[str, Any] = {
        "key": key,
        "size": list(size),
        "resolution": scale.get("resolution"),
        "voxel_offset": list(_offset(scale, at)),
        "chunk_size": list(chunk),
        "encoding": encoding,
    }
    if encoding == "compressed_segmentation":
        blocks = scale.get("compressed_segmentation_block_size")
        readable_scale["compressed_segmentation_block_size"] = list(
            parse.integers(blocks, f"{at}.compressed_segmentation_block_size", 3, least=1)
        )
    if sharding is not None:
        readable_scale["sharding"] = parse.mapping(sharding, f"{at}.sharding")
    multiscale = {
        "type": kind if kind in ("image", "segmentation") else "image",
        "data_type": name,
        "num_channels": channels,
    }
    lead = () if channels == 1 else (channels,)
    chunk_shape = (*lead, *reversed(chunk))
    return ArrayLayout(
        format="precomputed",
        shape=(*lead, *reversed(size)),
        chunk_shape=chunk_shape,
        dtype=stored.newbyteorder("="),
        stored_dtype=stored,
        names=None,
        codec=_codec_text(encoding, sharding),
        fill=stored.newbyteorder("=").type(0),
        reader="tensorstore",
        spec={
            "driver": "neuroglancer_precomputed",
            "multiscale_metadata": multiscale,
            "scale_metadata": readable_scale,
        },
        stored=None
        if sharding is not None
        else StoredLayout(
            format="precomputed",
            chunk_shape=chunk_shape,
            dtype=stored.str,
            order="C",
            codec={
                "encoding": encoding,
                **{name: scale[name] for name in ("compressed_segmentation_block_size",) if name in scale},
            },
            fill_value=0,
            edge="cropped",
        ),
        details=(key, _offset(scale, at)),
    )


def chunk_key(index: Sequence[int], layout: ArrayLayout) -> str:
    """The key of the chunk at `index` (z, y, x last): its absolute voxel range, x first."""
    key, offset = layout.details
    ranges = []
    for axis in range(3):
        i, chunk, size = tuple(index)[-1 - axis], layout.chunk_shape[-1 - axis], layout.shape[-1 - axis]
        begin = i * chunk
        ranges.append(f"{begin + offset[axis]}-{min(begin + chunk, size) + offset[axis]}")
    return f"{key}/{'_'.join(ranges)}"


def _offset(scale: dict[str, Any], at: str) -> tuple[int, int, int]:
    value = scale.get("voxel_offset")
    if value is None:
        return (0, 0, 0)
    x, y, z = (
        parse.integer(entry, f"{at}.voxel_offset", least=-parse.MAX_EXTENT)
        for entry in parse.sequence(value, f"{at}.voxel_offset", 3)
    )
    return (x, y, z)


def _codec_text(encoding: str, sharding: object) -> str:
    word = "none" if encoding == "raw" else encoding
    return word if sharding is None else f"sharding({word})"
