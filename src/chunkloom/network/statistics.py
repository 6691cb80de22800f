"""What a network file counts: cells per chunk and set, connections per chunk and tag, the chunk size.

Kept in memory, brought up to date record by record, and written as the JSON attributes of the format once per
checkpoint. Equal to what a walk over all chunks would count.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np

from chunkloom.network import records
from chunkloom.network.chunks import Size, parse_size
from chunkloom.network.errors import FormatError
from chunkloom.network.journal import Base

PLACEMENT, CONNECTIVITY, FILES, MORPHOLOGIES = "placement", "connectivity", "files", "morphologies"
ROOTS = (PLACEMENT, CONNECTIVITY, FILES, MORPHOLOGIES)
ZERO = bytes(16)


@dataclass
class SetCounts:
    """One chunked set: cells per chunk, names of additional data, writes it has seen."""

    cells: dict[int, int] = field(default_factory=dict)
    keys: dict[str, None] = field(default_factory=dict)
    """Datasets of collections that some chunk has, as "collection/key"."""
    revision: int = 0
    given: dict[int, frozenset[str]] = field(default_factory=dict)
    """What the journal's records gave each chunk: datasets of its latest rows."""

    def keys_of(self, collection: str) -> list[str]:
        """Keys of one collection, in the order they came."""
        return [name.split("/", 1)[1] for name in self.keys if name.split("/", 1)[0] == collection]


@dataclass
class TagCounts:
    """One connectivity set: its cell types, and connections per chunk as [incoming, outgoing]."""

    pre: str
    post: str
    total: int = 0
    chunks: dict[int, list[int]] = field(default_factory=dict)
    revision: int = 0


@dataclass
class Statistics:
    """All counts of one file, at one place in its journal."""

    generation: bytes = ZERO
    previous: bytes = ZERO
    state: int = -1
    provenance: dict[str, Any] = field(default_factory=dict)
    chunk_size: Size | None = None
    sets: dict[str, SetCounts] = field(default_factory=dict)
    tags: dict[str, TagCounts] = field(default_factory=dict)
    merged: dict[str, None] = field(default_factory=dict)
    dirty: set[str] = field(default_factory=set)
    """Paths whose attributes are older than these counts."""

    def count(self, path: str, chunk: int) -> int:
        known = self.sets.get(path)
        return 0 if known is None else known.cells.get(chunk, 0)

    def chunk_totals(self) -> dict[int, tuple[int, int, int]]:
        """Cells placed, connections coming in and going out, of every chunk that has or had any."""
        totals: dict[int, list[int]] = {}
        for path, counts in self.sets.items():
            if path.startswith(f"{PLACEMENT}/"):
                for chunk, n in counts.cells.items():
                    totals.setdefault(chunk, [0, 0, 0])[0] += n
        for tag in self.tags.values():
            for chunk, (inc, out) in tag.chunks.items():
                of = totals.setdefault(chunk, [0, 0, 0])
                of[1] += inc
                of[2] += out
        return {chunk: (a, b, c) for chunk, (a, b, c) in totals.items()}

    def note(self, record: records.Record) -> None:
        """Count what a record adds or takes."""
        self.state += 1
        match record:
            case records.Rows(path=path, chunk=chunk):
                of = self._set(path)
                of.cells[chunk] = of.cells.get(chunk, 0) + record.count
                if record.count:
                    of.given[chunk] = frozenset(record.arrays)
                for name in record.arrays:
                    if "/" in name:
                        of.keys[name] = None
                if record.size is not None:
                    self.chunk_size = record.size if self.chunk_size is None else self.chunk_size
            case records.Overwrite(path=path, chunk=chunk, dataset=name):
                of = self._set(path)
                of.cells.setdefault(chunk, 0)
                if "/" in name:
                    of.keys[name] = None
            case records.Labels(path=path):
                self._set(path)
            case records.Clear(path=path, chunks=chunks):
                self._clear(path, chunks)
            case records.Group(path=path, attributes=attributes):
                root, name = path.split("/", 1)
                if root == CONNECTIVITY:
                    self.tags.setdefault(name, TagCounts(attributes["pre"], attributes["post"]))
                    self.dirty.add(path)
                else:
                    self._set(path)
            case records.Delete(path=path):
                self._delete(path)
            case records.Connect():
                self._connect(record.tag, record.arrays, 1)
                if record.size is not None and self.chunk_size is None:
                    self.chunk_size = record.size
            case records.Disconnect():
                self._connect(record.tag, record.arrays, -1)
            case records.Forget(root=root):
                for path in [p for p in self.sets if p.startswith(f"{root}/")]:
                    self._delete(path)
                if root == CONNECTIVITY:
                    self.tags.clear()
                elif root == PLACEMENT:
                    self.chunk_size = None
            case _:
                pass
        self.dirty.add("")

    def _set(self, path: str) -> SetCounts:
        of = self.sets.get(path)
        if of is None:
            of = self.sets[path] = SetCounts()
        of.revision += 1
        self.dirty.add(path)
        return of

    def _clear(self, path: str, chunks: tuple[int, ...] | None) -> None:
        root, name = path.split("/", 1)
        if root == CONNECTIVITY:
            tag = self.tags[name]
            tag.total, tag.chunks, tag.revision = 0, {}, tag.revision + 1
            self.dirty.add(path)
            return
        of = self._set(path)
        for chunk in list(of.cells) if chunks is None else chunks:
            of.cells.pop(chunk, None)
            of.given.pop(chunk, None)
        if not of.cells:
            of.keys.clear()

    def _delete(self, path: str) -> None:
        self.sets.pop(path, None)
        self.dirty.discard(path)
        root, _, name = path.partition("/")
        if root == CONNECTIVITY:
            self.tags.pop(name, None)

    def _connect(self, name: str, arrays: dict[str, Any], sign: int) -> None:
        of = self.tags[name]
        of.revision += 1
        columns = (arrays[n].tolist() for n in ("pre", "post", "counts"))
        for pre, post, n in zip(*columns, strict=True):
            of.chunks.setdefault(post, [0, 0])[0] += sign * n
            of.chunks.setdefault(pre, [0, 0])[1] += sign * n
            of.total += sign * n
        self.dirty.add(f"{CONNECTIVITY}/{name}")


def read_identity(file: h5py.File) -> Base:
    """Which state of which file this is."""
    generation = bytes.fromhex(str(file.attrs.get("chunkloom_generation", ""))) or ZERO
    return Base(generation, int(_json(file, "bsb_provenance", {}).get("state_id", -1)))


def read(file: h5py.File) -> Statistics:
    """The counts a file's attributes hold.

    Raises
    ------
    FormatError
        An attribute is not what the format says.
    """
    attrs = file.attrs
    stats = Statistics()
    base = read_identity(file)
    stats.generation, stats.state = base.generation, base.state
    stats.previous = bytes.fromhex(str(attrs.get("chunkloom_previous", ""))) or ZERO
    stats.merged = dict.fromkeys(_json(file, "chunkloom_merged", []))
    stats.provenance = _json(file, "bsb_provenance", {})
    stats.chunk_size = parse_size(attrs["chunk_size"]) if "chunk_size" in attrs else None
    for root in file:
        if root in (FILES, MORPHOLOGIES) or not isinstance(file[root], h5py.Group):
            continue
        for name in file[root]:
            group = file[root][name]
            if root == CONNECTIVITY:
                stats.tags[name] = _read_tag(group)
            elif isinstance(group, h5py.Group):
                stats.sets[f"{root}/{name}"] = _read_set(group)
    return stats


def write(stats: Statistics, file: h5py.File) -> None:
    """Write the attributes of everything that changed."""
    if stats.dirty:
        totals = {
            str(c): {"placed": placed, "connections": {"inc": inc, "out": out}}
            for c, (placed, inc, out) in stats.chunk_totals().items()
        }
        _set_text(file, "chunks", _roomy(json.dumps(totals)))
    for path in sorted(stats.dirty - {""}):
        group = file[path]
        if path in stats.sets:
            of = stats.sets[path]
            _set_text(group, "chunks", _roomy(json.dumps({str(c): n for c, n in of.cells.items()})))
            _set_count(group, "len", sum(of.cells.values()))
            _set_count(group, "revision", of.revision)
            for gone in [n for n in group.attrs if n.endswith("_keys") and not of.keys_of(n[:-5])]:
                del group.attrs[gone]
            for collection in dict.fromkeys(name.split("/", 1)[0] for name in of.keys):
                keys, name = of.keys_of(collection), f"{collection}_keys"
                if name not in group.attrs or list(group.attrs[name]) != keys:
                    group.attrs.create(name, keys, dtype=h5py.string_dtype())
        else:
            tag = stats.tags[path.split("/", 1)[1]]
            chunks = {str(c): {"inc": inc, "out": out} for c, (inc, out) in tag.chunks.items()}
            _set_text(group, "chunks", _roomy(json.dumps(chunks)))
            _set_count(group, "len", tag.total)
            _set_count(group, "revision", tag.revision)
    _write_chunk_size(stats, file)
    stats.provenance["state_id"] = stats.state
    _set_text(file, "bsb_provenance", json.dumps(stats.provenance))
    _set_text(file, "chunkloom_generation", stats.generation.hex())
    _set_text(file, "chunkloom_previous", stats.previous.hex())
    if stats.merged or "chunkloom_merged" in file.attrs:
        _set_text(file, "chunkloom_merged", json.dumps(list(stats.merged)))
    stats.dirty.clear()


def _write_chunk_size(stats: Statistics, file: h5py.File) -> None:
    if stats.chunk_size is not None:
        new: Any = np.asarray(stats.chunk_size)
    elif any(of.cells for of in stats.sets.values()):
        new = np.float64(np.nan)  # cells were placed, the size was never told
    else:
        if "chunk_size" in file.attrs:
            del file.attrs["chunk_size"]
        return
    if not np.array_equal(file.attrs.get("chunk_size", None), new):
        file.attrs["chunk_size"] = new


def _read_set(group: h5py.Group) -> SetCounts:
    of = SetCounts(revision=int(group.attrs.get("revision", 0)))
    of.cells = {int(c): int(n) for c, n in _json(group, "chunks", {}).items()}
    for name in group.attrs:
        if name.endswith("_keys"):
            of.keys.update(dict.fromkeys(f"{name[:-5]}/{k}" for k in group.attrs[name]))
    if len(group) != len(of.cells):  # chunks that were made but never counted
        for name in group:
            if name.isdecimal():
                of.cells.setdefault(int(name), 0)
    return of


def _read_tag(group: h5py.Group) -> TagCounts:
    attrs = group.attrs
    of = TagCounts(str(attrs.get("pre", "")), str(attrs.get("post", "")), revision=int(attrs.get("revision", 0)))
    for chunk, n in _json(group, "chunks", {}).items():
        of.chunks[int(chunk)] = [int(n["inc"]), int(n["out"])]
    of.total = sum(inc for inc, _ in of.chunks.values())
    return of


def _json(node: h5py.Group, name: str, default: Any) -> Any:
    text = node.attrs.get(name)
    if text is None:
        return default
    try:
        found = json.loads(text)
    except (ValueError, TypeError) as error:
        where = f"{node.file.filename}: attribute {name!r} of {node.name}"
        raise FormatError(f"{where} is not JSON ({error}); found {str(text)[:60]!r}") from error
    if not isinstance(found, type(default)):
        raise FormatError(
            f"attribute {name!r} of {node.name}: expected a JSON {type(default).__name__}, found {str(text)[:60]!r}"
        )
    return found


def _roomy(text: str) -> str:
    """A JSON text with spaces after it, up to a quarter of its length, so that its length rarely changes.

    HDF5 keeps no list of free space from one opening to the next. A text that grew a little would leave the space of
    its former self unused at every checkpoint; one of equal length takes that space.
    """
    step = max(64, 1 << max(0, len(text).bit_length() - 3))
    return text.ljust(-(-len(text) // step) * step)


def _set_text(node: h5py.Group, name: str, text: str) -> None:
    if name in node.attrs:
        node.attrs.modify(name, text)  # in place: HDF5 takes the old text's space back only then
    else:
        node.attrs[name] = text


def _set_count(node: h5py.Group, name: str, value: int) -> None:
    if name in node.attrs and node.attrs.get_id(name).dtype == np.int64:
        node.attrs.modify(name, np.int64(value))
    else:
        node.attrs[name] = np.int64(value)
