"""Is a network file what its format says? Reads everything, changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np

from chunkloom.network.apply_connections import read_blocks
from chunkloom.network.chunks import IDS
from chunkloom.network.errors import ChunkloomError
from chunkloom.network.file import NetworkFile
from chunkloom.network.labelsets import LabelSets
from chunkloom.network.statistics import CONNECTIVITY, PLACEMENT, SetCounts, Statistics, TagCounts


def check(network: NetworkFile) -> list[str]:
    """Every fault of a file, in words; none for a sound one.

    Counts against what is stored; rows of a chunk against its cells; label numbers and morphologies against their
    lists; blocks of connections against their table, both copies of each against each other, and both ends against
    the cells.
    """
    with network.read_scope(), network.reading() as handle:
        try:
            return list(_faults(handle.file, handle.stats))
        except (ChunkloomError, KeyError, OSError, ValueError) as error:
            return [f"the file cannot be read to the end: {error}"]


def _faults(file: h5py.File, stats: Statistics) -> Iterator[str]:
    for root in (PLACEMENT, CONNECTIVITY):
        if root not in file:
            yield f"there is no group {root!r}"
            return
    for path, counts in stats.sets.items():
        yield from _set_faults(file, path, counts, root_of=path.split("/", 1)[0])
    for tag, of in stats.tags.items():
        yield from _tag_faults(file, tag, of, stats)
    if not stats.dirty and "chunks" in file.attrs:
        stored = {
            int(c): (v["placed"], v["connections"]["inc"], v["connections"]["out"])
            for c, v in json.loads(file.attrs["chunks"]).items()
        }
        for chunk, counted in stats.chunk_totals().items():
            if stored.get(chunk, (0, 0, 0)) != counted:
                yield f"chunk {chunk}: the root counts {stored.get(chunk)}, its sets {counted} (placed, inc, out)"


def _set_faults(file: h5py.File, path: str, counts: SetCounts, root_of: str) -> Iterator[str]:
    group = file.get(path, {})
    sets = LabelSets.read(group).sets if path in file else {0: frozenset()}
    for chunk, cells in counts.cells.items():
        if not 0 <= chunk < IDS:
            yield f"{path}: {chunk} is not a chunk id"
        node = group.get(str(chunk))
        if node is None:
            if cells:
                yield f"{path}: chunk {chunk} should have {cells} cells and is not there"
            continue
        if root_of != PLACEMENT:
            continue
        for name in ("position", "rotation", "morphology", "labels"):
            rows = len(node[name]) if name in node else 0
            if rows > cells or (0 < rows < cells and name in ("position", "morphology")):
                yield f"{path}: chunk {chunk} has {cells} cells and {rows} rows of {name}"
        for key, dataset in node.get("additional", {}).items():
            if len(dataset) > cells:
                yield f"{path}: chunk {chunk} has {cells} cells and {len(dataset)} rows of {key!r}"
        if "labels" in node and len(node["labels"]):
            unknown = set(np.unique(node["labels"][()]).tolist()) - set(sets)
            if unknown:
                yield f"{path}: chunk {chunk} has label numbers {sorted(unknown)} that stand for nothing"
        if "morphology" in node and len(node["morphology"]):
            names = len(node.attrs.get("morphology_loaders", ()))
            if int(node["morphology"][()].max()) >= names:
                yield f"{path}: chunk {chunk} has morphology numbers beyond its {names} names"
    for name in group:
        if name.isdecimal() and int(name) not in counts.cells:
            yield f"{path}: chunk {name} is there and not counted"


def _tag_faults(file: h5py.File, tag: str, of: TagCounts, stats: Statistics) -> Iterator[str]:
    path = f"{CONNECTIVITY}/{tag}"
    if path not in file:
        yield f"{path} is counted and not there"
        return
    copies: dict[str, list[Any]] = {"inc": [], "out": []}
    for direction, types in (("inc", (of.post, of.pre)), ("out", (of.pre, of.post))):
        cells = [stats.sets[p].cells if (p := f"{PLACEMENT}/{t}") in stats.sets else {} for t in types]
        for name, group in file[path].get(direction, {}).items():
            where = f"{path}/{direction}/{name}"
            blocks = read_blocks(group)
            ours, theirs = group["local_locs"][()], group["global_locs"][()]
            counts = blocks.counts()
            if len(ours) != len(theirs) or any(n < 0 for n in counts) or sum(counts) != len(ours):
                yield f"{where}: {len(ours)} local and {len(theirs)} global rows, blocks of {counts}"
                continue
            counted = of.chunks.get(int(name), [0, 0])[0 if direction == "inc" else 1]
            if counted != len(ours):
                yield f"{where}: {len(ours)} connections, counted {counted}"
            if len(ours) and (ours[:, 0].min() < 0 or ours[:, 0].max() >= cells[0].get(int(name), 0)):
                yield f"{where}: a local cell does not exist"
            for id, start, n in zip(blocks.ids, blocks.starts, counts, strict=True):
                rows = slice(start, start + n)
                if n and (theirs[rows, 0].min() < 0 or theirs[rows, 0].max() >= cells[1].get(id, 0)):
                    yield f"{where}: a cell of chunk {id} does not exist"
                pair = (id, int(name)) if direction == "inc" else (int(name), id)
                ends = (theirs[rows], ours[rows]) if direction == "inc" else (ours[rows], theirs[rows])
                copies[direction].append((pair, ends))
    inc, out = (dict(copies[d]) for d in ("inc", "out"))
    for pair in inc.keys() | out.keys():
        a, b = inc.get(pair), out.get(pair)
        if a is None or b is None or not all(np.array_equal(x, y) for x, y in zip(a, b, strict=True)):
            yield f"{path}: chunks {pair}: incoming and outgoing connections differ"
