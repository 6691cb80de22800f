"""Stored volumes opened for reading: `open_levels`, `StoredArray`, `read_padded`.

A stored array is read in one order whatever its file's: channel axes first and whole, then z, y, x.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from chunkloom.errors import ParameterError
from chunkloom.geometry import Box
from chunkloom.io import discover
from chunkloom.io.discover import Level
from chunkloom.io.layout import METADATA_KEYS, ArrayLayout, StoredLayout
from chunkloom.io.metadata import ArrayMeta
from chunkloom.io.paths import parse_path
from chunkloom.io.placement import SPACE
from chunkloom.io.soundness import check_whole
from chunkloom.io.store import Store, digest

if TYPE_CHECKING:
    from chunkloom.io.chunkwise import ChunkwiseReader


class Reader(Protocol):
    """Reads boxes of one array in its stored axis order. Thread-safe."""

    def read_into(self, box: Box, out: NDArray[Any]) -> None:
        """Fill `out`, of the box's shape, with the voxels of `box`, which lies inside the array."""


@dataclass(frozen=True)
class OpenedPyramid:
    """An opened volume: levels, finest first."""

    format: str
    levels: tuple[StoredArray, ...]
    warnings: tuple[str, ...] = ()


class StoredArray:
    """One stored array, open for reading. Safe to use from many threads.

    Attributes
    ----------
    meta : after selection: channel axes first, then z, y, x.
    stored_layout : how single chunks are encoded; None where a chunk of `meta` is not one stored piece (sharded
        arrays, HDF5, TIFF, axes in another order, an axis selected from chunks that hold more of it).
    """

    def __init__(self, level: Level, select: Mapping[str, int]) -> None:
        picked = _picked(level.meta, select)
        stored = level.meta.axes
        kept = [axis for axis in stored if axis not in picked and axis not in SPACE] + list(SPACE)
        # How the kept axes, in stored order, become channels first and z, y, x.
        in_stored_order = [axis for axis in stored if axis not in picked]
        self._permutation = [in_stored_order.index(axis) for axis in kept]
        self._picked = [picked.get(axis) for axis in stored]
        self._level = level
        self._base = level.store.location.base.rstrip("/")
        self.meta: ArrayMeta = replace(
            level.meta,
            axes=tuple(kept),
            shape=tuple(level.meta.shape[stored.index(axis)] for axis in kept),
            chunk_shape=tuple(level.meta.chunk_shape[stored.index(axis)] for axis in kept),
        )
        self.stored_layout: StoredLayout | None = self._passable(level.layout.stored)
        # Local chunks that are wanted whole are decoded where they are asked for: no other thread, no copy.
        plain = self.stored_layout is not None and not picked and level.store.location.is_local
        self._by_chunk = plain and level.layout.format != "precomputed"
        self._whole_chunks: ChunkwiseReader | None = None
        # Where that serves, the other reader is made when it is needed: it imports tensorstore, which takes as long as
        # copying a volume. Elsewhere it is made now, and says now what it cannot read.
        lazily = self._by_chunk and level.layout.reader == "tensorstore"
        self._opened: Reader | None = None if lazily else open_reader(level.store, level.layout)

    def read(self, box: Box) -> NDArray[Any]:
        """The voxels of `box` (z, y, x; inside the array): channels first, C order, native byte order.

        Raises
        ------
        ParameterError
            When the box is not inside the array.
        ChunkReadError, AccessError
            When a chunk that should be there cannot be read.
        """
        index = self._chunk_that_is(box) if self._by_chunk else None
        if index is not None:
            if self._whole_chunks is None:
                from chunkloom.io.chunkwise import ChunkwiseReader

                self._whole_chunks = ChunkwiseReader(self._level.store, self._level.layout)
            return self._whole_chunks.chunk(index)
        out = np.empty((*self.meta.shape[:-3], *box.shape), self.meta.dtype)
        self.read_into(box, out)
        return out

    def _reader(self) -> Reader:
        if self._opened is None:
            self._opened = open_reader(self._level.store, self._level.layout)
        return self._opened

    def _chunk_that_is(self, box: Box) -> tuple[int, ...] | None:
        """The index of the chunk that `box` is, cut where the array ends; None when it is not one whole chunk."""
        shape, chunk = self.meta.shape, self.meta.chunk_shape
        if chunk[:-3] != shape[:-3] or box.ndim != 3 or box.is_empty:
            return None
        index = tuple(b // c for b, c in zip(box.lo, chunk[-3:], strict=True))
        whole = Box.of_chunk(index, chunk[-3:]).intersect(Box.of_shape(shape[-3:]))
        return (*(0,) * (len(shape) - 3), *index) if whole == box else None

    def read_into(self, box: Box, out: NDArray[Any]) -> None:
        """`read` into `out`, an array (or a view of one) of the shape that `read` gives."""
        if box.ndim != 3 or not Box.of_shape(self.meta.shape[-3:]).contains(box):
            raise ParameterError(
                f"{self.meta.path}: the box {box} is not inside the array of {self.meta.shape[-3:]} voxels (z, y, x)"
            )
        if out.size == 0:
            return
        stored = self._in_stored_order(box)
        # A view of `out` in stored axis order, with the selected axes back as axes of one voxel.
        view = out.transpose([int(i) for i in np.argsort(self._permutation)])
        view = np.expand_dims(view, tuple(i for i, picked in enumerate(self._picked) if picked is not None))
        self._reader().read_into(stored, view)

    def _in_stored_order(self, box: Box) -> Box:
        """`box` (z, y, x) with all axes of the stored array, in their stored order."""
        full = dict(zip(self.meta.axes, Box.of_shape(self.meta.shape).slices(), strict=True))
        full.update(zip(SPACE, box.slices(), strict=True))
        lo, hi = [], []
        for axis, picked in zip(self._level.meta.axes, self._picked, strict=True):
            lo.append(full[axis].start if picked is None else picked)
            hi.append(full[axis].stop if picked is None else picked + 1)
        return Box(tuple(lo), tuple(hi))

    @property
    def is_local(self) -> bool:
        """Whether it lies in files of this machine."""
        return self._level.store.location.is_local

    def files(self, box: Box) -> Iterator[str]:
        """The local files that the voxels of `box` (z, y, x) are read from, there or not.

        None for a remote array, and for a sharded precomputed one, whose files only its index tells.
        """
        index = self._chunk_that_is(box) if self._by_chunk else None
        if index is not None:
            yield f"{self._base}/{stored_key(self._level.layout, index)}"
            return
        layout, base = self._level.layout, self._base
        if not self.is_local or (layout.format == "precomputed" and layout.stored is None):
            return
        if layout.format in ("hdf5", "tiff"):
            yield base
            return
        piece = layout.details.outer_shape if layout.format == "zarr3" else layout.chunk_shape
        for index in self._in_stored_order(box).chunk_range(piece).indices():
            yield f"{base}/{stored_key(layout, index)}"

    def documents(self) -> Iterator[str]:
        """The local file of the metadata by which the voxels are read; none for a remote array."""
        name = METADATA_KEYS.get(self._level.layout.format)
        if self.is_local and name is not None:
            yield f"{self._base}/{name}"

    def tensorstore(self) -> Any:
        """The array as a tensorstore handle in stored axis order, for code that wants one.

        Raises
        ------
        ParameterError
            For a format that tensorstore does not read.
        """
        if self._level.layout.reader != "tensorstore":
            raise ParameterError(
                f"{self.meta.path}: tensorstore does not read {self._level.layout.format}; read(box) does"
            )
        from chunkloom.io.tensors import open_tensorstore

        return open_tensorstore(self._level.store, self._level.layout)

    def identity(self) -> str:
        """What this array is: its path and the state (time and size, or ETag) of every metadata document behind it."""
        picked = ",".join("" if p is None else str(p) for p in self._picked)
        return f"{self.meta.path}#{digest([self.meta.path, picked, *self._level.states])}"

    def stored_chunk(self, index: tuple[int, ...]) -> bytes | None:
        """The stored bytes of the chunk at `index` (one number per axis of `meta`), None where there is no such chunk.

        Raises
        ------
        ParameterError
            When this array has no `stored_layout`.
        """
        found = self.stored_piece(index)
        return None if found is None else found[0]

    def stored_piece(self, index: tuple[int, ...]) -> tuple[bytes, str] | None:
        """As `stored_chunk`, with a text that changes when the chunk is written anew (time and size, or ETag)."""
        key = self._stored_key(index)
        found = self._level.store.read_with_state(key)
        if found is None:
            self._level.store.confirm_folder()
        elif self.stored_layout is not None:
            check_whole(found[0], self.stored_layout, self._level.store.where(key))
        return found

    def check_stored_file(self, file: str) -> int:
        """The size of a local chunk file that can be passed on as it is.

        Raises
        ------
        ChunkReadError
            It was cut, emptied or replaced.
        FileNotFoundError
            It is not there.
        """
        with open(file, "rb", buffering=0) as opened:
            size = os.fstat(opened.fileno()).st_size
            if self.stored_layout is not None:
                # Looked at in place: a few pages of it are read.
                whole = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
                try:
                    check_whole(whole, self.stored_layout, file)
                finally:
                    if not isinstance(whole, bytes):
                        whole.close()
        return size

    def stored_file(self, index: tuple[int, ...]) -> str | None:
        """The local file that `stored_chunk` reads, whether it is there or not; None for a remote array."""
        location = self._level.store.location
        return f"{location.base.rstrip('/')}/{self._stored_key(index)}" if location.is_local else None

    @property
    def folder(self) -> str | None:
        """The local folder of the array, None for a remote one."""
        location = self._level.store.location
        return location.base if location.is_local else None

    def _stored_key(self, index: tuple[int, ...]) -> str:
        if self.stored_layout is None:
            raise ParameterError(f"{self.meta.path} has no stored chunks of its own to send on")
        chunk = self._level.meta.chunk_shape
        by_axis = dict(zip(self.meta.axes, index, strict=True))
        full = [
            by_axis[axis] if picked is None else picked // size
            for axis, picked, size in zip(self._level.meta.axes, self._picked, chunk, strict=True)
        ]
        return stored_key(self._level.layout, tuple(full))

    def _passable(self, stored: StoredLayout | None) -> StoredLayout | None:
        if stored is None or self._permutation != sorted(self._permutation):
            return None
        sizes = zip(self._picked, self._level.meta.chunk_shape, strict=True)
        if any(picked is not None and size != 1 for picked, size in sizes):
            return None
        if stored.chunk_shape != self._level.meta.chunk_shape:
            return None
        return replace(stored, chunk_shape=self.meta.chunk_shape)


def open_levels(
    path: str | os.PathLike[str],
    *,
    select: Mapping[str, int] | None = None,
    dimension_separator: str | None = None,
) -> OpenedPyramid:
    """Open the volume at `path`: all levels of a pyramid, or one array.

    Parameters
    ----------
    path : see `parse_path`.
    select : an index for axes other than z, y, x, such as `{"c": 1, "t": 0}`; the axis is then gone. Axes with one
        entry are selected by themselves; a time axis with more must be.
    dimension_separator : `.` or `/` between the numbers of a zarr chunk key, in place of what the metadata say.

    Raises
    ------
    VolumeNotFoundError, FormatError, AccessError, ChunkReadError
        As `read_array_meta`.
    ParameterError
        For a selection that does not fit.
    """
    if dimension_separator not in (None, ".", "/"):
        raise ParameterError(f"dimension_separator is {dimension_separator!r}: expected '.' or '/'")
    found = discover.find_pyramid(parse_path(path), dimension_separator)
    levels = tuple(StoredArray(level, select or {}) for level in found.levels)
    return OpenedPyramid(found.format, levels, found.warnings)


def read_padded(
    array: StoredArray, box: Box, *, pad: Literal["constant", "edge"] = "constant", fill: float = 0
) -> NDArray[Any]:
    """The voxels of `box` (z, y, x), which may lie partly or wholly outside the array; read in one copy.

    Parameters
    ----------
    pad : what lies outside is `fill`, or with `"edge"` the nearest voxel of the array.
    """
    if pad not in ("constant", "edge"):
        raise ParameterError(f"pad is {pad!r}: expected 'constant' or 'edge'")
    shape = array.meta.shape[-3:]
    inside = box.intersect(Box.of_shape(shape))
    out = np.empty((*array.meta.shape[:-3], *box.shape), array.meta.dtype)
    if pad == "constant":
        if inside.is_empty:
            out[...] = fill
            return out
        _fill_outside(out, inside.shift(tuple(-b for b in box.lo)), fill)
        array.read_into(inside, _spatial(out, inside.slices(box.lo)))
        return out
    if 0 in shape:
        raise ParameterError(f"{array.meta.path} has no voxels to pad with: its shape is {shape}")
    # The voxels that clamped indices name: for a box wholly outside, a face of the array.
    lo = tuple(min(max(b, 0), n - 1) for b, n in zip(box.lo, shape, strict=True))
    hi = tuple(max(min(h, n), b + 1) for h, n, b in zip(box.hi, shape, lo, strict=True))
    nearest = Box(lo, hi)
    if box.is_empty:
        return out
    at = tuple(
        slice(min(max(c - b, 0), n - k), min(max(c - b, 0), n - k) + k)
        for b, c, n, k in zip(box.lo, lo, box.shape, nearest.shape, strict=True)
    )
    array.read_into(nearest, _spatial(out, at))
    for axis, part in enumerate(at):
        _repeat_edges(out, out.ndim - 3 + axis, part)
    return out


def _fill_outside(out: NDArray[Any], inside: Box, fill: float) -> None:
    """Set what lies outside `inside` (z, y, x of `out`), each voxel once."""
    for axis in range(3):
        before = inside.slices()[:axis]
        after = (slice(None),) * (2 - axis)
        _spatial(out, (*before, slice(0, inside.lo[axis]), *after))[...] = fill
        _spatial(out, (*before, slice(inside.hi[axis], None), *after))[...] = fill


def _spatial(out: NDArray[Any], slices: tuple[slice, ...]) -> NDArray[Any]:
    """The view of `out` with `slices` of its last axes, whatever axes come before."""
    view: NDArray[Any] = out[(slice(None),) * (out.ndim - len(slices)) + slices]
    return view


def _repeat_edges(out: NDArray[Any], axis: int, part: slice) -> None:
    lead: list[slice] = [slice(None)] * axis
    out[(*lead, slice(0, part.start))] = out[(*lead, slice(part.start, part.start + 1))]
    out[(*lead, slice(part.stop, None))] = out[(*lead, slice(part.stop - 1, part.stop))]


def open_reader(store: Store, layout: ArrayLayout) -> Reader:
    """The reader that decodes this layout."""
    if layout.reader == "tensorstore":
        from chunkloom.io.gzipped import GzippedReader, chunks_are_gzipped
        from chunkloom.io.tensors import TensorstoreReader

        if chunks_are_gzipped(store, layout):
            return GzippedReader(store, layout)
        return TensorstoreReader(store, layout)
    if layout.reader == "hdf5":
        from chunkloom.io.hdf5 import Hdf5Reader

        return Hdf5Reader(store, layout)
    if layout.reader == "tiff":
        from chunkloom.io.tiff_reader import TiffReader

        return TiffReader(store, layout)

    from chunkloom.io.chunkwise import ChunkwiseReader

    return ChunkwiseReader(store, layout)


def stored_key(layout: ArrayLayout, index: tuple[int, ...]) -> str:
    """The file of one chunk, by its index in the layout's axis order."""
    from chunkloom.io import n5, precomputed, zarr2, zarr3

    if layout.format == "zarr2":
        return zarr2.chunk_key(index, layout.details.separator)
    if layout.format == "zarr3":
        return zarr3.chunk_key(index, layout.details.encoding, layout.details.separator)
    if layout.format == "n5":
        return n5.chunk_key(index)
    return precomputed.chunk_key(index, layout)


def _picked(meta: ArrayMeta, select: Mapping[str, int]) -> dict[str, int]:
    """The index taken of each axis that `meta` loses."""
    picked = {}
    for axis, index in select.items():
        sizes = dict(zip(meta.axes, meta.shape, strict=True))
        if axis in SPACE or axis not in sizes:
            choices = [name for name in meta.axes if name not in SPACE]
            have = f"it has {', '.join(choices)}" if choices else "it has none but z, y, x"
            raise ParameterError(f"{meta.path}: no axis {axis!r} to select from: {have}")
        if not 0 <= index < sizes[axis]:
            raise ParameterError(f"{meta.path}: axis {axis} has {sizes[axis]} entries: found index {index}")
        picked[axis] = int(index)
    for axis, size in zip(meta.axes, meta.shape, strict=True):
        if axis in SPACE or axis in picked:
            continue
        if size == 1:
            picked[axis] = 0
        elif axis == "t":
            raise ParameterError(
                f"{meta.path} has {size} time points: take one with select={{'t': 0}} (as an option --select t=0)"
            )
    return picked
