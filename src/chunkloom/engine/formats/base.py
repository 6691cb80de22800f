"""What a served format must do: name the files of a volume, and encode its chunks.

A format is a pure translation: it takes a `Volume`'s levels and an array and gives bytes. It reads no data, keeps
nothing and knows no HTTP.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from chunkloom.engine.volume import Array, Level, Volume
from chunkloom.errors import FormatError, ParameterError, nearest
from chunkloom.geometry import Box

if TYPE_CHECKING:
    from chunkloom.io.layout import StoredLayout

Metadata = dict[str, bytes]
FORMATS = ("zarr2", "zarr3", "n5", "precomputed")
"""The format words, everywhere; of URLs also "zarr", which is zarr2."""
URL_WORDS = {"zarr": "zarr2", **{word: word for word in FORMATS}}
CODECS = ("none", "zstd", "blosc", "gzip")
DEFAULT_CODEC = "zstd"


def codec_names() -> tuple[str, ...]:
    """The codec words of every command and option."""
    return CODECS


@dataclass(frozen=True, slots=True)
class ChunkKey:
    """Which chunk a path names: level number (0 finest), chunk index z, y, x, and how many axes the path had."""

    level: int
    index: tuple[int, int, int]
    ndim: int


class Format(ABC):
    """One served format with one codec.

    Attributes
    ----------
    name
        The format word: "zarr2", "zarr3", …
    codec
        The codec word: "none", "zstd", "blosc" or "gzip".
    """

    name: ClassVar[str]

    def __init__(self, codec: str = "zstd") -> None:
        if codec not in CODECS:
            raise ParameterError(f"unknown codec {codec!r}: {nearest(codec, CODECS)}")
        self.codec = codec

    @abstractmethod
    def metadata(self, volume: Volume, name: str) -> Metadata:
        """Every metadata file of a volume called `name`: path below the volume's address, and its bytes."""

    @abstractmethod
    def parse_key(self, path: str, volume: Volume) -> ChunkKey | None:
        """The chunk of `volume` that `path` (below its address) names; None when it names none.

        The level or the index may lie past what there is.
        """

    @abstractmethod
    def passes(self, layout: StoredLayout, level: Level) -> bool:
        """Whether chunks stored like `layout` are, byte for byte, valid chunks of what `metadata` declares."""

    @abstractmethod
    def encode(self, block: Array, level: Level) -> bytes:
        """A chunk's bytes. `block` is the chunk cut where the level ends, channel axes whole and first."""


_PLAIN = re.compile(r"0|[1-9][0-9]{0,15}")
_LEVEL = re.compile(r"s(0|[1-9][0-9]{0,2})")


def parse_level(word: str) -> int | None:
    """The level number of "s0", "s1", …; None for anything else."""
    match = _LEVEL.fullmatch(word)
    return int(match[1]) if match else None


def parse_index(words: list[str]) -> tuple[int, int, int] | None:
    """A chunk index of canonical decimal numbers. Channel axes come first and hold one chunk each, number 0."""
    if len(words) < 3 or not all(_PLAIN.fullmatch(word) for word in words):
        return None
    numbers = [int(word) for word in words]
    if any(numbers[:-3]):
        return None
    z, y, x = numbers[-3:]
    return (z, y, x)


def needs_cast(volume: Volume, dtypes: Sequence[str], format_name: str) -> None:
    """Refuse a dtype that a format does not have, with the cast to add."""
    found = volume.levels[0].dtype
    if found.name in dtypes:
        return
    nearest_one = {"b": "uint8", "f": "float32", "i": "uint64" if found.itemsize == 8 else "int32"}.get(
        found.kind, "uint32"
    )
    raise FormatError(
        f"{format_name} has no {found.name} (it has {', '.join(dtypes)}): add a cast, --op cast:dtype={nearest_one}, "
        "or read it as zarr"
    )


def codec_of(layout: StoredLayout) -> str | None:
    """The codec word of stored chunks; None for one that has no word, or that comes with filters.

    Only the family counts: what blosc, zstd and gzip wrote says itself how it is unpacked.
    """
    if layout.format == "zarr2":
        if layout.codec.get("filters"):
            return None
        compressor = layout.codec.get("compressor")
        word = "none" if compressor is None else compressor.get("id")
    elif layout.format == "zarr3":
        codecs = list(layout.codec.get("codecs", ()))
        if not codecs or codecs[0].get("name") != "bytes" or len(codecs) > 2:
            return None
        word = codecs[1].get("name") if len(codecs) == 2 else "none"
    elif layout.format == "n5":
        compression = layout.codec.get("compression", {})
        word = "none" if compression.get("type") == "raw" else compression.get("type")
        if compression.get("useZlib"):
            return None
    else:
        word = "none" if layout.codec.get("encoding") == "raw" else None
    return word if word in CODECS else None


def same_layout(layout: StoredLayout, level: Level, edge: str) -> bool:
    """Whether stored chunks have the level's shape, dtype and order, and treat edges like `edge`."""
    return (
        layout.chunk_shape == level.chunk_shape
        and layout.order == "C"
        and np.dtype(layout.dtype).newbyteorder("=") == level.dtype
        and layout.edge == edge
    )


def padded(block: Array, level: Level) -> Array:
    """`block` at the level's full chunk shape, 0 past where the data ends. C order."""
    if block.shape == level.chunk_shape:
        return np.ascontiguousarray(block)
    out = np.zeros(level.chunk_shape, block.dtype)
    out[Box.of_shape(block.shape[-3:]).index()] = block
    return out


def canonical_json(data: Any) -> bytes:
    """`data` as strict JSON: members in the order given, 2 spaces, one item a line, a final newline.

    Numbers are printed as ECMAScript prints them, so that another implementation writes the same bytes. Raises
    `ParameterError` for what JSON cannot hold.
    """
    return (_text(data, "") + "\n").encode()


def _text(value: Any, indent: str) -> str:
    deeper = indent + "  "
    if isinstance(value, dict):
        inside = [f"{deeper}{_quoted(name)}: {_text(item, deeper)}" for name, item in value.items()]
        return "{\n" + ",\n".join(inside) + f"\n{indent}}}" if inside else "{}"
    if isinstance(value, list | tuple):
        inside = [deeper + _text(item, deeper) for item in value]
        return "[\n" + ",\n".join(inside) + f"\n{indent}]" if inside else "[]"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float):
        return number_text(value)
    if value is None or isinstance(value, bool | int):
        return json.dumps(value)
    raise ParameterError(f"{value!r} ({type(value).__name__}) is nothing that JSON can hold")


def _quoted(text: Any) -> str:
    if not isinstance(text, str):
        raise ParameterError(f"{text!r} is the name of a member: JSON has text there")
    quoted = json.dumps(text, ensure_ascii=False)
    # Half a surrogate pair is no character: it is escaped, as JSON.stringify does.
    return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", quoted)


def number_text(value: float) -> str:
    """A number as ECMAScript prints it (ECMA-262, Number::toString): `8`, `0.1`, `1e-7`, `1e+21`, `5e-324`."""
    if not math.isfinite(value):
        raise ParameterError(f"{value} is a number that JSON cannot hold: write it as text")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(float(value))).partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    more = f".{digits[1:]}" if count > 1 else ""
    return f"{sign}{digits[0]}{more}e{'+' if point > 0 else '-'}{abs(point - 1)}"


def ome_multiscales(volume: Volume, name: str, paths: list[str], version: str) -> list[dict[str, Any]]:
    """The OME-NGFF `multiscales` of a volume, with nm and the centre of voxel 0 as translation."""
    from chunkloom.io.ome import ome_translation

    finest = volume.levels[0]
    extra = len(finest.channels)
    axes: list[dict[str, Any]] = [{"name": axis, "type": "channel"} for axis in finest.axes[:-3]]
    axes += [{"name": axis, "type": "space", "unit": "nanometer"} for axis in finest.axes[-3:]]
    datasets = []
    for path, level in zip(paths, volume.levels, strict=True):
        scale = [1.0] * extra + list(level.grid.voxel_size_nm)
        centre = ome_translation(level.grid.corner_nm, level.grid.voxel_size_nm)
        datasets.append(
            {
                "path": path,
                "coordinateTransformations": [
                    {"type": "scale", "scale": scale},
                    {"type": "translation", "translation": [0.0] * extra + list(centre)},
                ],
            }
        )
    head = {"version": version} if version == "0.4" else {}
    policy = getattr(volume, "coarse", None)
    note = {"metadata": {"coarse_levels": policy}} if policy else {}
    return [{**head, "name": name, "axes": axes, "datasets": datasets, **note}]


def compress(codec: str, data: bytes | memoryview, itemsize: int, gzip_level: int = 1) -> bytes:
    """`data` through the codec, at the fixed settings the metadata states."""
    if codec == "none":
        return bytes(data)
    import numcodecs

    if codec == "zstd":
        from numcodecs import zstd

        return bytes(zstd.compress(data, 1))
    if codec == "gzip":
        import zlib

        # A gzip member with no time and no name: the same bytes every time.
        made = zlib.compressobj(gzip_level, zlib.DEFLATED, 31)
        return made.compress(data) + made.flush()
    return bytes(numcodecs.Blosc("zstd", clevel=1, shuffle=1).encode(np.frombuffer(data, f"V{itemsize}")))


def served_format(word: str, codec: str = "zstd") -> Format:
    """The format for its word ("zarr" is zarr2), with a codec."""
    from chunkloom.engine.formats.n5 import N5
    from chunkloom.engine.formats.precomputed import Precomputed
    from chunkloom.engine.formats.zarr2 import Zarr2
    from chunkloom.engine.formats.zarr3 import Zarr3

    if word not in URL_WORDS:
        raise ParameterError(f"unknown format {word!r}: {nearest(word, list(URL_WORDS))}")
    formats: tuple[type[Format], ...] = (Zarr2, Zarr3, N5, Precomputed)
    (found,) = (each for each in formats if each.name == URL_WORDS[word])
    return found(codec)
