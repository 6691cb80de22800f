"""HDF5 files with h5py: `file.h5::/dataset`, or the one dataset of a file; groups `s0, s1, …` are pyramids."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chunkloom.errors import ChunkReadError, FormatError, MissingExtraError, VolumeNotFoundError, nearest
from chunkloom.geometry import Box
from chunkloom.io import parse, placement
from chunkloom.io.discover import Level, Pyramid, make_level, make_pyramid
from chunkloom.io.files import ByteSource, SourceFile, open_source, reading
from chunkloom.io.layout import ArrayLayout
from chunkloom.io.paths import Location
from chunkloom.io.store import Store

# A dataset that HDF5 keeps in one piece has no chunks; this is what is read of it at a time.
_PIECE = 64
_MOST_LISTED = 20


def find(location: Location) -> Pyramid:
    """The volume at `location`.

    Raises
    ------
    VolumeNotFoundError
        When there is no such file or dataset, or several and none is named.
    FormatError
        When it is not HDF5, or the dataset is not a volume of numbers.
    """
    with reading(location.base, "HDF5"):
        return _find(location)


def _find(location: Location) -> Pyramid:
    source = open_source(location)
    file = open_file(location, source)
    if location.inner:
        node = _get(file, location)
    else:
        names = _datasets(file)
        if len(names) != 1:
            listed = ", ".join(names[:_MOST_LISTED]) or "none with three dimensions"
            example = f"; name one, as in {location.base}::/{names[0]}" if names else ""
            raise VolumeNotFoundError(f"{location.base} holds the datasets {listed}{example}")
        node = file[names[0]]
    if _is_dataset(node):
        return make_pyramid([_level(location, node, source)])
    names = [name for name in node if re.fullmatch(r"s\d+", name) and _is_dataset(node[name])]
    if not names:
        inside = [f"{location.inner}/{name}" for name in _datasets(node)]
        listed = ", ".join(inside[:_MOST_LISTED]) or "no datasets"
        raise VolumeNotFoundError(f"not a volume: {location} is a group that holds {listed}")
    return make_pyramid(
        [_level(location, node[name], source) for name in sorted(names, key=lambda name: int(name[1:]))]
    )


def open_file(location: Location, source: ByteSource) -> Any:
    try:
        import h5py
    except ImportError as error:
        raise MissingExtraError('reading HDF5 needs h5py: pip install "h5py>=3.11"') from error
    try:
        if location.is_local:
            return h5py.File(location.base, "r", locking="best-effort")
        return h5py.File(SourceFile(source, location.base), "r")
    except OSError as error:
        if "unable to lock" in str(error).lower():
            raise FormatError(f"{location.base} is open for writing in another program: close it there") from error
        raise FormatError(f"{location.base} is not a readable HDF5 file: {error}") from error


def parse_dataset(dataset: Any, where: str) -> ArrayLayout:
    """The layout of one dataset."""
    if dataset.shape is None or dataset.dtype.kind not in "biufc":
        raise FormatError(f"{where} has type {dataset.dtype}: expected numbers or booleans, which a volume is made of")
    stored = parse.number_type(dataset.dtype.str, f"{where}: type")
    shape = tuple(int(n) for n in dataset.shape)
    chunk = dataset.chunks or tuple(min(n, _PIECE) or 1 for n in shape)
    if dataset.chunks is None and len(shape) > 3:
        chunk = (*(1,) * (len(shape) - 3), *chunk[-3:])
    chunk = tuple(int(n) for n in chunk)
    parse.check_chunk_size(chunk, stored, where)
    return ArrayLayout(
        format="hdf5",
        shape=shape,
        chunk_shape=chunk,
        dtype=stored.newbyteorder("="),
        stored_dtype=stored,
        names=_names(dataset),
        codec=_codec_text(dataset),
        fill=stored.newbyteorder("=").type(0),
        reader="hdf5",
        details=dataset,
    )


class Hdf5Reader:
    """Reads boxes of one dataset. Thread-safe: h5py takes turns."""

    def __init__(self, store: Store, layout: ArrayLayout) -> None:
        self._dataset = layout.details
        self._where = f"{store}"
        self._dtype = layout.dtype

    def read_into(self, box: Box, out: NDArray[Any]) -> None:
        """As `TensorstoreReader.read_into`."""
        try:
            if out.flags.c_contiguous:
                self._dataset.read_direct(out, box.slices(), ...)
            else:
                out[...] = self._dataset[box.slices()]
        except (OSError, RuntimeError, ValueError) as error:
            hint = ". Install hdf5plugin for filters beyond HDF5's own" if "filter" in str(error) else ""
            raise ChunkReadError(f"{self._where}, box {box}: cannot be read: {error}{hint}") from error


def attributes_of(node: Any) -> dict[str, Any]:
    """The attributes of an HDF5 object as JSON would hold them."""
    attributes = {}
    for name in node.attrs:
        try:
            attributes[name] = _plain(node.attrs[name])
        except (OSError, TypeError, ValueError, KeyError):
            continue  # an attribute of a type that Python lacks says nothing about placement
    tags = attributes.get("axistags")
    if isinstance(tags, str) and "axes" not in attributes:
        attributes["axes"] = _vigra_axes(tags)
    return attributes


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray):
        return [_plain(entry) for entry in value.tolist()] if value.ndim else _plain(value.item())
    if isinstance(value, np.generic):
        return value.item()
    return value


def _vigra_axes(tags: str) -> list[str] | None:
    """Axis names that vigra and ilastik keep as JSON."""
    try:
        return [str(axis["key"]) for axis in json.loads(tags)["axes"]]
    except (ValueError, TypeError, KeyError):
        return None


def _level(location: Location, dataset: Any, source: ByteSource) -> Level:
    where = f"{location.base}::{dataset.name}"
    layout = parse_dataset(dataset, where)
    attributes: Mapping[str, Any] = attributes_of(dataset)
    own = placement.legacy_placement(attributes, layout.ndim, where, x_first=False)
    return make_level(Store(location), layout, own, None, (source.state,), path=where)


def _get(file: Any, location: Location) -> Any:
    try:
        return file[location.inner]
    except KeyError as error:
        names = _datasets(file)
        hint = f"; {nearest(location.inner, names)}" if 0 < len(names) <= _MOST_LISTED else ""
        raise VolumeNotFoundError(f"no such path: {location.base} holds no {location.inner!r}{hint}") from error


def _datasets(group: Any) -> list[str]:
    """Names of the datasets below `group` that could be volumes."""
    names: list[str] = []

    def visit(name: str, node: Any) -> None:
        if _is_dataset(node) and node.shape is not None and len(node.shape) >= 3 and node.dtype.kind in "biufc":
            names.append(name)

    group.visititems(visit)
    return names


def _is_dataset(node: Any) -> bool:
    return hasattr(node, "dtype") and hasattr(node, "shape")


def _names(dataset: Any) -> tuple[str | None, ...] | None:
    labels = tuple(dimension.label or None for dimension in dataset.dims)
    return labels if any(labels) else None


def _codec_text(dataset: Any) -> str:
    words = [word for word, on in (("shuffle", dataset.shuffle), ("fletcher32", dataset.fletcher32)) if on]
    if dataset.compression:
        words.append(str(dataset.compression))
    elif dataset.id.get_create_plist().get_nfilters() > len(words):
        words.append("plugin")
    return "+".join(words) or "none"
