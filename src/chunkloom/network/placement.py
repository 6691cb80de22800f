"""Placement sets: the cells of one type, chunk by chunk, with positions, rotations, morphologies, labels and more.

Positions are x, y, z. Cells are numbered in the order of their chunks' ids. Knows how cells are filtered and
labelled, not how the file is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from chunkloom.network import hdf5
from chunkloom.network.access import OWN, ReadHandle, WriteHandle, handles_handles
from chunkloom.network.appending import ChunkState, MorphologyIndex, fit, plan_rows
from chunkloom.network.chunks import Chunklike, as_chunk
from chunkloom.network.errors import (
    MissingDataError,
    ParameterError,
    SetExistsError,
    SetNotFoundError,
)
from chunkloom.network.labelling import LabelledCells
from chunkloom.network.loader import (
    ChunkedCollection,
    ChunkedProperty,
    checked_size,
    gather,
    group_of,
)
from chunkloom.network.provenance import now
from chunkloom.network.records import Clear, Delete, Group, Overwrite
from chunkloom.network.resource import Network, Resource, checked_name
from chunkloom.network.statistics import PLACEMENT

Array = npt.NDArray[Any]
Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_VECTORS, _NUMBERS = np.empty((0, 3)), np.empty(0, np.int64)


class PlacementSet(
    LabelledCells,
    Resource,
    properties=(
        lambda loader: ChunkedProperty(loader, "position", shape=(0, 3), dtype=float),
        lambda loader: ChunkedProperty(loader, "rotation", shape=(0, 3), dtype=float),
        lambda loader: ChunkedProperty(loader, "morphology", shape=(0,), dtype=np.int64),
        lambda loader: ChunkedProperty(loader, "labels", shape=(0,), dtype=np.int64),
    ),
    collections=(lambda loader: ChunkedCollection(loader, "additional"),),
):
    """The cells of one type in one file.

    Two filters, kept in this object, narrow what it loads and what ranks count: chunks (`set_chunk_filter`) and labels
    (`set_label_filter`). Get one with `NetworkFile.placement` or `NetworkFile.require_placement`.

    Raises
    ------
    SetNotFoundError
        The file has no such set.
    """

    _additional_chunks: ChunkedCollection

    def __init__(self, network: Network, name: str) -> None:
        super().__init__(network, f"{PLACEMENT}/{checked_name(name, 'cell type')}")
        self.name = name
        self._labels = None
        with network.reading() as handle:
            if self._path not in handle.stats.sets:
                known = [p.split("/", 1)[1] for p in handle.stats.sets]
                raise SetNotFoundError(f"no placement set {name!r} in this file; it has: {', '.join(known) or 'none'}")

    @classmethod
    def create(cls, network: Network, name: str) -> Self:
        """Make a set that must not be there yet (`SetExistsError`)."""
        path = f"{PLACEMENT}/{checked_name(name, 'cell type')}"
        with network.writing() as handle:
            if path in handle.stats.sets:
                raise SetExistsError(f"there is a placement set {name!r} already; use require_placement")
            handle.submit(Group(path, {"cell_type": name, "created_at": now()}))
        return cls(network, name)

    @classmethod
    def require(cls, network: Network, name: str) -> Self:
        """The set, made if it is not there."""
        path = f"{PLACEMENT}/{checked_name(name, 'cell type')}"
        with network.reading() as handle:
            there = path in handle.stats.sets
        if not there:
            with network.writing() as writer:
                if path not in writer.stats.sets:
                    writer.submit(Group(path, {"cell_type": name, "created_at": now()}))
        return cls(network, name)

    @staticmethod
    def exists(network: Network, name: str) -> bool:
        """Whether the file has such a set."""
        with network.reading() as handle:
            return f"{PLACEMENT}/{name}" in handle.stats.sets

    def remove(self) -> None:
        """Remove the set with all its cells."""
        with self.network.writing() as handle:
            handle.submit(Delete(self._path))

    def __repr__(self) -> str:
        return f"<PlacementSet {self.name!r}: {len(self)} cells>"

    def __len__(self) -> int:
        with self.network.reading() as handle:
            if self._labels is None and self._filter is None:
                return sum(handle.stats.sets[self._path].cells.values()) if self._path in handle.stats.sets else 0
            return len(self.selection(handle=handle))

    # ---- loading

    @handles_handles("r")
    def load_ids(self, *, handle: ReadHandle = OWN) -> Ids:
        """Ids, in the whole set, of the selected cells."""
        return self.selection(handle=handle).ids()

    @handles_handles("r")
    def convert_to_local(self, ids: npt.ArrayLike, *, handle: ReadHandle = OWN) -> Ids:
        """Ranks among the selected cells of cells given by id, in the order given; others are left out."""
        if self._filter is None and self._labels is None:
            return np.asarray(ids, np.int64)
        return self.selection(handle=handle).local(ids)

    @handles_handles("r")
    def load_positions(self, *, handle: ReadHandle = OWN) -> Floats:
        """Positions x, y, z of the selected cells, (N, 3).

        In a set of entities only, (0, 3); where some cells have a position, NaN for those that have none.
        """
        ids = self.loaded_ids(handle)
        rows, missing = gather(handle, self._path, ids, "position", _VECTORS, np.nan)
        if missing is not None and missing.all():
            return np.empty((0, 3))
        return self._select(handle, rows)

    @handles_handles("r")
    def load_rotations(self, *, handle: ReadHandle = OWN) -> Floats:
        """Rotations of the selected cells as Euler angles about x, y, z, in degrees, (N, 3); 0 where none was given.

        Raises
        ------
        MissingDataError
            None of the loaded cells was given a rotation.
        """
        rows, missing = gather(handle, self._path, self.loaded_ids(handle), "rotation", _VECTORS, 0.0)
        rows = self._select(handle, rows)
        if missing is not None and missing.all() and len(rows):
            raise MissingDataError(
                f"the cells of {self.name!r} have no rotations; give some with append_data(rotations=)"
            )
        return rows

    @handles_handles("r")
    def load_morphologies(self, *, allow_empty: bool = False, handle: ReadHandle = OWN) -> MorphologyIndex:
        """Which morphology each selected cell has; -1 for those that have none.

        Raises
        ------
        MissingDataError
            None of the loaded cells has a morphology, and not `allow_empty`.
        """
        ids = self.loaded_ids(handle)
        rows, missing = gather(handle, self._path, ids, "morphology", _NUMBERS, -1)
        if missing is not None and missing.all():
            if not allow_empty and len(self._select(handle, rows)):
                raise MissingDataError(f"the cells of {self.name!r} have no morphologies; give some with append_data")
            return MorphologyIndex((), np.empty(0, np.int64))
        table: dict[str, int] = {}
        group = handle.file[self._path]
        at = 0
        for id in ids:
            n = handle.stats.sets[self._path].cells[id]
            here = rows[at : at + n]
            at += n
            if n and str(id) in group and "morphology_loaders" in group[str(id)].attrs:
                names = [str(name) for name in group[str(id)].attrs["morphology_loaders"]]
                new = np.array([table.setdefault(name, len(table)) for name in names] + [-1], np.int64)
                here[:] = new[here]
        return MorphologyIndex(tuple(table), self._select(handle, rows))

    @handles_handles("r")
    def load_additional(self, key: str, *, fill: Any = None, handle: ReadHandle = OWN) -> Array:
        """One key of the additional data, a row per selected cell, in the dtype it was written in.

        Parameters
        ----------
        fill : scalar, optional
            For cells that have no value. NaN by default, where the data are floats.

        Raises
        ------
        MissingDataError
            No cell of the set has this key; or some selected cell has no value, the data are integers or booleans, and
            `fill` is not given.
        """
        keys = handle.stats.sets[self._path].keys_of("additional")
        if key not in keys:
            raise MissingDataError(f"{self.name!r} has no additional data {key!r}; it has: {', '.join(keys) or 'none'}")
        ids = self.loaded_ids(handle)
        like = self._like(handle, ids, key)
        given = fill if fill is not None else np.nan if like.dtype.kind == "f" else 0
        rows, missing = gather(handle, self._path, ids, f"additional/{key}", like, given)
        if missing is not None and fill is None and like.dtype.kind != "f":
            gaps = int(np.count_nonzero(self._select(handle, missing)))
            if gaps:
                raise MissingDataError(
                    f"{gaps} of the cells of {self.name!r} have no {key!r}, "
                    f"and {like.dtype} has no value for that; pass fill="
                )
        return self._select(handle, rows)

    @handles_handles("r")
    def additional_keys(self, *, handle: ReadHandle = OWN) -> list[str]:
        """Names of the additional data that some cell of the set has, in the order they came."""
        return self._additional_chunks.keys(handle=handle)

    @handles_handles("r")
    def load_all_additional(self, *, handle: ReadHandle = OWN) -> dict[str, Array]:
        """Every key of the additional data, as `load_additional` gives it."""
        return {key: self.load_additional(key, handle=handle) for key in self._additional_chunks.keys(handle=handle)}

    @handles_handles("r")
    def get_chunk_stats(self, *, handle: ReadHandle = OWN) -> dict[int, int]:
        """Cells per chunk id; empty for a set that was never written."""
        of = handle.stats.sets.get(self._path)
        return {} if of is None else {c: of.cells[c] for c in sorted(of.cells)}

    def __iter__(self) -> Iterator[tuple[Floats, str | None]]:
        """Position and morphology name of every selected cell."""
        with self.network.reading() as handle:
            positions = self.load_positions(handle=handle)
            index = self.load_morphologies(allow_empty=True, handle=handle)
        for i, position in enumerate(positions):
            yield position, index.names[index.indices[i]] if i < len(index) and index.indices[i] >= 0 else None

    # ---- writing

    @handles_handles("a")
    def append_data(
        self,
        chunk: Chunklike,
        positions: npt.ArrayLike | None = None,
        morphologies: MorphologyIndex | Sequence[str] | None = None,
        rotations: npt.ArrayLike | None = None,
        additional: Mapping[str, npt.ArrayLike] | None = None,
        count: int | None = None,
        *,
        handle: WriteHandle = OWN,
    ) -> None:
        """Append cells to a chunk: all of what is given, or nothing.

        Parameters
        ----------
        chunk : Chunk, id or three coordinates
            A `Chunk` with a size sets the file's chunk size, or has to have it.
        positions, rotations : array, (N, 3)
            x, y, z; Euler angles in degrees.
        morphologies : MorphologyIndex, or a name per cell
            With them and without rotations, the rotations are 0.
        additional : mapping of str to array
            N rows of numbers or booleans each.
        count : int
            For cells without positions ("entities").

        Raises
        ------
        ParameterError
            Something does not fit. Nothing was written.
        """
        where = as_chunk(chunk)
        size = checked_size(handle, where)
        index = morphologies
        if index is not None and not isinstance(index, MorphologyIndex):
            index = MorphologyIndex.of(index)
        state = self._state(handle, where.id, additional)
        handle.submit(
            plan_rows(
                self._path, where, size, state, positions=positions, rotations=rotations, morphologies=index,
                additional=additional, count=count,
            )
        )  # fmt: skip

    def append_entities(
        self, chunk: Chunklike, count: int, additional: Mapping[str, npt.ArrayLike] | None = None
    ) -> None:
        """Append cells that are only counted."""
        self.append_data(chunk, count=count, additional=additional)

    @handles_handles("a")
    def append_additional(
        self, key: str, chunk: Chunklike, values: npt.ArrayLike, *, handle: WriteHandle = OWN
    ) -> None:
        """Give a key's values to the cells of a chunk that have none yet: a value for each of them.

        Raises
        ------
        ParameterError
            Another number of values, or a dtype the stored values cannot be kept in.
        """
        where = as_chunk(chunk)
        given = np.asarray(values)
        state = self._state(handle, where.id, {checked_name(key, "additional data"): given})
        have, dtype = state.additional.get(key, (0, given.dtype))
        what = f"{self.name!r}, chunk {where.coordinates}: additional data {key!r}"
        if given.ndim == 0 or len(given) != state.cells - have:
            raise ParameterError(
                f"{what}: {len(given) if given.ndim else 1} values for the {state.cells - have} cells that have none "
                f"yet"
            )
        if given.dtype.kind not in "biuf":
            raise ParameterError(f"{what} must be numbers or booleans, found {given.dtype}")
        rows = fit(given, dtype, what)
        if have:
            stored = hdf5.find(group_of(handle, self._path), f"{where.id}/additional/{key}".encode())
            rows = np.concatenate((hdf5.read_rows(stored), rows))
        handle.submit(Overwrite(self._path, where.id, f"additional/{key}", {"rows": rows}))

    @handles_handles("a")
    def clear(self, chunks: Iterable[Chunklike] | None = None, *, handle: WriteHandle = OWN) -> None:
        """Remove all cells, or those of some chunks (given in any form). Chunks that are not there are no error."""
        ids = None if chunks is None else tuple(as_chunk(c).id for c in chunks)
        handle.submit(Clear(self._path, ids))

    # ---- private

    def _select(self, handle: ReadHandle, rows: Array) -> Array:
        return rows if self._labels is None else rows[self._mask(handle, self._labels)]

    def _state(self, handle: WriteHandle, chunk: int, additional: Mapping[str, Any] | None) -> ChunkState:
        """What a chunk holds; looks into the file only where the counts do not tell."""
        of = handle.stats.sets.get(self._path)
        cells = 0 if of is None else of.cells.get(chunk, 0)
        if of is None or not cells:
            return ChunkState(0, frozenset(), {})
        given = of.given.get(chunk)
        if given is not None and not additional:
            return ChunkState(cells, given, {})
        group = handle.file[self._path].get(str(chunk))
        if group is None:
            return ChunkState(cells, frozenset(), {})
        kept = group.get("additional", {})
        known = {k: (len(kept[k]), kept[k].dtype) for k in (additional or ()) if k in kept}
        return ChunkState(cells, frozenset(n for n in group if n != "additional" and len(group[n])), known)

    def _like(self, handle: ReadHandle, ids: list[int], key: str) -> Array:
        group = group_of(handle, self._path)
        found = [hdf5.find(group, f"{id}/additional/{key}".encode()) for id in ids] if group is not None else []
        kinds = {(d.dtype, d.shape[1:]) for d in found if d is not None}
        if not kinds:
            return np.empty(0)
        shapes = {shape for _, shape in kinds}
        if len(shapes) > 1:
            raise ParameterError(f"{self.name!r}: chunks differ in the shape of {key!r}: {sorted(shapes)}")
        dtypes = sorted({dtype for dtype, _ in kinds}, key=str)
        joined = np.result_type(*dtypes)
        if joined.kind == "f" and any(d.kind in "iu" and d.itemsize == 8 for d in dtypes):
            raise ParameterError(
                f"{self.name!r}: {key!r} is stored as {' and '.join(map(str, dtypes))} in different "
                "chunks; load it chunk by chunk"
            )
        return np.empty((0, *shapes.pop()), joined)
