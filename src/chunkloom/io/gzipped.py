"""Precomputed chunks that a writer gzipped one by one beside their names (`0-64_0-64_0-64.gz`), in local folders.

Web servers hand such files out with `Content-Encoding: gzip`; in a folder only the reader can know. tensorstore does
not, and would take every chunk for a missing one.
"""

from __future__ import annotations

import itertools
import os
import zlib
from typing import Any

from numpy.typing import NDArray

from chunkloom.errors import ChunkReadError, FormatError
from chunkloom.geometry import Box
from chunkloom.io import codecs, precomputed, remote
from chunkloom.io.layout import ArrayLayout
from chunkloom.io.store import Store

_numbers = itertools.count()


def chunks_are_gzipped(store: Store, layout: ArrayLayout) -> bool:
    """Whether the chunk files of a local precomputed scale end in `.gz`, by the first one found.

    Raises
    ------
    FormatError
        When they are compressed in a way that is not read.
    """
    if not store.location.is_local or layout.format != "precomputed" or layout.stored is None:
        return False
    folder = os.path.join(store.location.base, layout.details[0])
    try:
        with os.scandir(folder) as entries:
            name = next((entry.name for entry in entries if "_" in entry.name), "")
    except OSError:
        return False
    if name.endswith((".br", ".zst", ".xz", ".bz2")):
        raise FormatError(f"{folder} holds chunks compressed as {name!r}: expected plain files or .gz")
    return name.endswith(".gz")


class GzippedReader:
    """Reads boxes of one scale, in the layout's axis order. Thread-safe."""

    def __init__(self, store: Store, layout: ArrayLayout) -> None:
        self._store = store
        self._layout = layout

    def read_into(self, box: Box, out: NDArray[Any]) -> None:
        """As `TensorstoreReader.read_into`."""
        chunk = self._layout.chunk_shape
        for index in box.chunk_range(chunk).indices():
            part = Box.of_chunk(index, chunk).intersect(box)
            view = out[part.slices(box.lo)]
            key = precomputed.chunk_key(index, self._layout)
            raw = self._store.read(key)
            if raw is None:
                packed = self._store.read(f"{key}.gz")
                raw = None if packed is None else self._unpacked(packed, f"{key}.gz")
            if raw is None:
                view[...] = self._layout.fill
                continue
            self._decode(key, raw, part, view)

    def _unpacked(self, packed: bytes, key: str) -> bytes:
        try:
            return codecs.gunzip(packed, codecs.limit(self._layout))
        except (ValueError, zlib.error) as error:
            raise ChunkReadError(f"{self._store.where(key)} cannot be unpacked: {error}") from error

    def _decode(self, key: str, raw: bytes, part: Box, view: NDArray[Any]) -> None:
        """One chunk through tensorstore, from memory."""
        import tensorstore as ts

        from chunkloom.io.tensors import oriented

        kvstore = {"driver": "memory", "path": f"gzipped/{next(_numbers)}/"}
        # A context of its own, so that the memory goes when this is done.
        context = ts.Context()
        try:
            ts.KvStore.open(kvstore, context=context).result()[key] = raw
            spec = {**self._layout.spec, "kvstore": kvstore}
            array = ts.open(spec, open=True, assume_metadata=True, context=context).result()
            ts.array(view).write(oriented(array, self._layout)[part.slices()]).result()
        except Exception as error:
            raise remote.translate(error, self._store.where(key)) from error
