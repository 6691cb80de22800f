"""Reading voxels with tensorstore: zarr v2 and v3, N5 and precomputed, local or remote.

The metadata that chunkloom has read and checked is what tensorstore is given, so both see the same array, and opening
one costs no request.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from chunkloom.errors import AccessError, FormatError
from chunkloom.geometry import Box
from chunkloom.io import remote
from chunkloom.io.layout import ArrayLayout
from chunkloom.io.store import Store

# Formats whose drivers count dimensions x first.
_REVERSED = ("n5", "precomputed")


class TensorstoreReader:
    """Reads boxes of one array, in the layout's axis order. Thread-safe."""

    def __init__(self, store: Store, layout: ArrayLayout) -> None:
        self._store = store
        self._layout = layout
        self._array = _open(store, layout)

    def read_into(self, box: Box, out: NDArray[Any]) -> None:
        """Fill `out` (of the box's shape; any strides) with the voxels of `box`, which lies inside the array."""
        try:
            self._copy(box, out)
        except AccessError:
            if self._store.location.is_local:
                raise
            # An object store that forbids listing answers 403 for what does not exist. The metadata of this array
            # could be read, so each refused chunk is one that was never written; the others are read.
            self._read_chunk_by_chunk(box, out)

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

        try:
            # Writing to a wrapped numpy array copies each decoded chunk to where it belongs, once.
            ts.array(out).write(self._array[box.slices()]).result()
        except Exception as error:
            raise remote.translate(error, str(self._store)) from error


def _open(store: Store, layout: ArrayLayout) -> Any:
    import tensorstore as ts

    spec = {**layout.spec, "kvstore": store.kvstore()}
    try:
        array = ts.open(spec, open=True, assume_metadata=True, context=remote.context()).result()
    except Exception as error:
        raise FormatError(f"{store}: {remote.plain(error)}") from error
    if layout.format in _REVERSED:
        array = array.T
        if array.ndim > layout.ndim:
            array = array[0]
    if tuple(array.shape) != layout.shape:
        raise FormatError(f"{store}: its metadata say shape {layout.shape}, its reader {tuple(array.shape)}")
    return array[ts.d[:].translate_to[0]]
