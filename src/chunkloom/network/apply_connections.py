"""Connections written the way the format keeps them: each twice, in contiguous blocks per pair of chunks.

For a local chunk, `chunk_list` names the global chunks in the order of their blocks; an attribute per global chunk
holds its block's first row. New rows of a pair that is the last block, or new, are appended; else the local chunk is
rebuilt once, whatever the number of records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np

from chunkloom.network import hdf5, records
from chunkloom.network.chunks import chunk_coordinates, chunk_ids

Array = Any


@dataclass(frozen=True)
class Blocks:
    """Block table of one local chunk: ids of global chunks in row order, first rows, and the number of rows."""

    ids: tuple[int, ...]
    starts: tuple[int, ...]
    rows: int

    def counts(self) -> list[int]:
        """Rows of each block: up to where the next begins."""
        ends = (*self.starts[1:], self.rows)[: len(self.starts)]
        return [b - a for a, b in zip(self.starts, ends, strict=True)]


def read_blocks(group: h5py.Group) -> Blocks:
    """The block table of a local chunk's group."""
    dataset = hdf5.find(group.id, b"local_locs")
    rows = 0 if dataset is None else dataset.shape[0]
    listed = group.attrs.get("chunk_list")
    ids = [] if listed is None else chunk_ids(listed).tolist()
    return Blocks(tuple(ids), tuple(int(group.attrs[str(i)]) for i in ids), rows)


def apply_connections(group: h5py.Group, connects: list[records.Connect]) -> None:
    """Add the connections of records, in order, to a connectivity set."""
    new: dict[str, dict[int, dict[int, list[tuple[Array, Array]]]]] = {"inc": {}, "out": {}}
    for record in connects:
        start = 0
        a = record.arrays
        for pre, post, n in zip(a["pre"].tolist(), a["post"].tolist(), a["counts"].tolist(), strict=True):
            src, dst = a["src"][start : start + n], a["dst"][start : start + n]
            start += n
            new["inc"].setdefault(post, {}).setdefault(pre, []).append((dst, src))
            new["out"].setdefault(pre, {}).setdefault(post, []).append((src, dst))
    for direction, chunks in new.items():
        parent = hdf5.require_group(group.id, direction.encode())
        for local, blocks in chunks.items():
            _extend(parent, local, blocks)


def _extend(parent: Any, local: int, new: dict[int, list[tuple[Array, Array]]]) -> None:
    name = b"%d" % local
    if name not in parent:
        group = h5py.Group(hdf5.make_group(parent, name))
        old = Blocks((), (), 0)
    else:
        group = h5py.Group(hdf5.require_group(parent, name))
        old = read_blocks(group)
    counts = dict(zip(old.ids, old.counts(), strict=True))
    first = dict(zip(old.ids, old.starts, strict=True))
    last = old.ids[-1] if old.ids else None
    in_place = all(i not in counts or i == last for i in new)
    order = list(dict.fromkeys((*old.ids, *sorted(new, key=lambda i: (i != last, i)))))
    added = {i: sum(len(piece[0]) for piece in pieces) for i, pieces in new.items()}
    for column, dataset_name in enumerate((b"local_locs", b"global_locs")):
        dataset = hdf5.find(group.id, dataset_name)
        if in_place and dataset is not None and old.rows:
            rows = _join([piece[column] for i in order if i in new for piece in new[i]])
            hdf5.append_rows(group.id, dataset_name, dataset, rows)
            continue
        have = hdf5.read_rows(dataset) if dataset is not None and old.rows else None
        parts = []
        for i in order:
            if i in counts and have is not None:
                parts.append(have[first[i] : first[i] + counts[i]])
            parts.extend(piece[column] for piece in new.get(i, ()))
        hdf5.replace_pieces(group.id, dataset_name, parts)
    starts, at = {}, 0
    for i in order:
        starts[i] = at
        at += counts.get(i, 0) + added.get(i, 0)
    if len(order) != len(old.ids):
        group = hdf5.large_attribute(group, "chunk_list", chunk_coordinates(order))
    hdf5.write_counts(group.id, {b"%d" % i: s for i, s in starts.items() if first.get(i) != s})


def _join(parts: list[Array]) -> Array:
    out = np.empty((sum(map(len, parts)), 3), np.int64)
    if parts:
        np.concatenate(parts, out=out)
    return out


def remove_connections(group: h5py.Group, record: records.Disconnect) -> None:
    """Remove whole blocks of a connectivity set."""
    gone: dict[str, dict[int, set[int]]] = {"inc": {}, "out": {}}
    for pre, post in zip(record.arrays["pre"].tolist(), record.arrays["post"].tolist(), strict=True):
        gone["inc"].setdefault(post, set()).add(pre)
        gone["out"].setdefault(pre, set()).add(post)
    for direction, chunks in gone.items():
        parent = group[direction]
        for local, ids in chunks.items():
            if str(local) in parent:
                _remove(parent, local, ids)


def _remove(parent: h5py.Group, local: int, ids: set[int]) -> None:
    group = parent[str(local)]
    blocks = read_blocks(group)
    kept = [(i, a, n) for i, a, n in zip(blocks.ids, blocks.starts, blocks.counts(), strict=True) if i not in ids]
    rows = [hdf5.read_rows(hdf5.find(group.id, name)) for name in (b"local_locs", b"global_locs")]
    del parent[str(local)]
    if not kept:
        return
    new = {i: [(rows[0][a : a + n], rows[1][a : a + n])] for i, a, n in kept}
    _extend(parent.id, local, new)
