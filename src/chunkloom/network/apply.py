"""Records applied to an HDF5 file: the one place that knows how the format keeps what a record says.

Used on views (in memory) only. Rows for the same chunk that follow each other are written together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import h5py
import numpy as np
from h5py import h5g

from chunkloom.network import hdf5, records
from chunkloom.network.apply_connections import apply_connections, remove_connections
from chunkloom.network.labelsets import LabelSets
from chunkloom.network.statistics import CONNECTIVITY, MORPHOLOGIES, PLACEMENT, ROOTS

_AT_ONCE = 256 << 20  # bytes of rows kept before they are written
_MISSING = {"rotation": 0.0, "labels": 0}


class Applier:
    """Applies records, in order, to `file`. `finish` must follow the last one."""

    def __init__(self, file: h5py.File) -> None:
        self.file = file
        self._rows: dict[str, dict[int, list[records.Rows]]] = {}
        self._connects: dict[str, list[records.Connect]] = {}
        self._groups: dict[str, Any] = {}
        self._bytes = 0

    def apply(self, stream: Iterable[records.Record]) -> None:
        """Apply records; some of their effect may wait for `finish`."""
        for record in stream:
            self._bytes += sum(a.nbytes for a in getattr(record, "arrays", {}).values())
            if self._bytes > _AT_ONCE:
                self.finish()
            match record:
                case records.Rows():
                    self._rows.setdefault(record.path, {}).setdefault(record.chunk, []).append(record)
                case records.Connect():
                    self._connects.setdefault(record.tag, []).append(record)
                case _:
                    self.finish()
                    self._one(record)

    def finish(self) -> None:
        """Write what was put together."""
        self._bytes = 0
        for path, chunks in self._rows.items():
            parent = self._require(path)
            placement = path.startswith(f"{PLACEMENT}/")
            for chunk, rows in chunks.items():
                write_rows(parent, chunk, rows, placement)
        self._rows.clear()
        for tag, connects in self._connects.items():
            apply_connections(self.file[f"{CONNECTIVITY}/{tag}"], connects)
        self._connects.clear()

    def _one(self, record: records.Record) -> None:
        match record:
            case records.Overwrite():
                self._overwrite(record)
            case records.Labels():
                apply_labels(h5py.Group(self._require(record.path)), record)
            case records.Clear():
                self._clear(record)
            case records.Disconnect(tag=tag):
                remove_connections(self.file[f"{CONNECTIVITY}/{tag}"], record)
            case records.Group(path=path, attributes=attributes):
                group = h5py.Group(self._require(path))
                for name, value in attributes.items():
                    if name not in group.attrs:
                        group.attrs[name] = value
                if path.startswith(f"{CONNECTIVITY}/"):
                    hdf5.require_group(group.id, b"inc")
                    hdf5.require_group(group.id, b"out")
            case records.Delete(path=path):
                self._delete(path)
            case records.Forget(root=root):
                del self.file[root]
                self.file.create_group(root)
                self._groups.clear()
            case records.Blob():
                self._store_file(record)
            case records.Morphology():
                self._store_morphology(record)
            case records.MorphologyMeta(meta=meta):
                self._write_meta(json.loads(meta))
            case records.Touch():
                pass
            case _:
                raise TypeError(type(record).__name__)

    def _require(self, path: str) -> Any:
        group = self._groups.get(path)
        if group is None:
            root, name = path.split("/", 1)
            parent = hdf5.require_group(self.file.id, root.encode())
            group = self._groups[path] = hdf5.require_group(parent, name.encode())
        return group

    def _overwrite(self, record: records.Overwrite) -> None:
        placement = record.path.startswith(f"{PLACEMENT}/")
        group = require_chunk(self._require(record.path), record.chunk, placement)
        rows = record.arrays["rows"]
        *collection, name = record.dataset.encode().split(b"/", 1)
        if collection:
            group = hdf5.require_group(group, collection[0])
        if len(rows):
            hdf5.replace_rows(group, name, rows)
        elif name in group:
            group.unlink(name)

    def _clear(self, record: records.Clear) -> None:
        if record.path.startswith(f"{CONNECTIVITY}/"):
            group = self.file[record.path]
            for direction in ("inc", "out"):
                if direction in group:
                    del group[direction]
                group.create_group(direction)
            return
        group = h5py.Group(self._require(record.path))
        chunks = [n for n in group if n.isdecimal()] if record.chunks is None else [str(c) for c in record.chunks]
        for name in chunks:
            if name in group:
                del group[name]

    def _delete(self, path: str) -> None:
        self._groups.pop(path, None)
        if path in self.file:
            del self.file[path]
        root, _, name = path.partition("/")
        if root == MORPHOLOGIES:
            meta = read_morphology_meta(self.file)
            if meta.pop(name, None) is not None:
                self._write_meta(meta)

    def _store_file(self, record: records.Blob) -> None:
        parent = self.file.require_group("files")
        for gone in (*record.removes, record.id):
            if gone in parent:
                del parent[gone]
        content = record.arrays["content"].tobytes()
        kept = content.rstrip(b"\0")
        # The format keeps a string padded with zeros: zeros at the end are counted in an attribute of ours.
        dataset = parent.create_dataset(record.id, data=np.array(content or b"\0", dtype=f"S{max(1, len(content))}"))
        dataset.attrs["meta"] = record.meta
        dataset.attrs["mtime"] = np.int64(record.mtime)
        if len(kept) != len(content) or not content:
            dataset.attrs["chunkloom_length"] = np.int64(len(content))
        if record.encoding is not None:
            dataset.attrs["encoding"] = record.encoding

    def _store_morphology(self, record: records.Morphology) -> None:
        parent = self.file.require_group(MORPHOLOGIES)
        if record.name in parent:
            del parent[record.name]
        group = parent.create_group(record.name)
        data = group.create_dataset("data", data=record.arrays["data"])
        data.attrs["labels"] = record.labels
        data.attrs.create("properties", list(record.properties), dtype=h5py.string_dtype())
        group.create_dataset("graph", data=record.arrays["graph"])
        meta = read_morphology_meta(self.file)
        meta[record.name] = json.loads(record.meta)
        self._write_meta(meta)

    def _write_meta(self, meta: dict[str, Any]) -> None:
        if "morphology_meta" in self.file:
            self.file["morphology_meta"][()] = json.dumps(meta)  # in place: HDF5 takes the old text's space back
        else:
            self.file.create_dataset("morphology_meta", data=json.dumps(meta), dtype=h5py.string_dtype())


def make_roots(file: h5py.File) -> None:
    """The groups every network file has."""
    for root in ROOTS:
        file.require_group(root)


def read_morphology_meta(file: h5py.File) -> dict[str, Any]:
    """Metadata of all morphologies, by name."""
    if "morphology_meta" not in file:
        return {}
    found: dict[str, Any] = json.loads(file["morphology_meta"].asstr()[()])
    return found


def require_chunk(parent: Any, chunk: int, placement: bool) -> Any:
    """The low-level group of a chunk. Other engines expect an `additional` group in those of placement."""
    name = b"%d" % chunk
    if name in parent:
        return h5g.open(parent, name)
    group = hdf5.make_group(parent, name)
    if placement:
        hdf5.make_group(group, b"additional")
    return group


def write_rows(parent: Any, chunk: int, stream: list[records.Rows], placement: bool) -> None:
    """Append the rows of records for one chunk, in order, each dataset in one write."""
    group = require_chunk(parent, chunk, placement)
    if any("morphology" in record.arrays for record in stream):
        group, stream = _with_loaders(h5py.Group(group), stream)
    before = stream[0].before
    for name in dict.fromkeys(name for record in stream for name in record.arrays):
        pieces, at = [], 0
        for record in stream:
            rows = record.arrays.get(name)
            if rows is not None:
                if at < record.before - before:
                    pieces.append(_filler(name, rows, record.before - before - at))
                pieces.append(rows)
                at = record.before - before + record.count
        rows = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        if len(rows):
            _extend(group, name, before, rows)


def _extend(group: Any, name: str, before: int, rows: Any) -> None:
    collection, _, key = name.rpartition("/")
    if collection:
        group = hdf5.require_group(group, collection.encode())
    dataset = hdf5.find(group, key.encode())
    have = 0 if dataset is None else dataset.shape[0]
    if have < before:
        rows = np.concatenate((_filler(name, rows, before - have), rows))
    elif have > before:  # more rows than cells: not ours; keep rows and cells in step
        hdf5.replace_rows(group, key.encode(), np.concatenate((hdf5.read_rows(dataset)[:before], rows)))
        return
    if dataset is None:
        hdf5.make_rows(group, key.encode(), rows)
    else:
        hdf5.append_rows(group, key.encode(), dataset, rows)


def _filler(name: str, like: Any, count: int) -> Any:
    """Rows for cells that were placed without such data."""
    value = _MISSING.get(name, np.nan if like.dtype.kind == "f" else 0)
    return np.full((count, *like.shape[1:]), value, like.dtype)


def _with_loaders(group: h5py.Group, stream: list[records.Rows]) -> tuple[Any, list[records.Rows]]:
    """The records with morphology indices that point into the chunk's list of names, which grows as needed."""
    known = {str(n): i for i, n in enumerate(group.attrs.get("morphology_loaders", ()))}
    size, out = len(known), []
    for record in stream:
        if "morphology" in record.arrays:
            table = np.array([known.setdefault(n, len(known)) for n in record.names], np.int64)
            index = record.arrays["morphology"]
            mapped = {"morphology": table[index] if len(index) else np.zeros(0, np.int64)}
            record = replace(record, names=(), arrays=record.arrays | mapped)
        out.append(record)
    if len(known) != size:
        group = hdf5.large_attribute(group, "morphology_loaders", list(known))
    return group.id, out


def apply_labels(group: h5py.Group, record: records.Labels) -> None:
    """Give labels to cells, or take them, chunk by chunk."""
    sets = LabelSets.read(group)
    placement = group.name.startswith(f"/{PLACEMENT}/")
    start = 0
    for chunk, n in zip(record.arrays["chunks"].tolist(), record.arrays["counts"].tolist(), strict=True):
        ranks = record.arrays["ranks"][start : start + n]
        start += n
        chunk_group = require_chunk(group.id, chunk, placement)
        dataset = hdf5.find(chunk_group, b"labels")
        ids = np.zeros(0, np.int64) if dataset is None else hdf5.read_rows(dataset).astype(np.int64)
        size = max(len(ids), int(ranks.max()) + 1 if n else 0)
        new = np.zeros(size, np.int64)
        new[: len(ids)] = ids
        new[ranks] = sets.without(new[ranks], record.labels) if record.remove else sets.with_(new[ranks], record.labels)
        if len(ids) == size and dataset is not None:
            if not np.array_equal(new, ids):
                hdf5.overwrite_rows(dataset, new)
        elif size:
            hdf5.replace_rows(chunk_group, b"labels", new)
    sets.write(group)
