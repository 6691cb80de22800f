"""A network's cells and connections as Parquet tables, a file per cell type and per tag."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from chunkloom.bridge.columns import Cells, Connections, cells_of, connections_of, free_names, write_files
from chunkloom.kernels.optional import optional_module
from chunkloom.network import NetworkFile


def export(network: NetworkFile, folder: str | os.PathLike[str], *, overwrite: bool = False) -> list[str]:
    """Write `cells-TYPE.parquet` and `connections-TAG.parquet` into a folder; the paths of all.

    Cells have `id`, and where they are given `x_um`, `y_um`, `z_um`, `rotation_x_deg` …, `morphology`, `labels` (a
    list) and the additional data in their own dtypes. Connections have `pre_id`, `pre_branch`, `pre_point`, and
    the same of `post`.

    Raises
    ------
    ConflictError, WriteError
        As for `chunkloom.bridge.columns.write_files`.
    MissingExtraError
        There is no pyarrow.
    """
    optional_module("pyarrow.parquet", "objects", "tables as Parquet")
    with network.read_scope():
        writers = {
            f"cells-{name}.parquet": partial(_write, cell_columns(cells_of(network, name)))
            for name in network.placement_names()
        }
        for tag in network.connectivity_tags():
            writers[f"connections-{tag}.parquet"] = partial(_write, connection_columns(connections_of(network, tag)))
    return write_files(folder, writers, overwrite=overwrite)


def cell_columns(cells: Cells) -> dict[str, Any]:
    """The table of the cells of a type."""
    columns: dict[str, Any] = {"id": np.arange(cells.count)}
    for values, form in ((cells.positions, "{}_um"), (cells.rotations, "rotation_{}_deg")):
        if values is not None:
            columns |= {form.format(axis): values[:, i] for i, axis in enumerate("xyz")}
    if cells.morphology is not None:
        columns["morphology"] = cells.morphology
    if cells.labels:
        lists: list[list[str]] = [[] for _ in range(cells.count)]
        for label, ids in cells.labels.items():
            for id in ids:
                lists[id].append(label)
        columns["labels"] = lists
    return columns | free_names(cells.additional, set(columns))


def connection_columns(connections: Connections) -> dict[str, Any]:
    """The table of the connections of a tag."""
    return {
        f"{side}_{what}": ends[:, i]
        for side, ends in (("pre", connections.pre), ("post", connections.post))
        for i, what in enumerate(("id", "branch", "point"))
    }


def _write(columns: dict[str, Any], path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    arrays = {name: np.ascontiguousarray(c) if isinstance(c, np.ndarray) else c for name, c in columns.items()}
    pyarrow.parquet.write_table(pyarrow.table(arrays), path)
