"""The table of objects of a volume of labels: how large each is, and where. Made chunk by chunk, exact for the whole.

Knows volumes and arrays; files only as a place to write the table to.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from chunkloom.engine.demand import UNCLAIMED
from chunkloom.engine.sweep import Each, in_threads
from chunkloom.engine.volume import Array, Volume
from chunkloom.errors import ParameterError, VolumeNotFoundError
from chunkloom.geometry import Box, Grid
from chunkloom.kernels.regions import Regions, merged, regions

if TYPE_CHECKING:
    from chunkloom.engine.demand import Work

AXES = ("z", "y", "x")

_MOST_WAITING = 1 << 18
"""Rows of chunks that are kept before they are put together: a few tens of megabytes."""


@dataclass(frozen=True, eq=False)
class ObjectTable:
    """Objects, one a row, sorted by id. Columns are arrays of n.

    Attributes
    ----------
    label_id : uint64
    voxels : int64
    centroid_nm : (n, 3) float64
        Mean of the voxels' centres in the world, z, y, x.
    bbox_begin, bbox_end : (n, 3) int64
        Half-open, in voxels of the level measured.
    touches_border : bool
        Whether a voxel lies at an end of what was measured, so that the object may go on beyond it.
    """

    label_id: NDArray[np.uint64]
    voxels: NDArray[np.int64]
    centroid_nm: NDArray[np.float64]
    bbox_begin: NDArray[np.int64]
    bbox_end: NDArray[np.int64]
    touches_border: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.label_id)

    def columns(self) -> dict[str, Array]:
        """Every column under its name in files, in their order."""
        named: dict[str, Array] = {"label_id": self.label_id, "voxels": self.voxels}
        named |= {f"centroid_{axis}_nm": self.centroid_nm[:, i] for i, axis in enumerate(AXES)}
        named |= {f"bbox_begin_{axis}": self.bbox_begin[:, i] for i, axis in enumerate(AXES)}
        named |= {f"bbox_end_{axis}": self.bbox_end[:, i] for i, axis in enumerate(AXES)}
        return {**named, "touches_border": self.touches_border}


def measure_objects(
    volume: Volume,
    *,
    level: int = 0,
    box: Box | None = None,
    each: Each | None = None,
    work: Work = UNCLAIMED,
    progress: Callable[[int, int], None] | None = None,
) -> ObjectTable:
    """Measure every object (id other than 0) of a volume of labels.

    Parameters
    ----------
    volume
        Labels without channel axes. Ids must be those of the whole: where they are still those of chunks, use
        `chunkloom.engine.finalize` first.
    level
        Which level is measured.
    box
        Voxels of that level, z, y, x; all of it when left out. What lies outside does not count.
    each
        Applies a function to the index of each chunk: `map`, or `in_threads()` (the default).
    work
        Asked now and then whether somebody still waits.
    progress
        Called with the number of chunks done, and of all.

    Raises
    ------
    ParameterError
        The volume is not labels, or its ids are those of chunks.
    """
    described = volume.level(level)
    if described.channels or described.dtype.kind not in "bui":
        raise ParameterError(
            f"objects are measured of labels z, y, x: this volume has axes {', '.join(described.axes)} and dtype "
            f"{described.dtype}; choose a channel, or make labels of it first (connected_components)"
        )
    if volume.seams is not None:
        raise ParameterError(
            "the ids of this volume are those of its chunks: measure finalize(volume), which gives each object one id"
        )
    inside = (box or described.box).intersect(described.box)
    chunks = inside.chunk_range(described.spatial_chunk)

    def measure(index: tuple[int, ...]) -> Regions:
        work.check()
        part = Box.of_chunk(index, described.spatial_chunk).intersect(inside)
        return regions(volume.read_box(level, part, work), part.lo)

    waiting: list[Regions] = []
    rows, limit = 0, _MOST_WAITING
    for done, found in enumerate((each or in_threads())(measure, chunks.indices()), 1):
        waiting.append(found)
        rows += len(found.ids)
        if rows > limit:
            waiting = [merged(waiting)]
            rows = len(waiting[0].ids)
            # Twice what is left, so that putting together stays a small part of the work.
            limit = max(_MOST_WAITING, 2 * rows)
        if progress is not None:
            progress(done, chunks.size)
    return _table(merged(waiting), described.grid, inside)


def _table(found: Regions, grid: Grid, measured: Box) -> ObjectTable:
    size, corner = np.array(grid.voxel_size_nm), np.array(grid.corner_nm)
    centre = found.sums / found.voxels[:, np.newaxis] + 0.5
    at_end = (found.begin == np.array(measured.lo)) | (found.end == np.array(measured.hi))
    return ObjectTable(
        label_id=found.ids,
        voxels=found.voxels,
        centroid_nm=corner + centre * size,
        bbox_begin=found.begin,
        bbox_end=found.end,
        touches_border=at_end.any(axis=1),
    )


def write_objects(table: ObjectTable, path: str | os.PathLike[str]) -> None:
    """Write a table of objects as its suffix says: `.parquet` (needs pyarrow) or `.csv`.

    The file appears whole or not at all; one that is there is replaced.

    Raises
    ------
    ParameterError
        Another suffix.
    MissingExtraError
        Parquet without pyarrow.
    """
    target = Path(path)
    writers = {".parquet": _write_parquet, ".csv": _write_csv}
    if target.suffix not in writers:
        raise ParameterError(f"{target} ends in {target.suffix or 'no suffix'!r}: expected .parquet or .csv")
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        writers[target.suffix](table, beside)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def _write_parquet(table: ObjectTable, path: Path) -> None:
    from chunkloom.kernels.optional import optional_module

    arrow = optional_module("pyarrow", "objects", "a table of objects as Parquet (.csv needs nothing more)")
    parquet = optional_module("pyarrow.parquet", "objects", "a table of objects as Parquet (.csv needs nothing more)")
    parquet.write_table(arrow.table({name: np.ascontiguousarray(c) for name, c in table.columns().items()}), path)


def _write_csv(table: ObjectTable, path: Path) -> None:
    columns = table.columns()
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))


def read_objects(path: str | os.PathLike[str]) -> ObjectTable:
    """A table of objects as `write_objects` wrote it, sorted by id; columns may come in any order.

    Raises
    ------
    VolumeNotFoundError
        There is no such file.
    ParameterError
        Another suffix, columns that are missing or hold something else, or an id twice.
    MissingExtraError
        Parquet without pyarrow.
    """
    source = Path(path)
    readers = {".parquet": _read_parquet, ".csv": _read_csv}
    if source.suffix not in readers:
        raise ParameterError(f"{source} ends in {source.suffix or 'no suffix'!r}: expected .parquet or .csv")
    if not source.is_file():
        raise VolumeNotFoundError(f"no table of objects {source}")
    found = readers[source.suffix](source)
    wanted = _EMPTY.columns()
    missing = [name for name in wanted if name not in found]
    if missing:
        raise ParameterError(f"{source} is no table of objects: it has no column {', '.join(missing)}")
    columns = {name: _column(source, name, found[name], like.dtype) for name, like in wanted.items()}
    order = np.argsort(columns["label_id"], kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    ids = columns["label_id"]
    if (ids[1:] == ids[:-1]).any():
        raise ParameterError(f"{source} has id {ids[1:][ids[1:] == ids[:-1]][0]} twice: expected each object once")

    def three(name: str) -> Array:
        return np.stack([columns[name.format(axis)] for axis in AXES], axis=1)

    return ObjectTable(
        label_id=ids,
        voxels=columns["voxels"],
        centroid_nm=three("centroid_{}_nm"),
        bbox_begin=three("bbox_begin_{}"),
        bbox_end=three("bbox_end_{}"),
        touches_border=columns["touches_border"],
    )


_NONE = np.zeros((0, 3), np.int64)
_EMPTY = ObjectTable(
    np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros((0, 3)), _NONE, _NONE, np.zeros(0, np.bool_)
)


def _read_parquet(path: Path) -> dict[str, Array]:
    from chunkloom.kernels.optional import optional_module

    parquet = optional_module("pyarrow.parquet", "objects", "a table of objects as Parquet (.csv needs nothing more)")
    try:
        table = parquet.read_table(path)
    except (OSError, ValueError) as error:
        raise ParameterError(f"{path} is not a Parquet file that can be read: {error}") from error
    return {name: table[name].to_numpy() for name in table.column_names}


def _read_csv(path: Path) -> dict[str, Array]:
    with path.open(newline="") as file:
        reader = csv.reader(file)
        names = next(reader, [])
        rows = list(reader)
    for line, row in enumerate(rows, 2):
        if len(row) != len(names):
            raise ParameterError(f"{path}, line {line}: {len(row)} values for {len(names)} columns")
    return {name: np.array([row[i] for row in rows], dtype=object) for i, name in enumerate(names)}


def _column(path: Path, name: str, given: Array, dtype: np.dtype[np.generic]) -> Array:
    """A column in its own dtype, exactly; text (of CSV) as the number it names."""
    try:
        if given.dtype != object:
            if given.dtype.kind not in ("b" if dtype.kind == "b" else "iu" if dtype.kind in "iu" else "iuf"):
                raise ValueError(f"found {given.dtype}")
            column = given.astype(dtype)
            if dtype.kind in "iu" and not np.array_equal(column.astype(object), given.astype(object)):
                raise ValueError("some do not fit")
            return column
        if dtype.kind == "b":
            return np.array([{"True": True, "False": False, "1": True, "0": False}[text] for text in given], bool)
        return np.array([int(text) if dtype.kind in "iu" else float(text) for text in given], dtype)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise ParameterError(f"{path}, column {name}: expected values of {dtype.name} ({error})") from error
