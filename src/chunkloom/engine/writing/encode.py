"""From a piece's voxels to the bytes of its file: one `encode`, made for an array."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np

from chunkloom.engine.formats.base import compress, served_format
from chunkloom.engine.formats.zarr2 import little_endian
from chunkloom.engine.volume import Array, Level
from chunkloom.engine.writing.documents import GZIP_LEVEL, StoreDescription
from chunkloom.geometry import Box

Encode = Callable[[Array, Sequence[int]], tuple[bytes, int]]
IsFill = Callable[[Array], bool]
_MISSING = 2**64 - 1


def encoder(store: StoreDescription, number: int, is_fill: IsFill, skip_empty: bool) -> Encode:
    """What makes the file of a piece of array `number`.

    It takes the piece's voxels (whole, or cut where the array or the level ends; channel axes first) and its index, and
    gives the bytes and how many chunks they hold (1 but for shards).
    zarr: full size, the fill value past the end. N5 and precomputed: cut where the array ends. Shards leave out inner
    chunks of nothing but the fill value, with `skip_empty`, and those wholly past the end.
    """
    level = store.arrays[number]
    shard = store.shards[number] if store.shards else None
    if shard is not None:
        return _shard_encoder(store, level, shard, is_fill, skip_empty)
    if store.format in ("zarr2", "zarr3"):
        return lambda voxels, index: (_chunk_bytes(store, level, voxels), 1)
    served = served_format(store.format, store.codec)

    def cropped(voxels: Array, index: Sequence[int]) -> tuple[bytes, int]:
        box = Box.of_chunk(index, level.spatial_chunk).intersect(level.box)
        return served.encode(voxels[Box.of_shape(box.shape).index()], level), 1

    return cropped


def _chunk_bytes(store: StoreDescription, level: Level, voxels: Array) -> bytes:
    whole = filled(voxels, level.chunk_shape, store.fill)
    return compress(store.codec, little_endian(whole), level.dtype.itemsize, GZIP_LEVEL)


def filled(voxels: Array, shape: tuple[int, ...], fill: object) -> Array:
    """`voxels` at `shape`, `fill` past their end."""
    if voxels.shape == shape:
        return voxels
    out = np.full(shape, fill, voxels.dtype)
    out[Box.of_shape(voxels.shape).slices()] = voxels
    return out


def _shard_encoder(
    store: StoreDescription, level: Level, shard: Sequence[int], is_fill: IsFill, skip_empty: bool
) -> Encode:
    chunk = level.spatial_chunk
    counts = tuple(s // c for s, c in zip(shard, chunk, strict=True))

    def encode(voxels: Array, index: Sequence[int]) -> tuple[bytes, int]:
        """Inner chunks in C order, then an index of (offset, size) for each, little-endian, and its crc32c."""
        inside = Box.of_chunk(index, shard).intersect(level.box)
        have = Box.of_shape(inside.shape)
        parts, places, at = [], [], 0
        for position in Box.of_shape(counts).indices():
            box = Box.of_chunk(position, chunk)
            there = box.intersect(have)
            inner = voxels[there.index()] if not there.is_empty else None
            if inner is None or (skip_empty and is_fill(inner)):
                places += [_MISSING, _MISSING]
                continue
            made = _chunk_bytes(store, level, np.ascontiguousarray(inner))
            parts.append(made)
            places += [at, len(made)]
            at += len(made)
        table = struct.pack(f"<{len(places)}Q", *places)
        return b"".join((*parts, table, crc32c(table))), len(parts)

    return encode


def crc32c(data: bytes) -> bytes:
    """The CRC-32C of `data`, little-endian."""
    import numcodecs.checksum32

    return bytes(numcodecs.checksum32.CRC32C(location="end").encode(data))[-4:]
