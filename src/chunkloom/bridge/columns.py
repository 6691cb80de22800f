"""The cells of a type, and the connections of a tag, as named columns: what every export writes.

Also how an export comes to its files: all of them, or none that was not there before.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chunkloom.errors import ConflictError, WriteError
from chunkloom.network import NetworkFile
from chunkloom.network.errors import MissingDataError

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a type, N rows in the order of their ids 0 … N - 1.

    `positions` (x, y, z in µm) and `rotations` (degrees about x, y, z) are None where no cell has any; `morphology` is
    a name per cell, "" for none; `labels` maps each label to the ids of the cells that have it.
    """

    count: int
    positions: Array | None
    rotations: Array | None
    morphology: list[str] | None
    labels: dict[str, Array]
    additional: dict[str, Array]


@dataclass(frozen=True, eq=False)
class Connections:
    """The connections of a tag, N rows: cell, branch, point on either end; branch and point -1: the whole cell."""

    pre_type: str
    post_type: str
    pre: Array
    post: Array


def cells_of(network: NetworkFile, cell_type: str) -> Cells:
    """Everything about the cells of a type. Additional data of k numbers a cell become k columns, `name_0` and so on.

    Additional whole numbers that some cells lack are left out: there is no value for that.
    """
    cells = network.placement(cell_type)
    count = len(cells)
    positions = cells.load_positions()
    rotations = morphology = None
    with contextlib.suppress(MissingDataError):
        rotations = cells.load_rotations() if count else None
    with contextlib.suppress(MissingDataError):
        index = cells.load_morphologies()
        morphology = [*(index.names[i] if i >= 0 else "" for i in index.indices)] if len(index) else None
    labels = sorted({label for found in cells.get_unique_labels() for label in found})
    additional: dict[str, Array] = {}
    for key in cells.additional_keys():
        with contextlib.suppress(MissingDataError):
            values = cells.load_additional(key)
            flat = values.reshape(len(values), -1)
            names = [key] if values.ndim == 1 else [f"{key}_{i}" for i in range(flat.shape[1])]
            additional |= {name: flat[:, i] for i, name in enumerate(names)}
    return Cells(
        count,
        positions if len(positions) == count and count else None,
        rotations,
        morphology,
        {label: np.flatnonzero(cells.get_label_mask([label])) for label in labels},
        additional,
    )


def connections_of(network: NetworkFile, tag: str) -> Connections:
    """The connections of a tag, sorted by postsynaptic, then presynaptic cell."""
    links = network.connectivity(tag)
    pre, post = links.load_connections()
    order = np.lexsort((pre[:, 0], post[:, 0]))
    return Connections(links.pre, links.post, pre[order], post[order])


def free_names(columns: Mapping[str, Array], taken: set[str]) -> dict[str, Array]:
    """Columns under names that are not taken: `additional_NAME` where NAME is."""
    return {f"additional_{name}" if name in taken else name: values for name, values in columns.items()}


def write_files(
    folder: str | os.PathLike[str], writers: Mapping[str, Callable[[Path], None]], *, overwrite: bool
) -> list[str]:
    """Make files in a folder, which is made if it is not there; their paths.

    Raises
    ------
    ConflictError
        One of them is there, and not `overwrite`. None was written.
    WriteError
        The disk is full, or the folder cannot be written.
    """
    into = Path(folder)
    there = [name for name in writers if (into / name).exists()]
    if there and not overwrite:
        raise ConflictError(f"{into} has {', '.join(there)} already: choose another folder, or --overwrite")
    made: list[tuple[Path, Path]] = []
    try:
        into.mkdir(parents=True, exist_ok=True)
        for name, write in writers.items():
            made.append((into / f".{name}.{os.getpid()}.tmp", into / name))
            write(made[-1][0])
        for temporary, target in made:
            temporary.replace(target)
    except OSError as error:
        raise WriteError(f"{into} cannot be written: {error.strerror or error}") from error
    finally:
        for temporary, _ in made:
            temporary.unlink(missing_ok=True)
    return [str(target) for _, target in made]
