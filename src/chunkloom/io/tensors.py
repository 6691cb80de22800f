"""Reading voxels with tensorstore: zarr v2 and v3, N5 and precomputed, local or remote.

The metadata that chunkloom has read and checked is what tensorstore is given, so both see the same array, and opening
one costs no request.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import Any

from numpy.typing import NDArray

from chunkloom.errors import AccessError, FormatError
from chunkloom.geometry import Box
from chunkloom.io import remote
from chunkloom.io.chunkwise import ChunkwiseReader
from chunkloom.io.layout import METADATA_KEYS, ArrayLayout
from chunkloom.io.store import Store

_CHUNKS_AT_ONCE = 32
_SECONDS_BETWEEN_REPORTS = 5.0
_log = logging.getLogger(__name__)
# Formats whose drivers count dimensions x first.
_REVERSED = ("n5", "precomputed")


class TensorstoreReader:
    """Reads boxes of one array, in the layout's axis order. Thread-safe."""

    def __init__(self, store: Store, layout: ArrayLayout) -> None:
        self._store = store
        self._layout = layout
        self._array = open_tensorstore(store, layout)
        self._by_block: ChunkwiseReader | None = None

    def read_into(self, box: Box, out: NDArray[Any]) -> None:
        """Fill `out` (of the box's shape; any strides) with the voxels of `box`, which lies inside the array."""
        try:
            if self._by_block is None:
                self._confirm_files(box)
                self._copy(box, out)
                self._store.confirm_folder()
            else:
                self._by_block.read_into(box, out)
        except _NotByTensorstoreError:
            self._by_block = ChunkwiseReader(self._store, self._layout)
            self._by_block.read_into(box, out)
        except AccessError:
            if self._store.location.is_local:
                raise
            # An object store that forbids listing answers 403 for what does not exist. The metadata of this array
            # can be read, so each refused chunk is one that was never written; the others are read.
            self._store.confirm(METADATA_KEYS[self._layout.format])
            self._read_chunk_by_chunk(box, out)

    def _confirm_files(self, box: Box) -> None:
        from chunkloom.io.source import stored_key

        layout = self._layout
        if not self._store.location.is_local or (layout.format == "precomputed" and layout.stored is None):
            return
        piece = layout.details.outer_shape if layout.format == "zarr3" else layout.chunk_shape
        for index in box.chunk_range(piece).indices():
            self._store.confirm_file(stored_key(layout, index))

    def _read_chunk_by_chunk(self, box: Box, out: NDArray[Any]) -> None:
        for index in box.chunk_range(self._layout.chunk_shape).indices():
            part = Box.of_chunk(index, self._layout.chunk_shape).intersect(box)
            view = out[part.slices(box.lo)]
            try:
                self._copy(part, view)
            except AccessError:
                view[...] = self._layout.fill

    def _copy(self, box: Box, out: NDArray[Any]) -> None:
        import tensorstore as ts

        # Left to itself tensorstore reads ahead of decoding without a bound, so that a large box holds nearly all of
        # its encoded chunks at once. In pieces it keeps as busy and holds few.
        under_way: deque[Any] = deque()
        done, started, told = 0, time.monotonic(), 0.0
        try:
            for part in box.pieces(self._layout.chunk_shape, _CHUNKS_AT_ONCE):
                # Writing to a wrapped numpy array copies each decoded chunk to where it belongs, once.
                view = ts.array(out[part.slices(box.lo)])
                under_way.append(view.write(self._array[part.slices()]))
                if len(under_way) <= 2:
                    continue
                under_way.popleft().result()
                done += 1
                waited = time.monotonic() - started
                if waited - told > _SECONDS_BETWEEN_REPORTS:
                    told = waited
                    chunks = box.chunk_range(self._layout.chunk_shape).size
                    _log.info("%s: %d of %d chunks read in %d s", self._store, done * _CHUNKS_AT_ONCE, chunks, waited)
            while under_way:
                under_way.popleft().result()
        except Exception as error:
            if _readable_by_block(error, self._layout):
                raise _NotByTensorstoreError from error
            raise remote.translate(error, str(self._store)) from error


class _NotByTensorstoreError(Exception):
    """What only reading tells that tensorstore cannot read, and whole chunks with our own decoders can."""


def _readable_by_block(error: Exception, layout: ArrayLayout) -> bool:
    # N5 blocks in varlength mode are refused. Shards are read by ranges, which some servers answer wrongly.
    varlength = layout.format == "n5" and "varlength" in str(error)
    return varlength or (layout.format == "zarr3" and layout.stored is None and remote.is_range_error(error))


def open_tensorstore(store: Store, layout: ArrayLayout) -> Any:
    """The array of a layout, in the layout's axis order, counted from 0."""
    import tensorstore as ts

    spec = {**layout.spec, "kvstore": store.kvstore()}
    try:
        array = ts.open(spec, open=True, assume_metadata=True, context=remote.context()).result()
    except Exception as error:
        raise FormatError(f"{store}: {remote.plain(error)}") from error
    array = oriented(array, layout)
    if tuple(array.shape) != layout.shape:
        raise FormatError(f"{store}: its metadata say shape {layout.shape}, its reader {tuple(array.shape)}")
    return array


def oriented(array: Any, layout: ArrayLayout) -> Any:
    """An opened tensorstore array in the layout's axis order, counted from 0."""
    import tensorstore as ts

    if layout.format in _REVERSED:
        array = array.T
        if array.ndim > layout.ndim:
            array = array[0]
    return array[ts.d[:].translate_to[0]]
