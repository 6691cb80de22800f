"""Decoding one chunk with numcodecs: zarr v2 compressors and filters, zarr v3 pipelines, N5 blocks.

This is for what tensorstore refuses although it is valid: v2 filters, rarer compressors, `numcodecs.*` codecs. Only
codecs that turn bytes into numbers are taken; `pickle` and its like would run what a file says.

A chunk's declared size is looked at before it is decoded, so that a small file cannot ask for much memory.
"""

from __future__ import annotations

import bz2
import lzma
import math
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from chunkloom.errors import ChunkReadError, FormatError
from chunkloom.io.layout import ArrayLayout
from chunkloom.io.zarr3 import Codec

_TAKEN = (
    *("blosc", "zlib", "gzip", "bz2", "zstd", "lz4", "lzma", "shuffle", "crc32", "crc32c", "adler32", "fletcher32"),
    *("jenkins_lookup3", "delta", "fixedscaleoffset", "packbits", "quantize", "astype", "bitround", "pcodec", "zfpy"),
)
# Codecs whose parameters are a writer's choices alone, some of them unknown to older versions of numcodecs.
_SELF_DESCRIBING = ("blosc", "zlib", "gzip", "bz2", "zstd", "lz4")
# Encoded forms (filters that widen, headers, worst-case growth) may be somewhat larger than the decoded chunk.
_SLACK = 65536


def limit(layout: ArrayLayout) -> int:
    """The most bytes that any step of decoding one chunk of `layout` may give."""
    return 8 * math.prod(layout.chunk_shape) * layout.dtype.itemsize + _SLACK


def make_codec(configuration: Mapping[str, Any], where: str) -> Any:
    """The numcodecs codec of a zarr v2 configuration.

    Raises
    ------
    FormatError
        For a codec that is not known or not taken, or parameters that do not fit it.
    """
    name = str(configuration.get("id"))
    if name not in _TAKEN:
        raise FormatError(f"{where} uses the codec {name!r}: expected one of {', '.join(_TAKEN)}")
    import numcodecs.registry

    registry: Any = numcodecs.registry
    known = {"id": name} if name in _SELF_DESCRIBING else dict(configuration)
    try:
        return registry.get_codec(known)
    except Exception as error:  # whatever a codec's constructor makes of a file's parameters
        raise FormatError(f"{where}: codec {name!r} cannot be made with {dict(configuration)}: {error}") from error


def decode_bytes(codec: Any, raw: bytes | NDArray[Any], most: int, where: str) -> Any:
    """One decoding step, refused when it would give more than `most` bytes."""
    name = codec.codec_id
    try:
        if name in _BOUNDED:
            return _BOUNDED[name](raw if isinstance(raw, bytes) else np.ascontiguousarray(raw).tobytes(), most)
        declared = _declared(name, raw)
        if declared is not None and declared > most:
            raise ValueError(f"it declares {declared} bytes, expected at most {most}")
        return codec.decode(raw)
    except ChunkReadError:
        raise
    except Exception as error:  # each codec has errors of its own
        raise ChunkReadError(f"{where} cannot be decoded with {name}: {error}") from error


def _bounded(decompressor: Any, data: bytes, most: int) -> bytes:
    out: bytes = decompressor.decompress(data, most + 1)
    if len(out) > most:
        raise ValueError(f"it decodes to more than {most} bytes")
    if not decompressor.eof:
        raise ValueError("it ends too early")
    return out


def gunzip(data: bytes, most: int) -> bytes:
    """All members of a gzip file: some writers append."""
    parts, total = [], 0
    while data:
        decompressor = zlib.decompressobj(wbits=31)
        parts.append(_bounded(decompressor, data, most - total))
        total += len(parts[-1])
        data = decompressor.unused_data.lstrip(b"\0")
    return b"".join(parts)


_BOUNDED: dict[str, Callable[[bytes, int], bytes]] = {
    "zlib": lambda data, most: _bounded(zlib.decompressobj(), data, most),
    "gzip": gunzip,
    "bz2": lambda data, most: _bounded(bz2.BZ2Decompressor(), data, most),
    "xz": lambda data, most: _bounded(lzma.LZMADecompressor(), data, most),
}


def _declared(name: str, raw: Any) -> int | None:
    """The decoded size that a chunk's own header declares; None where it has none."""
    head = bytes(memoryview(raw)[:18]) if isinstance(raw, bytes) else b""
    if name == "blosc" and len(head) >= 8:
        return int(struct.unpack_from("<I", head, 4)[0])
    if name == "lz4" and len(head) >= 4:
        return int(struct.unpack_from("<I", head, 0)[0])
    if name == "zstd" and len(head) >= 6 and head[:4] == b"\x28\xb5\x2f\xfd":
        return _zstd_declared(head)
    return None


def _zstd_declared(head: bytes) -> int | None:
    """Frame_Content_Size of a zstd frame (RFC 8878, 3.1.1.1)."""
    descriptor = head[4]
    size_flag, single, dictionary = descriptor >> 6, descriptor >> 5 & 1, descriptor & 3
    at = 5 + (0 if single else 1) + (0, 1, 2, 4)[dictionary]
    width = (1 if single else 0, 2, 4, 8)[size_flag]
    if width == 0 or len(head) < at + width:
        return None
    value = int.from_bytes(head[at : at + width], "little")
    return value + 256 if width == 2 else value


def as_voxels(data: Any, dtype: np.dtype[Any], shape: tuple[int, ...], order: str, where: str) -> NDArray[Any]:
    """Decoded bytes (or an array of them) as a chunk.

    Raises
    ------
    ChunkReadError
        When there are not as many bytes as the chunk has.
    """
    array = np.frombuffer(data, np.uint8) if not isinstance(data, np.ndarray) else data
    if array.dtype == object:
        raise ChunkReadError(f"{where} decodes to objects: expected numbers")
    expected = math.prod(shape) * dtype.itemsize
    if array.nbytes != expected:
        raise ChunkReadError(f"{where} decodes to {array.nbytes} bytes: expected {expected}, a whole chunk")
    flat = array.reshape(-1, order="A")
    voxels: NDArray[Any] = flat.view(dtype).reshape(shape, order="F" if order == "F" else "C")
    return voxels


class Zarr2Decoder:
    """Decodes chunks of a zarr v2 array: the compressor, then filters in reverse order (zarr v2 specification)."""

    def __init__(self, layout: ArrayLayout, where: str) -> None:
        self._layout = layout
        compressor = layout.details.compressor
        self._steps = [make_codec(compressor, f"{where}: compressor")] if compressor is not None else []
        self._steps += [make_codec(entry, f"{where}: filters") for entry in reversed(layout.details.filters)]

    def decode(self, raw: bytes, where: str) -> NDArray[Any]:
        """The chunk of the layout's `chunk_shape` in `raw`."""
        data: Any = raw
        most = limit(self._layout)
        for step in self._steps:
            data = decode_bytes(step, data, most, where)
        return as_voxels(data, self._layout.stored_dtype, self._layout.chunk_shape, self._layout.details.order, where)


class Zarr3Decoder:
    """Decodes chunks of a zarr v3 array: its codecs in reverse order; shards whole."""

    def __init__(self, layout: ArrayLayout, where: str) -> None:
        self._dtype = layout.dtype
        self._most = limit(layout)
        self._where = where
        self._fill = layout.fill
        self._codecs = layout.details.codecs
        self._outer = layout.details.outer_shape
        # By identity: two equal codecs in one pipeline may stand for different number types.
        self._made: dict[int, Any] = {}
        self._make(self._codecs)

    def decode(self, raw: bytes, where: str) -> NDArray[Any]:
        """The chunk (or whole shard) of the outer chunk shape in `raw`."""
        return self._decode(self._codecs, raw, self._outer, self._dtype, self._most, where)

    def _make(self, codecs: tuple[Codec, ...]) -> None:
        for codec in codecs:
            if codec.name.startswith("numcodecs.") or codec.name in ("blosc", "gzip", "zstd"):
                name = codec.name.removeprefix("numcodecs.")
                configuration = (
                    {"id": name, **codec.configuration} if codec.name.startswith("numcodecs.") else {"id": name}
                )
                self._made[id(codec)] = make_codec(configuration, self._where)
            self._make((*codec.inner, *codec.index))

    def _decode(
        self, codecs: tuple[Codec, ...], raw: Any, shape: tuple[int, ...], dtype: np.dtype[Any], most: int, where: str
    ) -> NDArray[Any]:
        # Which shape each transpose sees, and the number type that the `bytes` codec wrote.
        shapes, stored = [], dtype
        for codec in codecs:
            shapes.append(shape)
            if codec.name == "transpose":
                shape = tuple(shape[axis] for axis in codec.configuration["order"])
            stored = _encoded_type(codec, stored, self._where)
        data: Any = raw
        for codec, before in zip(reversed(codecs), reversed(shapes), strict=True):
            made = self._made.get(id(codec))
            if made is not None:
                data = decode_bytes(made, data, most, where)
            elif codec.name == "bytes":
                order: Literal["<", ">"] = ">" if codec.configuration.get("endian") == "big" else "<"
                data = _from_bytes(data, stored.newbyteorder(order), where)
            elif codec.name == "crc32c":
                data = _checked_crc32c(data, where)
            elif codec.name == "transpose":
                axes = codec.configuration["order"]
                shaped = np.asarray(data).reshape([before[axis] for axis in axes])
                data = np.ascontiguousarray(shaped.transpose(np.argsort(axes)))
            elif codec.name == "sharding_indexed":
                data = self._unshard(codec, data, before, dtype, most, where)
        array = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
        if array.size == math.prod(shapes[0]) and array.dtype.newbyteorder("=") == dtype:
            return array.reshape(shapes[0])
        return as_voxels(array, dtype, shapes[0], "C", where)

    def _unshard(
        self, codec: Codec, raw: Any, shape: tuple[int, ...], dtype: np.dtype[Any], most: int, where: str
    ) -> NDArray[Any]:
        """A whole shard: an index of (offset, size) per inner chunk, all ones for one that is not there."""
        raw = bytes(raw)
        counts = tuple(a // b for a, b in zip(shape, codec.chunk_shape, strict=True))
        index_bytes = 16 * math.prod(counts) + sum(4 for inner in codec.index if inner.name == "crc32c")
        end = codec.configuration["index_location"] == "end"
        stored = raw[-index_bytes:] if end else raw[:index_bytes]
        index = self._decode(codec.index, stored, (*counts, 2), np.dtype("u8"), 64 * index_bytes + _SLACK, where)
        out = np.full(shape, self._fill, dtype)
        for position in np.ndindex(*counts):
            offset, size = (int(n) for n in index[position])
            if offset == size == 2**64 - 1:
                continue
            if offset + size > len(raw):
                raise ChunkReadError(f"{where}: the index of the shard points past its end ({offset} + {size})")
            piece = self._decode(codec.inner, raw[offset : offset + size], codec.chunk_shape, dtype, most, where)
            at = tuple(slice(i * n, (i + 1) * n) for i, n in zip(position, codec.chunk_shape, strict=True))
            out[at] = piece
        return out


def _encoded_type(codec: Codec, dtype: np.dtype[Any], where: str) -> np.dtype[Any]:
    """The number type after an array-to-array codec."""
    from chunkloom.io import parse

    member = {
        "numcodecs.delta": "astype",
        "numcodecs.fixedscaleoffset": "astype",
        "numcodecs.quantize": "astype",
        "numcodecs.astype": "encode_dtype",
    }.get(codec.name)
    if codec.name == "numcodecs.packbits":
        return np.dtype("u1")
    if member is None:
        return dtype
    name = codec.configuration.get(member) or codec.configuration.get("dtype")
    return dtype if name is None else parse.number_type(str(name), f"{where}: {codec.name}")


def _from_bytes(data: Any, dtype: np.dtype[Any], where: str) -> NDArray[Any]:
    flat = (
        np.asarray(data).reshape(-1).view(np.uint8) if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    )
    if flat.size % dtype.itemsize:
        raise ChunkReadError(f"{where} decodes to {flat.size} bytes: not a whole number of {dtype.name}")
    return flat.view(dtype).astype(dtype.newbyteorder("="), copy=False)


def _checked_crc32c(data: Any, where: str) -> bytes:
    import numcodecs.checksum32

    raw = bytes(data)
    if len(raw) < 4:
        raise ChunkReadError(f"{where} has no checksum at its end")
    try:
        checksum: Any = numcodecs.checksum32
        return bytes(checksum.CRC32C(location="end").decode(raw))
    except Exception as error:
        raise ChunkReadError(f"{where} is damaged: {error}") from error


class N5Decoder:
    """Decodes N5 blocks: default and varlength mode, cropped or padded, and Java's lz4."""

    def __init__(self, layout: ArrayLayout, where: str) -> None:
        self._layout = layout
        self._kind = layout.details.compression["type"]
        names = {"bzip2": "bz2", "gzip": "gzip", "xz": "xz", "blosc": "blosc", "zstd": "zstd"}
        name = names.get(self._kind)
        if self._kind == "gzip" and layout.details.compression.get("useZlib") is True:
            name = "zlib"
        self._name = name
        self._codec = make_codec({"id": name}, where) if name in ("blosc", "zstd") else None

    def decode(self, raw: bytes, where: str) -> NDArray[Any]:
        """The block in `raw`, with the size that its header says (z, y, x), which may be smaller than a full one."""
        ndim = self._layout.ndim
        if len(raw) < 4:
            raise ChunkReadError(f"{where} holds {len(raw)} bytes: expected an N5 block with its header")
        mode, rank = struct.unpack_from(">HH", raw)
        if mode not in (0, 1) or rank != ndim or len(raw) < 4 + 4 * rank + 4 * mode:
            raise ChunkReadError(f"{where}: header of mode {mode} and {rank} dimensions: expected 0 or 1 and {ndim}")
        size = struct.unpack_from(f">{rank}I", raw, 4)
        shape = tuple(reversed(size))
        if any(n > chunk for n, chunk in zip(shape, self._layout.chunk_shape, strict=True)):
            raise ChunkReadError(f"{where}: a block of {size} is larger than the declared blockSize")
        at = 4 + 4 * rank
        if mode == 1:
            (count,) = struct.unpack_from(">I", raw, at)
            at += 4
            if count != math.prod(shape):
                raise ChunkReadError(f"{where} holds {count} elements: expected {math.prod(shape)}, one per voxel")
        data = self._decompress(raw[at:], where)
        expected = math.prod(shape) * self._layout.dtype.itemsize
        if len(data) < expected:
            raise ChunkReadError(f"{where} decodes to {len(data)} bytes: expected {expected}")
        # Blocks written in full where the header says less end with what must not show.
        return as_voxels(bytes(data[:expected]), self._layout.stored_dtype, shape, "C", where)

    def _decompress(self, data: bytes, where: str) -> Any:
        most = limit(self._layout)
        if self._kind == "raw":
            return data
        if self._kind == "lz4":
            return _java_lz4(data, most, where)
        if self._codec is not None:
            return decode_bytes(self._codec, data, most, where)
        try:
            return _BOUNDED[str(self._name)](data, most)
        except Exception as error:
            raise ChunkReadError(f"{where} cannot be decoded with {self._kind}: {error}") from error


def _java_lz4(data: bytes, most: int, where: str) -> bytes:
    """What Java's LZ4BlockOutputStream writes: blocks behind a 21-byte header, the last one empty."""
    from numcodecs.lz4 import decompress

    parts: list[bytes] = []
    at, total = 0, 0
    while at + 21 <= len(data):
        if data[at : at + 8] != b"LZ4Block":
            raise ChunkReadError(f"{where} is not an lz4 block stream")
        method, size, full = data[at + 8] & 0xF0, *struct.unpack_from("<II", data, at + 9)
        body = data[at + 21 : at + 21 + size]
        at += 21 + size
        total += full
        if full == 0:
            break
        if total > most or len(body) != size or (method == 0x10 and size != full):
            raise ChunkReadError(f"{where} is damaged: an lz4 block of {size} bytes declares {full}")
        try:
            parts.append(body if method == 0x10 else bytes(decompress(struct.pack("<I", full) + body)))
        except Exception as error:
            raise ChunkReadError(f"{where} cannot be decoded with lz4: {error}") from error
    return b"".join(parts)
