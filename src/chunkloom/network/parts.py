"""Many writers at once without MPI: each appends to a part of its own, and parts are merged in one step.

A part is a journal without a base: cells and connections between chunks. `merge_parts` may be killed and run again
at any moment: a part is merged once. See docs/design/network-journal.md.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import h5py
import numpy as np
import numpy.typing as npt

from chunkloom.network.appending import ChunkState, MorphologyIndex, plan_rows
from chunkloom.network.chunks import Chunklike, as_chunk, same_size
from chunkloom.network.connecting import plan_block
from chunkloom.network.errors import FormatError, LockedError, ParameterError
from chunkloom.network.file import NetworkFile
from chunkloom.network.handle import Handle
from chunkloom.network.journal import Base, Journal
from chunkloom.network.provenance import now
from chunkloom.network.records import Connect, Group, Record, Rows
from chunkloom.network.statistics import CONNECTIVITY, PLACEMENT, Statistics

_STATE = -2  # in the header of a part, which belongs to no base


class Part:
    """One worker's part of a network file, open for appending. A context manager.

    Parameters
    ----------
    path : path
        The network file; it need not be there yet.
    name : str
        Of the part: letters, digits, ".", "_" and "-". Parts are merged in the order of their names. A part of a worker
        that was killed is continued by the next of the same name.

    Raises
    ------
    LockedError
        Another worker has the part of this name open.
    """

    def __init__(self, path: str | os.PathLike[str], name: str) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise ParameterError(f"part {name!r}: a name is letters, digits, '.', '_' and '-'")
        folder = f"{os.path.realpath(path)}.parts"
        os.makedirs(folder, exist_ok=True)
        self.path = os.path.join(folder, f"{name}.part")
        self._stats = Statistics()
        self._dtypes: dict[tuple[str, str], np.dtype[Any]] = {}
        journal = Journal.open(self.path)
        if journal is None:
            journal = Journal.create(self.path, Base(uuid.uuid4().bytes, _STATE))
        try:
            fcntl.flock(journal.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            journal.close()
            raise LockedError(
                f"part {name!r} of {path} is open in another process; give each worker its own name"
            ) from error
        self._journal = journal
        for record, end in journal.new_records(journal.end):
            self._note(record)
            journal.end = end

    def append_data(
        self,
        cell_type: str,
        chunk: Chunklike,
        positions: npt.ArrayLike | None = None,
        morphologies: MorphologyIndex | Sequence[str] | None = None,
        rotations: npt.ArrayLike | None = None,
        additional: Mapping[str, npt.ArrayLike] | None = None,
        count: int | None = None,
    ) -> None:
        """Append cells of a type to a chunk; as `PlacementSet.append_data`, checked against what this part holds."""
        where = as_chunk(chunk)
        known = self._stats.chunk_size
        if where.size is not None and known is not None and not same_size(where.size, known):
            raise ParameterError(f"chunk {where.coordinates} of size {where.size}: the chunks of this part are {known}")
        index = morphologies
        if index is not None and not isinstance(index, MorphologyIndex):
            index = MorphologyIndex.of(index)
        path = f"{PLACEMENT}/{cell_type}"
        of = self._stats.sets.get(path)
        if of is None:
            self._submit(Group(path, {"cell_type": cell_type, "created_at": now()}))
            of = self._stats.sets[path]
        cells, given = of.cells.get(where.id, 0), of.given.get(where.id, frozenset())
        known_keys = {n[11:] for n in given if n.startswith("additional/")}
        if cells and known_keys != set(additional or {}):
            raise ParameterError(
                f"chunk {where.coordinates} of {cell_type!r}: its {cells} cells have additional data "
                f"{sorted(known_keys)}, these {sorted(additional or {})}. In a part, all cells of a chunk have the same"
            )
        dtypes = {k: (cells, self._dtypes[path, k]) for k in additional or {} if (path, k) in self._dtypes}
        state = ChunkState(cells, given, dtypes)
        self._submit(
            plan_rows(
                path, where, where.size or known, state, positions=positions, rotations=rotations, morphologies=index,
                additional=additional, count=count,
            )
        )  # fmt: skip

    def chunk_connect(
        self,
        pre: str,
        post: str,
        tag: str,
        pre_chunk: Chunklike,
        post_chunk: Chunklike,
        sources: npt.ArrayLike,
        targets: npt.ArrayLike,
    ) -> None:
        """Connect cells of two chunks, by their ranks in the merged file's chunks; those are checked by the merge."""
        if tag not in self._stats.tags:
            attributes = {"pre": pre, "post": post, "tag": tag, "created_at": now()}
            self._submit(Group(f"{CONNECTIVITY}/{tag}", attributes))
        unknown: dict[str, int | None] = {"sources": None, "targets": None}
        pre_at, post_at = as_chunk(pre_chunk), as_chunk(post_chunk)
        sizes = [s for s in (self._stats.chunk_size, pre_at.size, post_at.size) if s is not None]
        if any(not same_size(s, sizes[0]) for s in sizes):
            raise ParameterError(f"{tag!r}: chunks of different sizes, {sizes}; one file has one chunk size")
        record = plan_block(tag, pre_at, post_at, sources, targets, unknown)
        if record is not None:
            self._submit(replace(record, size=sizes[0] if sizes else None))

    def close(self) -> None:
        """Close the part; it waits for `merge_parts`."""
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _submit(self, record: Record) -> None:
        self._journal.append(record)
        self._note(record)

    def _note(self, record: Record) -> None:
        self._stats.note(record)
        if isinstance(record, Rows):
            for name, rows in record.arrays.items():
                if name.startswith("additional/"):
                    self._dtypes.setdefault((record.path, name[11:]), rows.dtype)


def part_paths(path: str | os.PathLike[str]) -> list[str]:
    """The parts of a network file, in the order they are merged."""
    folder = f"{os.path.realpath(path)}.parts"
    if not os.path.isdir(folder):
        return []
    return [os.path.join(folder, n) for n in sorted(os.listdir(folder)) if n.endswith(".part")]


def merge_parts(network: NetworkFile) -> int:
    """Make all parts, and the journal, part of the file, and remove them.

    Returns
    -------
    int
        How many parts were merged.

    Raises
    ------
    LockedError
        A worker has one open.
    ParameterError
        A part does not go with the file or with another part (chunk size, cell types, ranks). Nothing was merged.
    """
    with network.write_scope() as handle, contextlib.ExitStack() as stack:
        owner = network._handle
        parts = []
        for path in part_paths(network.path):
            journal = Journal.open(path)
            if journal is None:
                continue
            stack.callback(journal.close)
            try:
                fcntl.flock(journal.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise LockedError(f"{path} is open in a worker; close it before merging") from error
            parts.append((path, journal))
        present = {j.base.generation.hex() for _, j in parts}
        handle.stats.merged = {id: None for id in handle.stats.merged if id in present}
        fresh = [(p, j) for p, j in parts if j.base.generation.hex() not in handle.stats.merged]
        if fresh:
            _absorb(owner, fresh)
        for path, _ in parts:
            os.unlink(path)
        with contextlib.suppress(OSError):
            os.rmdir(f"{owner.path}.parts")
    return len(fresh)


def _absorb(owner: Handle, parts: list[tuple[str, Journal]]) -> None:
    owner.absorb(_merged(owner, _check(owner, parts)))


def _merged(owner: Handle, parts: list[tuple[str, Journal]]) -> Iterator[Record]:
    for _, journal in parts:
        for record, _ in journal.new_records(journal.end):
            yield _placed(owner.stats(), record)
        owner.stats().merged[journal.base.generation.hex()] = None


def _placed(stats: Statistics, record: Record) -> Record:
    """A part's record as it goes to the end of what the file has."""
    return replace(record, before=stats.count(record.path, record.chunk)) if isinstance(record, Rows) else record


def _check(owner: Handle, parts: list[tuple[str, Journal]]) -> list[tuple[str, Journal]]:
    """Look at all parts before any is applied."""
    stats, file = owner.stats(), owner.file()
    cells = {path: dict(of.cells) for path, of in stats.sets.items()}
    tags = {tag: (of.pre, of.post) for tag, of in stats.tags.items()}
    held: dict[tuple[str, int], dict[str, Any]] = {}
    size, connects = stats.chunk_size, []
    for path, journal in parts:
        if journal.base.state != _STATE:
            raise FormatError(f"{path} is not a part of a network file")
        for record, _ in journal.new_records(journal.end):
            match record:
                case Rows():
                    if record.size is not None and size is not None and not same_size(record.size, size):
                        raise ParameterError(f"{path}: chunks of size {record.size}, the file's are {size}")
                    size = size or record.size
                    of = cells.setdefault(record.path, {})
                    key = (record.path, record.chunk)
                    if key not in held and of.get(record.chunk, 0):
                        held[key] = _held(file, record.path, record.chunk)
                    if record.count:
                        _check_kinds(path, record, held)
                    of[record.chunk] = of.get(record.chunk, 0) + record.count
                case Group(path=group, attributes=attributes) if group.startswith(CONNECTIVITY):
                    tag, types = group.split("/", 1)[1], (attributes["pre"], attributes["post"])
                    if tags.setdefault(tag, types) != types:
                        raise ParameterError(f"{path}: {tag!r} connects {types}, in the file {tags[tag]}")
                case Connect():
                    if record.size is not None and size is not None and not same_size(record.size, size):
                        raise ParameterError(f"{path}: chunks of size {record.size}, the file's are {size}")
                    size = size or record.size
                    connects.append((path, record))
                case _:
                    pass
    for path, record in connects:
        _check_ranks(path, record, tags[record.tag], cells)
    return parts


def _held(file: h5py.File, path: str, chunk: int) -> dict[str, Any]:
    """Datasets of a chunk of the file that have rows, and their dtypes."""
    group = file[path].get(str(chunk), {})
    found = {name: node.dtype for name, node in group.items() if isinstance(node, h5py.Dataset) and len(node)}
    kept = group.get("additional", {})
    return found | {f"additional/{key}": node.dtype for key, node in kept.items() if len(node)}


def _check_kinds(path: str, record: Rows, held: dict[tuple[str, int], dict[str, Any]]) -> None:
    """Whether the cells of a record have what the others of their chunk have."""
    given = {name: rows.dtype for name, rows in record.arrays.items()}
    had = held.setdefault((record.path, record.chunk), given)
    where = f"{path}: chunk {as_chunk(record.chunk).coordinates} of {record.path}"
    for name in had.keys() | given.keys():
        if name in ("rotation", "labels"):
            continue
        if (
            (name in had) != (name in given)
            and (given.get(name) or had[name]).kind == "f"
            and name.startswith("additional/")
        ):
            continue  # NaN stands for what is missing
        if (name in had) != (name in given):
            raise ParameterError(f"{where} gets cells with {sorted(given)}, and has some with {sorted(had)}")
        if had[name] != given[name] and name.startswith("additional/"):
            raise ParameterError(f"{where}: {name[11:]!r} is {given[name]}, and {had[name]} before")


def _check_ranks(path: str, record: Connect, types: tuple[str, str], cells: dict[str, dict[int, int]]) -> None:
    start = 0
    a = record.arrays
    for pre, post, n in zip(a["pre"].tolist(), a["post"].tolist(), a["counts"].tolist(), strict=True):
        for name, chunk, rows in ((types[0], pre, a["src"]), (types[1], post, a["dst"])):
            have = cells.get(f"{PLACEMENT}/{name}", {}).get(chunk, 0)
            highest = int(rows[start : start + n, 0].max())
            if highest >= have:
                raise ParameterError(
                    f"{path}: {record.tag!r} connects cell {highest} of chunk {as_chunk(chunk).coordinates} "
                    f"of {name!r}, which has {have} cells"
                )
        start += n
