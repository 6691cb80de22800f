"""A network file written anew, without the holes that replaced datasets and attributes leave, and with small HDF5
chunks."""

from __future__ import annotations

import os
from typing import Any

import h5py
from h5py import h5o

from chunkloom.network import hdf5
from chunkloom.network.checkpoint import new_file
from chunkloom.network.file import NetworkFile
from chunkloom.network.statistics import FILES, MORPHOLOGIES


def compact(network: NetworkFile) -> tuple[int, int]:
    """Write the file anew, in place of itself.

    Returns
    -------
    tuple of int
        Bytes before and after.
    """
    with network.write_scope() as handle:
        owner = network._handle
        owner.checkpoint()
        before = os.path.getsize(owner.path)
        with new_file(owner.path) as temporary:
            with hdf5.create_file(temporary) as target:
                _copy_attributes(handle.file, target)
                for name in handle.file:
                    _copy(handle.file, target, name)
            owner.exchange(temporary)
        return before, os.path.getsize(owner.path)


def _copy(source: h5py.Group, target: h5py.Group, name: str) -> None:
    if name in (FILES, MORPHOLOGIES) or not isinstance(source[name], h5py.Group):
        h5o.copy(source.id, name.encode(), target.id, name.encode())
        return
    _copy_group(source[name], h5py.Group(hdf5.make_group(target.id, name.encode())))


def _copy_group(source: h5py.Group, target: h5py.Group) -> None:
    for name in source:
        node = source[name]
        if isinstance(node, h5py.Group):
            _copy_group(node, h5py.Group(hdf5.make_group(target.id, name.encode())))
        elif node.dtype.kind in "biuf" and node.ndim and not node.attrs:
            if len(node):
                hdf5.make_rows(target.id, name.encode(), hdf5.read_rows(node.id))
        else:
            h5o.copy(source.id, name.encode(), target.id, name.encode())
    _copy_attributes(source, target)


def _copy_attributes(source: h5py.Group, target: h5py.Group) -> None:
    counts: dict[bytes, int] = {}
    for name, value in source.attrs.items():
        if name.isdecimal() and not getattr(value, "shape", ()):
            counts[name.encode()] = int(value)
        else:
            target.attrs.create(name, value, dtype=_dtype(source, name))
    hdf5.write_counts(target.id, counts)


def _dtype(node: h5py.Group, name: str) -> Any:
    return node.attrs.get_id(name).dtype
