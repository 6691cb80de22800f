"""Makes `materialize/*.json`: what a materialize must write, told from the whole array alone.

An oracle independent of both engines: NumPy cuts the box out of the whole array, pads it, and cuts chunks.
Nothing here walks, stitches or asks for served chunks. `README.md` describes the fields and the file texts.

Run `python tests/conformance/make_materialize_cases.py` to write the cases, with `--check` to compare only.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import itertools
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "materialize"
V2_DTYPES = {"bool": "|b1", "int8": "|i1", "uint8": "|u1", "int16": "<i2", "uint16": "<u2", "int32": "<i4"}
V2_DTYPES |= {"uint32": "<u4", "int64": "<i8", "uint64": "<u8", "float32": "<f4", "float64": "<f8"}

Whole = np.ndarray[Any, Any]


# The source


def formula(**changed: Any) -> dict[str, Any]:
    plain = {
        "factors": [101, 7, 13, 29, 3],
        "offset": 1,
        "modulus": 251,
        "subtract": 0,
        "scale": "1",
        "divisor": 1,
    }
    return plain | {"inside": []} | changed


def level(shape: Sequence[int], chunk: Sequence[int], voxel: Sequence[float] = (8, 8, 8), corner: Any = (0, 0, 0)):
    return {"shape": [*shape], "chunk": [*chunk], "voxel_size_nm": [*voxel], "corner_nm": [*corner]}


def source(
    *levels: dict[str, Any],
    name: str = "v",
    dtype: str = "uint8",
    kind: str = "image",
    channels: Any = (),
    **f,
):
    return {
        "name": name,
        "dtype": dtype,
        "kind": kind,
        "channels": [*channels],
        "levels": [*levels],
        "formula": formula(**f),
    }


def whole_array(src: dict[str, Any], number: int) -> Whole:
    """Every value of a level, channel axis first, always with one (of 1 where the source has none)."""
    f = src["formula"]
    shape = src["levels"][number]["shape"]
    channels = math.prod(src["channels"])
    c, z, y, x = np.meshgrid(*(np.arange(n, dtype=np.int64) for n in (channels, *shape)), indexing="ij")
    kc, kz, ky, kx, kl = f["factors"]
    base = (kc * c + kz * z + ky * y + kx * x + kl * number + f["offset"]) % f["modulus"] - f["subtract"]
    if f["inside"]:
        keep = np.zeros(base.shape, bool)
        for box in f["inside"]:
            keep[(slice(None), *(slice(lo, hi) for lo, hi in zip(box["lo"], box["hi"], strict=True)))] = True
        base = np.where(keep, base, 0)
    dtype = np.dtype(src["dtype"])
    if dtype.kind in "iu" and dtype.itemsize == 8:
        return base.astype(dtype) * dtype.type(int(f["scale"]))
    return (base * int(f["scale"]) / f["divisor"]).astype(dtype)


# The operations, on the whole array


def working(x: Whole) -> Whole:
    """In the float type that holds the values exactly."""
    return x.astype(np.float32 if x.dtype.itemsize <= 2 or x.dtype == np.float32 else np.float64)


def min_max(x: Whole, min_value: float = 0, max_value: float = 255, invert: bool = False) -> Whole:
    y = working(x)
    number = y.dtype.type
    low, high = number(min_value), number(max_value)
    y = ((np.clip(y, low, high) - low) / number(max_value - min_value)).astype(np.float32)
    return np.float32(1) - y if invert else y


def cast(x: Whole, dtype: str) -> Whole:
    target = np.dtype(dtype)
    if target.kind == "f":
        return x.astype(target)
    if target.kind == "b":
        return (x != 0) & ~np.isnan(x.astype(np.float64))
    limits = np.iinfo(target)
    rounded = np.rint(np.nan_to_num(x.astype(np.float64), nan=0.0))
    return np.clip(rounded, limits.min, limits.max).astype(target)


OPS: dict[str, Callable[..., Whole]] = {
    "MinMaxNormalizer": min_max,
    "ZScoreNormalizer": lambda x, mean, std: (x.astype(np.float32) - np.float32(mean)) / np.float32(std),
    "SigmoidPostprocessor": lambda x: (1 / (1 + np.exp(-x.astype(np.float64)))).astype(np.float32),
    "ThresholdPostprocessor": lambda x, threshold: (x > threshold).astype(np.uint8),
    "DefaultPostprocessor": lambda x, clip_min, clip_max, bias, multiplier: np.trunc(
        (np.clip(x.astype(np.float64), clip_min, clip_max) + bias) * multiplier
    ).astype(np.uint8),
    "ChannelSelection": lambda x, channels: x[[int(n) for n in channels.split(",")]],
    "cast": cast,
}


# What is written


def number_text(value: float) -> str:
    """A number as ECMAScript prints it (ECMA-262, Number::toString)."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value == 0:
        return "0"
    mantissa, _, exponent = f"{value!r}".partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len((whole + fraction).lstrip("0")))
    digits = digits.rstrip("0")
    k = len(digits)
    if k <= point <= 21:
        return sign + digits + "0" * (point - k)
    if 0 < point <= 21:
        return sign + digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    e = point - 1
    return f"{sign}{digits[0]}{'.' + digits[1:] if k > 1 else ''}e{'+' if e > 0 else '-'}{abs(e)}"


def text(value: Any, indent: str = "") -> str:
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, (int, float)):
        return number_text(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    deeper = indent + "  "
    if isinstance(value, dict):
        inside = [f"{deeper}{text(k)}: {text(v, deeper)}" for k, v in value.items()]
        return "{\n" + ",\n".join(inside) + f"\n{indent}}}" if inside else "{}"
    inside = [deeper + text(v, deeper) for v in value]
    return "[\n" + ",\n".join(inside) + f"\n{indent}]" if inside else "[]"


def sorted_deep(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: sorted_deep(value[k]) for k in sorted(value, key=lambda k: k.encode("utf-16-be"))}
    return [sorted_deep(v) for v in value] if isinstance(value, list) else value


def tidy(value: float, a: float, b: float) -> float:
    size = max(abs(a), abs(b), abs(value))
    short = round(value, 12 - len(str(int(size))))
    return short + 0.0 if abs(short - value) <= 1e-15 * size * 4 else value


def metadata(src: dict[str, Any], options: dict[str, Any], shape: Sequence[int], lo: Sequence[int]) -> dict[str, str]:
    at = src["levels"][options["level"]]
    channels = src["channels"]
    names = ["c"] if len(channels) == 1 else [f"c{i}" for i in range(len(channels))]
    axes = [{"name": n, "type": "channel"} for n in names]
    axes += [{"name": n, "type": "space", "unit": "nanometer"} for n in "zyx"]
    voxel = [float(v) for v in at["voxel_size_nm"]]
    corner = [c + o * v for c, o, v in zip(at["corner_nm"], lo, voxel, strict=True)]
    centre = [tidy(c + v / 2, c, v) for c, v in zip(corner, voxel, strict=True)]
    dataset = {
        "path": "0",
        "coordinateTransformations": [
            {"type": "scale", "scale": [1] * len(channels) + voxel},
            {"type": "translation", "translation": [0] * len(channels) + centre},
        ],
    }
    multiscale = {"name": src["name"], "axes": axes, "datasets": [dataset]}
    more = sorted_deep(options["attributes"])
    fill = False if src["dtype"] == "bool" else 0
    full_shape, full_chunk = [*channels, *shape], [*channels, *at["chunk"]]
    gzip = options["codec"] == "gzip"
    if options["format"] == "zarr2":
        group = {"multiscales": [{"version": "0.4", **multiscale}], **more}
        array = {
            "zarr_format": 2,
            "shape": full_shape,
            "chunks": full_chunk,
            "dtype": V2_DTYPES[src["dtype"]],
            "compressor": {"id": "gzip", "level": 1} if gzip else None,
            "fill_value": fill,
            "order": "C",
            "filters": None,
            "dimension_separator": "/",
        }
        files = {".zgroup": {"zarr_format": 2}, ".zattrs": group, "0/.zarray": array}
    else:
        ome = {"version": "0.5", "multiscales": [multiscale]}
        one_byte = np.dtype(src["dtype"]).itemsize == 1
        codecs: list[Any] = [
            {"name": "bytes"} if one_byte else {"name": "bytes", "configuration": {"endian": "little"}}
        ]
        codecs += [{"name": "gzip", "configuration": {"level": 1}}] if gzip else []
        array = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": full_shape,
            "data_type": src["dtype"],
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": full_chunk}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": fill,
            "codecs": codecs,
            "attributes": {},
            "dimension_names": [*names, "z", "y", "x"],
        }
        group = {"zarr_format": 3, "node_type": "group", "attributes": {"ome": ome, **more}}
        files = {"zarr.json": group, "0/zarr.json": array}
    return {key: text(value) + "\n" for key, value in files.items()}


def voxels(shape: Sequence[int], box: dict[str, Any]) -> tuple[list[int], list[int]]:
    lo = [math.floor(max(0, v)) for v in (box["lo"] or [0, 0, 0])]
    hi = [math.ceil(min(n, v)) for n, v in zip(shape, box["hi"] or shape, strict=True)]
    return lo, hi


def expected(case: dict[str, Any]) -> dict[str, Any]:
    src, options = case["source"], case["options"]
    number, extent = options["level"], options["extent"]
    at = src["levels"][number]
    shape, chunk = at["shape"], at["chunk"]
    whole = whole_array(src, number)
    for op in case["ops"]:
        whole = OPS[op["name"]](whole, **{k: v for k, v in op.items() if k != "name"})
    written = dict(src)
    if case["ops"]:
        written["dtype"] = whole.dtype.name
        if src["channels"]:
            written["channels"] = [whole.shape[0]]
    separator = "/" if options["format"] == "zarr2" else "/c/"
    chunks: dict[str, Any] = {}
    results = []
    files: dict[str, str] = {}
    for box in case["boxes"]:
        lo, hi = voxels(shape, box)
        if any(h <= o for o, h in zip(lo, hi, strict=True)):
            return {"error": "outside"}
        first = [o // c for o, c in zip(lo, chunk, strict=True)]
        last = [-(-h // c) for h, c in zip(hi, chunk, strict=True)]
        needed = math.prod(b - a for a, b in zip(first, last, strict=True))
        if extent == "level":
            origin, end, size, begin = [0, 0, 0], shape, shape, first
            grid = last
        else:
            origin, end = lo, hi
            size = [h - o for o, h in zip(lo, hi, strict=True)]
            begin, grid = [0, 0, 0], [-(-n // c) for n, c in zip(size, chunk, strict=True)]
        files = metadata(written, options, size, origin)
        part = whole[(slice(None), *(slice(o, e) for o, e in zip(origin, end, strict=True)))]
        pad = [(0, 0), *((0, -n % c) for n, c in zip(part.shape[1:], chunk, strict=True))]
        padded = np.pad(part, pad)
        count = {"total": 0, "written": 0, "bytes": 0}
        for index in itertools.product(*(range(a, b) for a, b in zip(begin, grid, strict=True))):
            where = tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunk, strict=True))
            data = np.ascontiguousarray(padded[(slice(None), *where)])
            raw = data.astype(data.dtype.newbyteorder("<")).tobytes()
            count["total"] += 1
            if options["skip_empty"] and not any(raw):
                continue
            count["written"] += 1
            count["bytes"] += len(raw)
            key = "0" + separator + "/".join(map(str, [*(0 for _ in written["channels"]), *index]))
            chunks[key] = {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
            if case["tolerance"]:
                chunks[key]["values"] = base64.b64encode(raw).decode()
        if extent == "level":
            lo = [i * c for i, c in zip(first, chunk, strict=True)]
            hi = [min(n, i * c) for n, i, c in zip(shape, last, chunk, strict=True)]
        results.append(
            {
                "shape": [*written["channels"], *size],
                "chunk": [*written["channels"], *chunk],
                "lo": lo,
                "hi": hi,
                "needed": needed,
                "done": count["total"],
                "written": count["written"],
                "skipped": count["total"] - count["written"],
                "bytes": count["bytes"] if options["codec"] == "none" else None,
            }
        )
    return {"files": files, "chunks": chunks, "results": results}


# The cases

BIG = level((37, 50, 41), (16, 16, 16))
ODD = level((23, 31, 27), (8, 10, 12), (8, 8, 8), (0, 0, 0))
CASES: list[dict[str, Any]] = []


def case(
    name: str,
    about: str,
    src: dict[str, Any],
    *boxes: Any,
    ops: Sequence[Any] = (),
    tolerance: float = 0,
    **o: Any,
):
    options = {
        "level": 0,
        "extent": "box",
        "format": "zarr3",
        "codec": "none",
        "skip_empty": True,
        "attributes": {},
    }
    CASES.append(
        {
            "name": name,
            "about": about,
            "source": src,
            "ops": [*ops],
            "boxes": [{"lo": b[0], "hi": b[1]} for b in (boxes or ((None, None),))],
            "options": options | o,
            "tolerance": tolerance,
        }
    )


def both(name: str, about: str, src: dict[str, Any], *boxes: Any, **o: Any) -> None:
    for word in ("zarr2", "zarr3"):
        case(f"{name}-{word}", about, src, *boxes, format=word, **o)


def make_cases() -> None:
    off = ([3, 5, 2], [30, 44, 39])
    both("box-unaligned", "A box off the chunk edges on every axis.", source(BIG), off)
    both("box-unaligned-gzip", "The same, packed: decoded chunks are compared.", source(BIG), off, codec="gzip")
    both("box-whole-level", "No box: the whole level, whose edge chunks overhang.", source(ODD))
    both(
        "level-whole-level",
        "The whole level by the level's extent: the same store.",
        source(ODD),
        extent="level",
    )
    both(
        "level-unaligned",
        "The level's extent rounds the box out to whole chunks.",
        source(BIG),
        off,
        extent="level",
    )
    case("box-exact-whole", "A box given as exactly the level.", source(ODD), ([0, 0, 0], [23, 31, 27]))
    case(
        "box-past-the-edges",
        "A box past the level on all sides is clipped to it.",
        source(ODD),
        ([-5, -1, -9], [99, 99, 99]),
    )
    case(
        "box-aligned",
        "Chunk edges on all sides: every chunk passes through.",
        source(BIG),
        ([16, 16, 0], [32, 48, 32]),
    )
    case(
        "box-aligned-to-level-end",
        "From a chunk edge to the level's end.",
        source(BIG),
        ([16, 32, 16], [37, 50, 41]),
    )
    case(
        "box-aligned-cropped",
        "From a chunk edge, ending inside chunks: cropped and padded.",
        source(BIG),
        ([16, 16, 16], [35, 40, 39]),
    )
    case("box-inside-one-chunk", "A box within one served chunk.", source(BIG), ([3, 4, 5], [9, 11, 12]))
    case(
        "box-across-a-corner",
        "A small box across the corner of eight chunks.",
        source(BIG),
        ([14, 14, 14], [19, 20, 18]),
    )
    case("box-one-voxel", "One voxel, the last of the level.", source(BIG), ([36, 49, 40], [37, 50, 41]))
    case(
        "box-fractional",
        "Fractional voxels are rounded out.",
        source(BIG),
        ([2.5, 4.1, 0.9], [20.2, 33.01, 17.5]),
    )
    case("box-no-hi", "Only lo is given: to the level's end.", source(BIG), ([5, 16, 7], None))
    case("box-split-z", "Split along z alone.", source(BIG), ([5, 16, 0], [36, 48, 32]))
    case("box-split-yx", "Split along y and x.", source(BIG), ([16, 3, 9], [32, 45, 40]))
    case(
        "box-within-one-along-y",
        "Off the edges along y, but within one chunk there: not split.",
        source(BIG),
        ([3, 18, 6], [30, 30, 38]),
    )
    case(
        "box-wide-and-shallow",
        "2 x 10 x 10 chunks, split on all axes.",
        source(level((12, 45, 45), (4, 4, 4))),
        ([1, 2, 3], [9, 42, 43]),
    )
    anisotropic = level((23, 31, 27), (8, 10, 12), (50, 4.6, 4.6), (-25, -2.3, -2.3))
    both(
        "translation-real-numbers",
        "Voxel sizes are real numbers; the centre of voxel 0 moves by lo.",
        source(anisotropic),
        ([3, 7, 5], [21, 30, 25]),
    )
    case(
        "translation-at-the-origin",
        "Origin 4 with voxels of 8 nm: lo 1, 3, 2 is at 12, 28, 20.",
        source(ODD),
        ([1, 3, 2], [9, 13, 14]),
    )
    tiny = level((9, 9, 9), (4, 4, 4), (1e-7, 123456789.125, 0.1), (-1e-7, 1e10, 0.30000000000000004))
    case(
        "translation-extreme-numbers",
        "Numbers as ECMAScript prints them.",
        source(tiny),
        ([1, 1, 1], [8, 8, 8]),
    )
    two = (
        level((40, 44, 36), (16, 16, 16), (8, 8, 8), (-4, -4, -4)),
        level((20, 22, 18), (16, 16, 16), (16, 16, 16), (-4, -4, -4)),
    )
    both(
        "second-level",
        "Level 1 has its own scale and translation; the path stays 0.",
        source(*two),
        ([1, 0, 2], [19, 22, 18]),
        level=1,
    )
    sparse = {"inside": [{"lo": [0, 0, 0], "hi": [5, 6, 7]}, {"lo": [25, 30, 20], "hi": [30, 40, 41]}]}
    case("empty-skipped", "Chunks with zeros alone are left out.", source(BIG, **sparse), off)
    case("empty-kept", "Chunks with zeros alone are written.", source(BIG, **sparse), off, skip_empty=False)
    case("empty-skipped-level", "The same by the level's extent.", source(BIG, **sparse), off, extent="level")
    case(
        "empty-part-in-a-nonempty-chunk",
        "A served chunk with values brings only zeros into a box chunk.",
        source(BIG, inside=[{"lo": [0, 0, 0], "hi": [3, 50, 41]}]),
        off,
    )
    nothing = {"inside": [{"lo": [0, 0, 0], "hi": [1, 1, 1]}]}
    case("empty-everything", "A box of nothing but zeros: metadata alone.", source(BIG, **nothing), off)
    both(
        "channels-two-float32",
        "Two channels, whole and first.",
        source(BIG, dtype="float32", channels=(2,), subtract=100, divisor=8),
        off,
    )
    case(
        "channels-level-extent",
        "Channels by the level's extent.",
        source(ODD, channels=(3,)),
        ([9, 2, 2], [12, 28, 14]),
        extent="level",
    )
    case("channels-whole-level", "Channels and the whole level.", source(ODD, dtype="uint16", channels=(2,)))
    case(
        "channels-gzip",
        "Channels, packed.",
        source(ODD, dtype="int16", channels=(2,), subtract=120),
        ([1, 1, 1], [20, 20, 20]),
        format="zarr2",
        codec="gzip",
    )
    case(
        "several-boxes-one-store",
        "Several boxes written into one store of the level's shape.",
        source(BIG),
        ([0, 0, 0], [16, 16, 16]),
        ([20, 20, 20], [37, 50, 41]),
        extent="level",
    )
    for dtype, more in {
        "bool": {"modulus": 2},
        "int8": {"subtract": 120},
        "int16": {"subtract": 125, "scale": "257"},
        "uint16": {"scale": "260"},
        "int32": {"subtract": 125, "scale": "16777216"},
        "uint32": {"scale": "17100000"},
        "int64": {"subtract": 125, "scale": "72057594037927935"},
        "uint64": {"scale": "73000000000000001"},
        "float32": {"subtract": 77, "divisor": 16},
        "float64": {"subtract": 77, "scale": "3", "divisor": 1024},
    }.items():
        kind = "mask" if dtype == "bool" else "labels" if dtype in ("uint32", "uint64") else "image"
        word = "zarr2" if dtype in ("bool", "uint64", "int16") else "zarr3"
        case(
            f"dtype-{dtype}",
            f"{dtype}, exact.",
            source(ODD, dtype=dtype, kind=kind, **more),
            ([1, 2, 3], [20, 29, 26]),
            format=word,
        )
    case(
        "dtype-uint64-zarr3",
        "64-bit ids in zarr v3.",
        source(ODD, dtype="uint64", kind="labels", scale="73000000000000001"),
        ([1, 2, 3], [20, 29, 26]),
    )
    case(
        "dtype-bool-zarr3",
        "bool in zarr v3.",
        source(ODD, dtype="bool", kind="mask", modulus=2),
        ([1, 2, 3], [20, 29, 26]),
    )
    given = {"b": {"y": [1, 2.5, True, None], "x": {}}, "a": 'µm "quoted"\n', "10": 1, "9": []}
    both(
        "attributes",
        "A user's attributes follow, sorted.",
        source(ODD),
        ([1, 2, 3], [9, 9, 9]),
        attributes=given,
    )
    case(
        "chunk-larger-than-level",
        "A level smaller than its chunk.",
        source(level((5, 6, 7), (16, 16, 16))),
        ([1, 0, 2], [5, 6, 7]),
    )
    case("chunk-larger-than-level-whole", "The same, all of it.", source(level((5, 6, 7), (16, 16, 16))))
    case("error-outside", "A box that no voxel of the level is in.", source(BIG), ([40, 0, 0], [50, 10, 10]))
    case("error-empty", "A box without a voxel.", source(BIG), ([4, 4, 4], [4, 10, 10]))

    case(
        "ops-min-max-cast",
        "Scaled by a power of two and back: exact.",
        source(ODD),
        ([1, 2, 3], [20, 29, 26]),
        ops=[
            {"name": "MinMaxNormalizer", "min_value": 0, "max_value": 256, "invert": False},
            {"name": "cast", "dtype": "uint8"},
        ],
    )
    case(
        "ops-threshold",
        "Above 100 is 1.",
        source(ODD),
        ([1, 2, 3], [20, 29, 26]),
        ops=[{"name": "ThresholdPostprocessor", "threshold": 100}],
    )
    case(
        "ops-z-score-threshold",
        "Standardized, then cut at 0.25.",
        source(ODD),
        off_odd(),
        ops=[
            {"name": "ZScoreNormalizer", "mean": 64, "std": 32},
            {"name": "ThresholdPostprocessor", "threshold": 0.25},
        ],
    )
    case(
        "ops-default-postprocessor",
        "Signed output to uint8, the fraction dropped.",
        source(ODD, dtype="float32", subtract=125, divisor=128),
        off_odd(),
        ops=[{"name": "DefaultPostprocessor", "clip_min": -1, "clip_max": 1, "bias": 1, "multiplier": 127.5}],
    )
    case(
        "ops-channel-selection",
        "Channels 2 and 0 of three.",
        source(ODD, channels=(3,)),
        off_odd(),
        ops=[{"name": "ChannelSelection", "channels": "2,0"}],
    )
    case(
        "ops-cast-saturates",
        "float32 to int8: rounded half to even, saturated.",
        source(ODD, dtype="float32", subtract=125, scale="3", divisor=2),
        off_odd(),
        ops=[{"name": "cast", "dtype": "int8"}],
    )
    small = source(level((9, 10, 11), (4, 5, 6)), modulus=241)
    case(
        "ops-min-max-inverted",
        "Float output, compared decoded.",
        small,
        ([1, 1, 1], [8, 9, 10]),
        tolerance=1e-5,
        ops=[{"name": "MinMaxNormalizer", "min_value": 10, "max_value": 200, "invert": True}],
    )
    case(
        "ops-sigmoid",
        "A sigmoid of a standardized image, compared decoded.",
        small,
        ([1, 1, 1], [8, 9, 10]),
        tolerance=1e-5,
        ops=[{"name": "ZScoreNormalizer", "mean": 120.5, "std": 33.3}, {"name": "SigmoidPostprocessor"}],
    )


def off_odd() -> tuple[list[int], list[int]]:
    return [1, 2, 3], [20, 29, 26]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="Compare the files with what would be written.")
    check = parser.parse_args().check
    make_cases()
    FOLDER.mkdir(exist_ok=True)
    names = set()
    for each in CASES:
        each["expected"] = expected(each)
        path = FOLDER / f"{each['name']}.json"
        names.add(path.name)
        content = json.dumps(each, indent=1, ensure_ascii=False) + "\n"
        if check and (not path.is_file() or path.read_text() != content):
            raise SystemExit(f"{path.name}: not what this script makes; run it without --check")
        if not check:
            path.write_text(content)
    stray = sorted(p.name for p in FOLDER.glob("*.json") if p.name not in names)
    if stray:
        raise SystemExit(f"{FOLDER}: files that no case makes: {', '.join(stray)}")
    print(f"{len(names)} cases {'checked' if check else 'written'}")


if __name__ == "__main__":
    main()
