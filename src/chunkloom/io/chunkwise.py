"""Reading an array chunk by chunk with our own decoders, for what tensorstore refuses although it is valid."""

from __future__ import annotations

import os
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from chunkloom.errors import AccessError, FormatError
from chunkloom.geometry import Box
from chunkloom.io import n5, zarr2, zarr3
from chunkloom.io.codecs import N5Decoder, Zarr2Decoder, Zarr3Decoder
from chunkloom.io.layout import METADATA_KEYS, ArrayLayout
from chunkloom.io.store import Store


class Decoder(Protocol):
    """Turns the bytes of one stored chunk into its voxels, which may be fewer than a full chunk's at an edge."""

    def decode(self, raw: bytes, where: str) -> NDArray[Any]: ...


class ChunkwiseReader:
    """Reads boxes of one array, in the layout's axis order. Thread-safe."""

    def __init__(self, store: Store, layout: ArrayLayout) -> None:
        self._store = store
        self._layout = layout
        self._decoder = _decoder(store, layout)
        self._chunk = layout.details.outer_shape if layout.format == "zarr3" else layout.chunk_shape

    def read_into(self, box: Box, out: NDArray[Any]) -> None:
        """Fill `out` (of the box's shape; any strides) with the voxels of `box`, which lies inside the array."""
        chunks = box.chunk_range(self._chunk)
        if chunks.size <= 1:
            for index in chunks.indices():
                self._read_chunk(index, box, out)
            return
        # A bounded number of chunks is under way at a time, however large the box.
        indices = chunks.indices()
        pool = workers(self._store.location.is_local)
        while batch := list(islice(indices, 256)):
            for _ in pool.map(lambda index: self._read_chunk(index, box, out), batch):
                pass

    def chunk(self, index: tuple[int, ...]) -> NDArray[Any]:
        """The voxels of one chunk, cut where the array ends; perhaps read-only. In this thread, and without a copy
        where the chunk is stored as it is wanted."""
        box = Box.of_chunk(index, self._chunk).intersect(Box.of_shape(self._layout.shape))
        raw = self._store.read(self._key(index))
        if raw is not None:
            voxels = self._decoder.decode(raw, self._store.where(self._key(index)))
            if all(n >= m for n, m in zip(voxels.shape, box.shape, strict=True)):
                return np.ascontiguousarray(voxels[Box.of_shape(box.shape).slices()], self._layout.dtype)
        out: NDArray[Any] = np.empty(box.shape, self._layout.dtype)
        self._read_chunk(index, box, out)
        return out

    def _read_chunk(self, index: tuple[int, ...], box: Box, out: NDArray[Any]) -> None:
        full = Box.of_chunk(index, self._chunk)
        part = full.intersect(box)
        view = out[part.slices(box.lo)]
        key = self._key(index)
        try:
            raw = self._store.read(key)
        except AccessError:
            if self._store.location.is_local:
                raise
            self._store.confirm(METADATA_KEYS[self._layout.format])
            raw = None  # see TensorstoreReader.read_into
        if raw is None:
            self._store.confirm_folder()
            view[...] = self._layout.fill
            return
        voxels = self._decoder.decode(raw, self._store.where(key))
        if voxels.shape == full.shape:
            view[...] = voxels[part.slices(full.lo)]
            return
        # A block cut at the end of an array, or one that holds less than it could: the rest is fill.
        held = part.intersect(Box.of_shape(voxels.shape).shift(full.lo))
        if held != part:
            view[...] = self._layout.fill
        if not held.is_empty:
            out[held.slices(box.lo)] = voxels[held.slices(full.lo)]

    def _key(self, index: tuple[int, ...]) -> str:
        details = self._layout.details
        if self._layout.format == "zarr2":
            return zarr2.chunk_key(index, details.separator)
        if self._layout.format == "zarr3":
            return zarr3.chunk_key(index, details.encoding, details.separator)
        return n5.chunk_key(index)


@cache
def workers(local: bool) -> Executor:
    """The threads that read and decode: one per core for files, more where each waits for an answer from elsewhere."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ThreadPoolExecutor(cores if local else max(16, cores), thread_name_prefix="chunkloom-read")


def _decoder(store: Store, layout: ArrayLayout) -> Decoder:
    where = str(store)
    if layout.format == "zarr2":
        return Zarr2Decoder(layout, where)
    if layout.format == "zarr3":
        return Zarr3Decoder(layout, where)
    if layout.format == "n5":
        return N5Decoder(layout, where)
    raise FormatError(f"{where}: {layout.codec} cannot be decoded")
