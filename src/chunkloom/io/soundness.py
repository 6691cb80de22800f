"""Whether the bytes of a stored chunk can be a whole chunk, without unpacking them.

Bytes that are sent on untouched are looked at by nobody else: a file that was cut, emptied or replaced must not be
taken for a chunk. Sizes are checked (RFC 8878 for zstd, RFC 1952 for gzip, the blosc header), not values.
"""

from __future__ import annotations

import math
import struct
from mmap import mmap

import numpy as np

from chunkloom.errors import ChunkReadError
from chunkloom.io.layout import StoredLayout


def check_whole(raw: bytes | mmap, layout: StoredLayout, where: str) -> None:
    """Raise `ChunkReadError` where `raw` cannot be a whole chunk of `layout`; `where` names it."""
    expected = math.prod(layout.chunk_shape) * np.dtype(layout.dtype).itemsize
    if layout.format == "n5":
        raw, expected = _n5_payload(raw, layout, where)
    codec = _codec(layout)
    if codec == "raw" and layout.format != "precomputed":
        _equal(len(raw), expected, where, "bytes")
    elif codec == "blosc":
        if len(raw) < 16:
            raise ChunkReadError(f"{where} is damaged: it holds {len(raw)} bytes, a blosc header has 16")
        unpacked, packed = struct.unpack_from("<I", raw, 4)[0], struct.unpack_from("<I", raw, 12)[0]
        _equal(unpacked, expected, where, "bytes unpacked")
        _equal(len(raw), packed, where, "bytes")
    elif codec == "gzip":
        if len(raw) < 18 or raw[:2] != b"\x1f\x8b":
            raise ChunkReadError(f"{where} is damaged: its {len(raw)} bytes are no gzip stream")
        _equal(struct.unpack("<I", raw[-4:])[0], expected % 2**32, where, "bytes unpacked")
    elif codec == "zstd":
        _check_zstd(raw, where)
    elif not raw:
        raise ChunkReadError(f"{where} is damaged: it is empty")


def _codec(layout: StoredLayout) -> str | None:
    if layout.format == "zarr2":
        compressor = layout.codec.get("compressor")
        return None if layout.codec.get("filters") else "raw" if compressor is None else str(compressor.get("id"))
    if layout.format == "zarr3":
        names = [str(codec.get("name")) for codec in layout.codec.get("codecs", ())]
        return "raw" if names == ["bytes"] else names[1] if len(names) == 2 and names[0] == "bytes" else None
    if layout.format == "n5":
        compression = layout.codec.get("compression", {})
        return None if compression.get("useZlib") else str(compression.get("type"))
    return None


def _n5_payload(raw: bytes | mmap, layout: StoredLayout, where: str) -> tuple[bytes, int]:
    """A block's packed values and their size unpacked, from its header."""
    ndim = len(layout.chunk_shape)
    if len(raw) < 4 + 4 * ndim or struct.unpack_from(">HH", raw) != (0, ndim):
        raise ChunkReadError(f"{where} is damaged: its {len(raw)} bytes have no header of an N5 block of {ndim} axes")
    held = struct.unpack_from(f">{ndim}I", raw, 4)
    return raw[4 + 4 * ndim :], math.prod(held) * np.dtype(layout.dtype).itemsize


def _check_zstd(raw: bytes | mmap, where: str) -> None:
    """Walk the blocks of the frames: the last must end where the bytes do."""
    at = 0
    while at < len(raw) or not at:
        at = _zstd_frame_end(raw, at, where)
    if at > len(raw):
        raise ChunkReadError(f"{where} is damaged: its zstd frame is cut after {len(raw)} of {at} bytes")


def _zstd_frame_end(raw: bytes | mmap, at: int, where: str) -> int:
    if len(raw) < at + 6 or raw[at : at + 4] != b"\x28\xb5\x2f\xfd":
        found = f"its {len(raw)} bytes are no zstd frame" if not at else f"its zstd frame ends after {at} of {len(raw)}"
        raise ChunkReadError(f"{where} is damaged: {found}")
    descriptor = raw[at + 4]
    single = descriptor >> 5 & 1
    size = (single, 2, 4, 8)[descriptor >> 6]
    at += 5 + (0 if single else 1) + (0, 1, 2, 4)[descriptor & 3] + size
    last = False
    while not last:
        if at + 3 > len(raw):
            raise ChunkReadError(f"{where} is damaged: its zstd frame is cut after {len(raw)} bytes")
        header = int.from_bytes(raw[at : at + 3], "little")
        last, kind = bool(header & 1), header >> 1 & 3
        at += 3 + (1 if kind == 1 else header >> 3)
    return at + 4 * (descriptor >> 2 & 1)


def _equal(found: int, expected: int, where: str, what: str) -> None:
    if found != expected:
        raise ChunkReadError(f"{where} is damaged: found {found} {what}, expected {expected}")
