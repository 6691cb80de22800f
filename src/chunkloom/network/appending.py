"""What may be appended to a placement set: every check, before anything is written.

From the caller's arrays and what the chunk holds to one `Rows` record. Reads no file; `ChunkState` tells what is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkloom.network.chunks import Chunk, Size
from chunkloom.network.errors import ParameterError
from chunkloom.network.records import Rows
from chunkloom.network.resource import checked_name

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class MorphologyIndex:
    """Which morphology each cell has: `names[indices[i]]` is that of cell i; -1: it has none.

    Attributes
    ----------
    names : tuple of str
    indices : array of int64
        (N,)
    """

    names: tuple[str, ...]
    indices: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.indices)

    @classmethod
    def of(cls, names: Iterable[str]) -> MorphologyIndex:
        """From one name per cell."""
        table: dict[str, int] = {}
        indices = [table.setdefault(n, len(table)) for n in names]
        return cls(tuple(table), np.array(indices, np.int64))


@dataclass(frozen=True)
class ChunkState:
    """What a chunk holds before an append: cells, which datasets have rows, rows and dtype of additional data."""

    cells: int
    datasets: frozenset[str]
    additional: Mapping[str, tuple[int, np.dtype[Any]]]


def plan_rows(
    path: str,
    chunk: Chunk,
    size: Size | None,
    state: ChunkState,
    *,
    positions: npt.ArrayLike | None = None,
    rotations: npt.ArrayLike | None = None,
    morphologies: MorphologyIndex | None = None,
    additional: Mapping[str, npt.ArrayLike] | None = None,
    count: int | None = None,
) -> Rows:
    """The record that appends these cells.

    Raises
    ------
    ParameterError
        The arrays disagree in length, have the wrong shape or dtype, or do not go with what the chunk holds.
    """
    where = f"{path.split('/', 1)[1]!r}, chunk {chunk.coordinates}"
    arrays: dict[str, Array] = {}
    if positions is None:
        if morphologies is not None or rotations is not None:
            raise ParameterError(f"{where}: morphologies and rotations need positions; give all three")
        n = _count(count, where)
    else:
        if count is not None:
            raise ParameterError(f"{where}: count is for cells without positions; leave it out")
        arrays["position"] = whole = _vectors(positions, "positions", where)
        n = len(whole)
    if morphologies is not None:
        arrays["morphology"] = _morphologies(morphologies, n, where)
        if rotations is None:
            rotations = np.zeros((n, 3))
    if rotations is not None:
        arrays["rotation"] = turned = _vectors(rotations, "rotations", where)
        _same_length("rotations", len(turned), n, where)
    for key, values in (additional or {}).items():
        arrays[f"additional/{checked_name(key, 'additional data')}"] = _additional(key, values, n, state, where)
    if n == 0:
        return Rows(path, chunk.id, size, state.cells, 0)
    if state.cells:
        for name, what in (("position", "positions"), ("morphology", "morphologies")):
            if (name in state.datasets) != (name in arrays):
                has = "have" if name in state.datasets else "have no"
                raise ParameterError(
                    f"{where}: its {state.cells} cells {has} {what}, these {n} {'do' if name in arrays else 'do not'}. "
                    "The cells of one chunk either all have them or none"
                )
    names = morphologies.names if morphologies is not None else ()
    return Rows(path, chunk.id, size, state.cells, n, tuple(names), arrays)


def _count(count: int | None, where: str) -> int:
    if count is None:
        raise ParameterError(f"{where}: give positions, or count for cells that have none")
    if isinstance(count, bool) or int(count) != count or count < 0:
        raise ParameterError(f"{where}: count {count!r} is not a whole number of cells")
    return int(count)


def _vectors(values: npt.ArrayLike, what: str, where: str) -> Array:
    whole = np.asarray(values)
    if whole.size == 0 and whole.ndim < 2:
        return np.empty((0, 3))
    if whole.ndim != 2 or whole.shape[1] != 3 or whole.dtype.kind not in "iuf":
        raise ParameterError(f"{where}: {what} must be numbers of shape (N, 3), found {whole.dtype} {whole.shape}")
    return np.ascontiguousarray(whole, "<f8")


def _morphologies(index: MorphologyIndex, n: int, where: str) -> Array:
    indices = np.asarray(index.indices)
    _same_length("morphologies", len(indices), n, where)
    if n and not (indices.min() >= 0 and indices.max() < len(index.names)):
        raise ParameterError(f"{where}: morphology indices must be 0 to {len(index.names) - 1}")
    return indices.astype(np.int64)


def _additional(key: str, values: npt.ArrayLike, n: int, state: ChunkState, where: str) -> Array:
    whole = np.asarray(values)
    _same_length(f"additional data {key!r}", len(whole) if whole.ndim else -1, n, where)
    if n == 0 and whole.dtype.kind not in "biuf":
        return whole.astype(float)
    if whole.dtype.kind not in "biuf" or whole.dtype.itemsize > 8:
        raise ParameterError(f"{where}: additional data {key!r} must be numbers or booleans, found {whole.dtype}")
    have, dtype = state.additional.get(key, (0, whole.dtype))
    if n and have < state.cells and dtype.kind != "f":
        raise ParameterError(
            f"{where}: {state.cells - have} of its cells have no {key!r}, and {dtype} has no value for that. "
            "Give theirs first (append_additional), or use floats"
        )
    return fit(whole, dtype, f"{where}: additional data {key!r}")


def fit(values: Array, dtype: np.dtype[Any], what: str) -> Array:
    """Values as the dtype their dataset has.

    Raises
    ------
    ParameterError
        Some of them cannot be kept exactly.
    """
    if values.dtype == dtype:
        return values
    with np.errstate(invalid="ignore"):
        cast = values.astype(dtype)
        back = cast.astype(values.dtype)
    if not np.array_equal(back, values, equal_nan=values.dtype.kind == "f"):
        raise ParameterError(f"{what} is stored as {dtype}, which cannot hold these {values.dtype} values exactly")
    return cast


def _same_length(what: str, found: int, expected: int, where: str) -> None:
    if found != expected:
        raise ParameterError(
            f"{where}: {what} for {found} cells, but {expected} cells are appended. Nothing was written"
        )
