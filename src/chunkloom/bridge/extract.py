"""From a volume of labels to the cells of a network: every object, placed at its centroid.

Volumes are z, y, x in nm; networks are x, y, z in µm: `position_um` and `size_um` are where the two meet. Knows
volumes and network files, not the command line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chunkloom.engine.demand import UNCLAIMED
from chunkloom.engine.finalize import finalize
from chunkloom.engine.objects import ObjectTable, measure_objects
from chunkloom.engine.sweep import Each, in_threads
from chunkloom.engine.volume import Level, Volume
from chunkloom.errors import ConflictError, ParameterError
from chunkloom.network import Chunk, NetworkFile, PlacementSet
from chunkloom.network.chunks import chunk_coordinates, chunk_ids, same_size
from chunkloom.network.records import Clear
from chunkloom.network.resource import checked_name

if TYPE_CHECKING:
    from chunkloom.engine.demand import Work

CHUNK_NM = (100_000.0, 100_000.0, 100_000.0)
"""Chunk size, z, y, x, of a file that has none yet."""

Progress = Callable[[int, int], None]
Size = tuple[float, float, float]


@dataclass(frozen=True)
class Placed:
    """What became of a volume of labels."""

    cell_type: str
    cells: int
    chunks: int
    at_border: int
    """Cells that touch an end of the volume, and may go on beyond it."""


def position_um(nm: NDArray[np.float64]) -> NDArray[np.float64]:
    """Positions x, y, z in µm of positions z, y, x in nm, (N, 3)."""
    return np.ascontiguousarray(nm[:, ::-1]) / 1000


def size_um(nm: Sequence[float]) -> Size:
    """A chunk's size x, y, z in µm of its size z, y, x in nm."""
    z, y, x = (float(n) / 1000 for n in nm)
    return x, y, z


def extract(
    volume: Volume,
    path: str | os.PathLike[str],
    cell_type: str,
    *,
    table: ObjectTable | None = None,
    chunk_size_nm: Sequence[float] | None = None,
    overwrite: bool = False,
    each: Each | None = None,
    work: Work = UNCLAIMED,
    progress: Progress | None = None,
) -> Placed:
    """Place every object (id other than 0) of a volume of labels in a network file, which is made if it is not there.

    The file gets all of them in one step, once all are measured: an error, a signal or a kill leaves it as it was.

    Parameters
    ----------
    volume
        Labels z, y, x without channel axes.
    table
        Of the volume's objects, where they are measured already.
    chunk_size_nm
        z, y, x, for a file without a chunk size. Default: `CHUNK_NM`.
    overwrite
        Replace the cells this type has. Connections from and to them go, too.
    each, work, progress
        As for `chunkloom.engine.objects.measure_objects`.

    Raises
    ------
    ParameterError
        Not labels; a table of another volume; the file's chunks have another size, or are too small for the volume.
    ConflictError
        The type has cells already, and not `overwrite`.
    """
    size = _chunk_size(path, cell_type, chunk_size_nm, overwrite)
    _check_extent(volume.level(0), size)
    if table is None:
        table = measure(volume, each=each, work=work, progress=progress)
    else:
        _check_table(table, volume.level(0))
    work.check()
    if NetworkFile.exists(path):
        with NetworkFile.open(path) as network:
            return place(network, cell_type, table, size, overwrite=overwrite)
    with NetworkFile.create(path, chunk_size=size) as network:
        try:
            return place(network, cell_type, table, size)
        except BaseException:
            network.remove()
            raise


def measure(
    volume: Volume, *, each: Each | None = None, work: Work = UNCLAIMED, progress: Progress | None = None
) -> ObjectTable:
    """The table of a volume's objects; where their ids are those of chunks, each gets one id first."""
    each = each or in_threads()
    if volume.seams is not None:
        volume = finalize(volume, each=each, work=work)
    return measure_objects(volume, each=each, work=work, progress=progress)


def place(network: NetworkFile, cell_type: str, table: ObjectTable, size: Size, *, overwrite: bool = False) -> Placed:
    """Write a table of objects as the cells of a type, chunk by chunk, all or none."""
    cells = network.require_placement(cell_type)
    positions = position_um(table.centroid_nm)
    home = chunk_ids(np.floor(positions / np.array(size)))
    order = np.argsort(home, kind="stable")  # by chunk, and by id within it: cells are numbered in this order
    starts = np.flatnonzero(np.concatenate([[True], np.diff(home[order]) != 0])) if len(home) else np.zeros(0, int)
    columns = additional_data(table)
    with network.at_once() as batch:
        if overwrite:
            for tag, of in batch.stats.tags.items():
                if cell_type in (of.pre, of.post) and of.total:
                    batch.submit(Clear(f"connectivity/{tag}", None))
            batch.submit(Clear(cells.path, None))
        elif batch.stats.sets[cells.path].cells:
            raise _occupied(network.path, cells)
        for begin, end in zip(starts, [*starts[1:], len(order)], strict=True):
            rows = order[begin:end]
            chunk = Chunk(chunk_coordinates(home[rows[:1]])[0].tolist(), size)
            additional = {name: column[rows] for name, column in columns.items()}
            cells.append_data(chunk, positions[rows], additional=additional, handle=batch)
    return Placed(cell_type, len(table), len(starts), int(table.touches_border.sum()))


def additional_data(table: ObjectTable) -> dict[str, NDArray[Any]]:
    """What a cell keeps of its object beside its position, under the names of the table, in their own dtypes."""
    return {name: column for name, column in table.columns().items() if not name.startswith("centroid")}


def _chunk_size(
    path: str | os.PathLike[str], cell_type: str, asked_nm: Sequence[float] | None, overwrite: bool
) -> Size:
    """The chunk size to use; all that can be wrong with the file is found here, before anything is measured."""
    checked_name(cell_type, "cell type")
    asked = None if asked_nm is None else size_um(asked_nm)
    known = None
    if os.path.isdir(path):
        raise ParameterError(f"{path} is a folder: expected the path of an HDF5 file, there or to be made")
    if NetworkFile.exists(path):
        network = NetworkFile.open(path, "r")
        known = network.chunk_size
        if cell_type in network.placement_names() and not overwrite:
            cells = network.placement(cell_type)
            if len(cells):
                raise _occupied(network.path, cells)
    elif not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise ParameterError(f"{path} cannot be made: there is no folder {os.path.dirname(os.path.abspath(path))}")
    if known is not None and asked is not None and not same_size(known, asked):
        in_nm = ",".join(f"{n * 1000:g}" for n in reversed(known))
        raise ParameterError(f"{path} has chunks of {in_nm} nm (z, y, x): leave --chunk-size-nm out, or give that")
    return known or asked or size_um(CHUNK_NM)


def _occupied(path: str, cells: PlacementSet) -> ConflictError:
    return ConflictError(
        f"{path} has {len(cells)} cells of type {cells.name!r} already: choose another --cell-type, or --overwrite "
        "to replace them"
    )


def _check_extent(level: Level, size: Size) -> None:
    whole = level.grid.box_to_world(level.box)
    ends = position_um(np.array([whole.begin, whole.end]))
    coordinates = np.floor(ends / np.array(size))
    if coordinates.min() < -32768 or coordinates.max() > 32767:
        raise ParameterError(
            f"the volume reaches from {ends[0].tolist()} to {ends[1].tolist()} µm (x, y, z): chunks of {list(size)} µm "
            "are too small for it, 65,536 per axis are the most; give a larger --chunk-size-nm"
        )


def _check_table(table: ObjectTable, level: Level) -> None:
    if len(table) == 0:
        return
    if (table.bbox_begin < 0).any() or (table.bbox_end > np.array(level.spatial_shape)).any():
        raise ParameterError(
            f"the table of objects reaches to voxel {table.bbox_end.max(0).tolist()}, the volume has "
            f"{list(level.spatial_shape)} (z, y, x): it is of another volume or level"
        )
    size, corner = np.array(level.grid.voxel_size_nm), np.array(level.grid.corner_nm)
    low, high = corner + table.bbox_begin * size, corner + table.bbox_end * size
    slack = 1e-6 * (np.abs(low) + np.abs(high) + size)
    wrong = ((table.centroid_nm < low - slack) | (table.centroid_nm > high + slack)).any(axis=1)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise ParameterError(
            f"the table of objects puts object {table.label_id[at]} at {table.centroid_nm[at].tolist()} nm, outside "
            f"its own box in this volume, {low[at].tolist()} to {high[at].tolist()}: is it of another volume?"
        )
