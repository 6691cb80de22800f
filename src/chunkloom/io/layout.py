"""`ArrayLayout`: what an array's own metadata says about its voxels and how they are stored.

Each format's module makes one from its documents; readers and `ArrayMeta` are made from it. Nothing here reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Format = Literal["zarr2", "zarr3", "n5", "precomputed", "hdf5", "tiff"]


# The document without which an array of a format cannot be read.
METADATA_KEYS = {"zarr2": ".zarray", "zarr3": "zarr.json", "n5": "attributes.json", "precomputed": "info"}


@dataclass(frozen=True)
class StoredLayout:
    """How one stored chunk file is encoded: enough to decide whether its bytes can be sent on as they are.

    Attributes
    ----------
    format : one of the served formats.
    chunk_shape : in the array's axis order (z, y, x last), as decoded.
    dtype : numpy type string with the stored byte order, such as `"<u2"`.
    order : `"C"` when the last axis varies fastest in the stored bytes, `"F"` when the first does.
    codec : the JSON that describes the encoding: zarr2 `{"compressor", "filters"}`, zarr3 `{"codecs"}`, n5
        `{"compression"}`, precomputed `{"encoding", …}`.
    fill_value : what a missing chunk stands for.
    edge : `"padded"` when chunks at the end are stored in full, `"cropped"` when they are cut to the array.
    """

    format: Format
    chunk_shape: tuple[int, ...]
    dtype: str
    order: Literal["C", "F"]
    codec: Mapping[str, Any]
    fill_value: Any
    edge: Literal["padded", "cropped"]


@dataclass(frozen=True)
class ArrayLayout:
    """An array as its format declares it, axes in C order (N5 and precomputed are already turned to z, y, x).

    Attributes
    ----------
    dtype : native byte order.
    stored_dtype : with the byte order on disk.
    names : one per dimension where the format gives any (None for an unnamed one), else None.
    codec : short text for people.
    fill : what missing chunks hold, a numpy scalar.
    reader : who decodes: tensorstore, or the layer over numcodecs where tensorstore refuses what is valid.
    spec : the tensorstore spec without its `kvstore`: the driver and the metadata to assume, which are the stored ones
        without members that only concern a writer.
    stored : for the bytes of single chunks; None where there are none (sharded, HDF5, TIFF).
    details : what the format's own reader needs besides.
    """

    format: Format
    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    stored_dtype: np.dtype[Any]
    names: tuple[str | None, ...] | None
    codec: str
    fill: Any
    reader: Literal["tensorstore", "chunkwise", "hdf5", "tiff"]
    spec: Mapping[str, Any] = field(default_factory=dict)
    stored: StoredLayout | None = None
    details: Any = None
    warnings: tuple[str, ...] = ()

    @property
    def ndim(self) -> int:
        return len(self.shape)
