"""Making and growing HDF5 datasets of rows, small and fast: the low-level calls, and nothing about networks.

Object headers of version 2 (libver v110) without times, HDF5 chunks shaped after the data, whole HDF5 chunks written
directly. All of it is read by any HDF5 of the last ten years, and other programs can append.
"""

from __future__ import annotations

import functools
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5a, h5d, h5f, h5g, h5i, h5o, h5p, h5s, h5t

from chunkloom.network.errors import FormatError

LIBVER = ("v110", "v110")
_ROWS_AT_MOST = 8192
_ROWS_AT_LEAST = 8
_LARGE_ATTRIBUTE = 60_000  # an object header of version 1 cannot hold 64 KiB, and breaks instead of saying so

Array = npt.NDArray[Any]


def create_file(path: str) -> h5py.File:
    """A new, empty HDF5 file, open for writing."""
    fapl = h5p.create(h5p.FILE_ACCESS)
    fapl.set_libver_bounds(h5f.LIBVER_V110, h5f.LIBVER_V110)
    fapl.set_file_locking(False, True)
    return h5py.File(h5f.create(path.encode(), h5f.ACC_TRUNC, h5p.create(h5p.FILE_CREATE), fapl))


@functools.cache
def _group_plist() -> Any:
    plist = h5p.create(h5p.GROUP_CREATE)
    plist.set_obj_track_times(False)
    return plist


@functools.lru_cache(4096)
def _dataset_plist(rows: int, rest: tuple[int, ...]) -> Any:
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_chunk((rows, *rest))
    plist.set_fill_time(h5d.FILL_TIME_NEVER)
    plist.set_obj_track_times(False)
    return plist


@functools.lru_cache(4096)
def _space(shape: tuple[int, ...]) -> Any:
    return h5s.create_simple(shape, (h5s.UNLIMITED, *shape[1:]))


@functools.cache
def _type(dtype: np.dtype[Any]) -> Any:
    return h5t.py_create(dtype, logical=True)


def make_group(parent: Any, name: bytes) -> Any:
    """A new group under a low-level group."""
    return h5g.create(parent, name, None, _group_plist())


def require_group(parent: Any, name: bytes) -> Any:
    """A group under a low-level group, made if it is not there."""
    return h5g.open(parent, name) if name in parent else make_group(parent, name)


def make_rows(parent: Any, name: bytes, rows: Array) -> None:
    """A new dataset that can grow along its first axis, of at least one row."""
    count, rest = len(rows), rows.shape[1:]
    pieces = -(-count // _ROWS_AT_MOST)
    size = max(_ROWS_AT_LEAST, -(-count // pieces))
    dataset = h5d.create(parent, name, _type(rows.dtype), _space(rows.shape), _dataset_plist(size, rest))
    if rows.dtype == bool:
        dataset.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(rows))
        return
    zeros = (0,) * len(rest)
    for start in range(0, count, size):
        piece = rows[start : start + size]
        if len(piece) < size:
            whole = np.zeros((size, *rest), rows.dtype)
            whole[: len(piece)] = piece
            piece = whole
        dataset.write_direct_chunk((start, *zeros), np.ascontiguousarray(piece))


def replace_pieces(parent: Any, name: bytes, pieces: list[Array]) -> None:
    """A dataset of 64-bit locations (N, 3) made anew from the pieces, of whatever integers, that follow each other.

    Converts and joins them an HDF5 chunk at a time, so that what is copied stays in the processor's cache.
    """
    if name in parent:
        parent.unlink(name)
    count = sum(map(len, pieces))
    size = max(_ROWS_AT_LEAST, -(-count // max(1, -(-count // _ROWS_AT_MOST))))
    dataset = h5d.create(parent, name, h5t.STD_I64LE, _space((count, 3)), _dataset_plist(size, (3,)))
    buffer, filled, start = np.empty((size, 3), "<i8"), 0, 0
    for piece in pieces:
        done = 0
        while done < len(piece):
            here = min(size - filled, len(piece) - done)
            buffer[filled : filled + here] = piece[done : done + here]
            filled, done = filled + here, done + here
            if filled == size:
                dataset.write_direct_chunk((start, 0), buffer)
                start, filled = start + size, 0
    if filled:
        buffer[filled:] = 0
        dataset.write_direct_chunk((start, 0), buffer)


def append_rows(parent: Any, name: bytes, dataset: Any, rows: Array) -> None:
    """Rows added to a dataset; it is made anew when its HDF5 chunks are far too small for what it holds now."""
    before, rest = dataset.shape[0], dataset.shape[1:]
    total = before + len(rows)
    plist = dataset.get_create_plist()
    chunked = plist.get_layout() == h5d.CHUNKED
    if not chunked or plist.get_chunk()[0] * 32 < min(total, _ROWS_AT_MOST):
        merged = np.concatenate((read_rows(dataset), rows.astype(dataset.dtype)))
        replace_rows(parent, name, merged)
        return
    dataset.set_extent((total, *rest))
    if len(rows):
        space = dataset.get_space()
        space.select_hyperslab((before, *(0,) * len(rest)), rows.shape)
        dataset.write(_space(rows.shape), space, np.ascontiguousarray(rows))


def replace_rows(parent: Any, name: bytes, rows: Array) -> None:
    """A dataset made anew with these rows."""
    if name in parent:
        parent.unlink(name)
    make_rows(parent, name, rows)


def overwrite_rows(dataset: Any, rows: Array) -> None:
    """All rows of a dataset written over, its length unchanged."""
    dataset.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(rows))


def read_rows(dataset: Any) -> Array:
    """All of a low-level dataset."""
    out = np.empty(dataset.shape, dataset.dtype)
    if out.size:
        dataset.read(h5s.ALL, h5s.ALL, out)
    return out


def read_into(dataset: Any, out: Array) -> int:
    """The first rows of a dataset, as many as fit into `out`; returns how many that are."""
    if out.size:
        try:  # HDF5 refuses a dataset of another number of elements; asking for its shape first costs a fifth
            dataset.read(_space(out.shape), h5s.ALL, out, mtype=_type(out.dtype))
            return len(out)
        except (OSError, ValueError):
            pass
    shape = dataset.shape
    count = min(int(shape[0]), len(out))
    if count:
        if shape[1:] != out.shape[1:]:
            raise FormatError(f"{h5i.get_name(dataset).decode()}: rows of shape {shape[1:]}, expected {out.shape[1:]}")
        space = dataset.get_space()
        space.select_hyperslab((0,) * len(shape), (count, *shape[1:]))
        dataset.read(_space((count, *shape[1:])), space, out[:count])
    return count


def find(parent: Any, name: bytes) -> Any:
    """A low-level dataset by its path under a group, or None.

    Raises
    ------
    FormatError
        It cannot be told whether it is there: the file is damaged.
    """
    try:
        return h5d.open(parent, name)
    except (KeyError, ValueError) as error:
        if "doesn't exist" in str(error) or "not found" in str(error):
            return None
        where = f"{h5i.get_name(parent).decode()}/{name.decode(errors='replace')}"
        raise FormatError(f"{where} cannot be read: {error}: the file is damaged") from error


def write_counts(group: Any, counts: dict[bytes, int]) -> None:
    """Scalar 64-bit attributes, many of them."""
    space = h5s.create(h5s.SCALAR)
    for name, value in counts.items():
        if h5a.exists(group, name):
            attribute = h5a.open(group, name)
        else:
            attribute = h5a.create(group, name, h5t.STD_I64LE, space)
        attribute.write(np.array(value, np.int64))


def large_attribute(group: h5py.Group, name: str, value: Any) -> h5py.Group:
    """Set an attribute that may exceed 64 KiB; the group is made anew if its header is of the old kind that breaks.

    Returns
    -------
    h5py.Group
        The group that now has the attribute.
    """
    size = value.nbytes if isinstance(value, np.ndarray) else 16 * len(value)
    if size > _LARGE_ATTRIBUTE and h5o.get_info(group.id).hdr.version < 2:
        group = _renew(group)
    if isinstance(value, np.ndarray):
        group.attrs[name] = value
    else:
        group.attrs.create(name, list(value), dtype=h5py.string_dtype())
    return group


def _renew(group: h5py.Group) -> h5py.Group:
    parent, name = group.parent, group.name.rsplit("/", 1)[1]
    new = h5py.Group(make_group(parent.id, f"{name}.new".encode()))
    for key in list(group):
        new[key] = group[key]
    for key, value in group.attrs.items():
        new.attrs[key] = value
    del parent[name]
    parent.move(f"{name}.new", name)
    return parent[name]
