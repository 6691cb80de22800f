"""The journal's records: everything that can be written to a network file, as data.

A record is a frozen dataclass; its arrays travel as raw bytes, all else as a JSON head. Records say what was meant
("these cells get these labels"), never where HDF5 keeps it, and hold only what was checked before. This module knows
no file.
"""

from __future__ import annotations

import dataclasses
import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkloom.network.chunks import Size

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Rows:
    """Rows appended to one chunk: `count` cells after the `before` that are there.

    `arrays` maps a dataset's name inside the chunk's group ("position", "additional/weight") to `count` rows;
    `names` is what the values of "morphology" index. Without arrays the chunk holds entities: cells that are only
    counted.
    """

    path: str
    chunk: int
    size: Size | None
    before: int
    count: int
    names: tuple[str, ...] = ()
    arrays: dict[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Overwrite:
    """One dataset of one chunk replaced by these rows."""

    path: str
    chunk: int
    dataset: str
    arrays: dict[str, Array]


@dataclass(frozen=True)
class Labels:
    """Labels given to (or taken from) cells: for `chunks[i]`, the next `counts[i]` of `ranks` in that chunk."""

    path: str
    labels: tuple[str, ...]
    remove: bool
    arrays: dict[str, Array]


@dataclass(frozen=True)
class Clear:
    """All rows of a set, or of some of its chunks, removed."""

    path: str
    chunks: tuple[int, ...] | None


@dataclass(frozen=True)
class Group:
    """A set made, with these attributes, if it is not there."""

    path: str
    attributes: dict[str, str]


@dataclass(frozen=True)
class Delete:
    """A set, stored file or morphology removed with all it holds."""

    path: str


@dataclass(frozen=True)
class Connect:
    """Connections of a set, sorted by (post, pre) chunk: `pre[i]`, `post[i]` own the next `counts[i]` rows of `src`,
    `dst`. `size` is that of the chunks, where the writer told it."""

    tag: str
    arrays: dict[str, Array]
    size: Size | None = None


@dataclass(frozen=True)
class Disconnect:
    """All `counts[i]` connections from chunk `pre[i]` to chunk `post[i]` of a set removed."""

    tag: str
    arrays: dict[str, Array]


@dataclass(frozen=True)
class Forget:
    """Everything under a root group ("placement", "connectivity") removed, with what it is counted in."""

    root: str


@dataclass(frozen=True)
class Blob:
    """A stored file; `removes` are files that go as it comes."""

    id: str
    encoding: str | None
    meta: str
    mtime: int
    removes: tuple[str, ...]
    arrays: dict[str, Array]


@dataclass(frozen=True)
class Morphology:
    """A stored morphology: `data` (points, 5 + P), `graph` (branches, 2)."""

    name: str
    labels: str
    properties: tuple[str, ...]
    meta: str
    arrays: dict[str, Array]


@dataclass(frozen=True)
class MorphologyMeta:
    """Metadata of all morphologies, replaced."""

    meta: str


@dataclass(frozen=True)
class Touch:
    """Nothing but the next state of the file."""


Record = (
    Rows
    | Overwrite
    | Labels
    | Clear
    | Group
    | Delete
    | Connect
    | Disconnect
    | Forget
    | Blob
    | Morphology
    | MorphologyMeta
    | Touch
)
_KINDS: dict[str, type[Record]] = {
    t.__name__: t
    for t in (
        Rows, Overwrite, Labels, Clear, Group, Delete, Connect, Disconnect, Forget, Blob, Morphology,
        MorphologyMeta, Touch,
    )
}  # fmt: skip
_FIELDS = {t: [f.name for f in dataclasses.fields(t) if f.name != "arrays"] for t in _KINDS.values()}
_HEAD = struct.Struct("<QIII")  # bytes after this head, their crc32, bytes of JSON, crc32 of the 16 bytes before


def encode(record: Record) -> tuple[list[bytes | memoryview], int]:
    """A record as buffers to write one after the other, and their total length in bytes."""
    arrays: dict[str, Array] = getattr(record, "arrays", {})
    whole = {n: np.ascontiguousarray(a) for n, a in arrays.items()}
    fields = [getattr(record, n) for n in _FIELDS[type(record)]]
    shapes = [[n, a.dtype.str, a.shape] for n, a in whole.items()]
    text = json.dumps([type(record).__name__, fields, shapes], separators=(",", ":")).encode()
    buffers: list[bytes | memoryview] = [text]
    buffers.extend(a.reshape(-1).view(np.uint8).data for a in whole.values() if a.size)
    size = crc = 0
    for b in buffers:
        crc = zlib.crc32(b, crc)
        size += len(b)
    start = struct.pack("<QII", size, crc, len(text))
    return [start + struct.pack("<I", zlib.crc32(start)), *buffers], _HEAD.size + size


def decode(data: memoryview) -> Iterator[tuple[Record, int]]:
    """Each whole record of `data` and where it ends; ends at the first that is cut short or damaged."""
    at = 0
    while at + _HEAD.size <= len(data):
        size, crc, text, check = _HEAD.unpack_from(data, at)
        if zlib.crc32(data[at : at + 16]) != check or at + _HEAD.size + size > len(data):
            return
        body = data[at + _HEAD.size : at + _HEAD.size + size]
        if zlib.crc32(body) != crc:
            return
        at += _HEAD.size + size
        yield _parse(body, text), at


def size_of(data: memoryview) -> int:
    """Bytes of the record that begins `data`, as its head tells; 0 if the head is damaged or cut short."""
    if len(data) < _HEAD.size:
        return 0
    size, _, _, check = _HEAD.unpack_from(data)
    return _HEAD.size + int(size) if zlib.crc32(data[:16]) == check else 0


def _parse(body: memoryview, text: int) -> Record:
    kind, fields, shapes = json.loads(bytes(body[:text]))
    cls = _KINDS[kind]
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in zip(_FIELDS[cls], fields, strict=True)
    }
    if shapes or "arrays" in {f.name for f in dataclasses.fields(cls)}:
        arrays, at = {}, text
        for name, dtype, shape in shapes:
            kind_of = np.dtype(dtype)
            count = int(np.prod(shape, dtype=np.int64))
            arrays[name] = np.frombuffer(body, kind_of, count, at).reshape(shape)
            at += count * kind_of.itemsize
        values["arrays"] = arrays
    return cls(**values)
