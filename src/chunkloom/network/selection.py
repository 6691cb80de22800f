"""The cells that a placement set's filters leave, and where each of them is.

A rank counts the cells of the selection, in chunk order; an id counts all cells of the set. Pure arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkloom.network.errors import RankError

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Selection:
    """Cells of some chunks.

    Attributes
    ----------
    chunks, counts : arrays of int64
        Ids of the loaded chunks, ascending, and their cells.
    offsets : array of int64
        The id of each chunk's first cell in the whole set.
    mask : array of bool, or None
        Which of the loaded cells are selected; None: all.
    """

    chunks: Ints
    counts: Ints
    offsets: Ints
    mask: npt.NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, cells: dict[int, int], loaded: list[int] | None, mask: Any = None) -> Selection:
        """From the cells of every chunk and the ids that are loaded (None: all)."""
        ids = np.fromiter(cells.keys(), np.int64, len(cells))
        order = np.argsort(ids, kind="stable")
        ids = ids[order]
        counts = np.fromiter(cells.values(), np.int64, len(cells))[order]
        offsets = np.cumsum(counts) - counts
        if loaded is not None:
            at = np.searchsorted(ids, np.array(loaded, np.int64))
            ids, counts, offsets = ids[at], counts[at], offsets[at]
        return cls(ids, counts, offsets, mask)

    def __len__(self) -> int:
        return int(self.counts.sum()) if self.mask is None else int(np.count_nonzero(self.mask))

    def ids(self) -> Ints:
        """Id in the whole set of every selected cell."""
        starts = np.cumsum(self.counts) - self.counts
        every = np.arange(int(self.counts.sum())) + np.repeat(self.offsets - starts, self.counts)
        return np.asarray(every if self.mask is None else every[self.mask], np.int64)

    def local(self, ids: npt.ArrayLike) -> Ints:
        """Ranks of cells given by id, in the order given; those outside the selection are left out."""
        given = np.asarray(ids, np.int64)
        mine = self.ids()
        if not len(mine):
            return np.empty(0, np.int64)
        order = np.argsort(mine, kind="stable")
        at = np.searchsorted(mine[order], given).clip(max=len(mine) - 1)
        ranks = order[at]
        return np.asarray(ranks[mine[ranks] == given], np.int64)

    def in_chunks(self, ranks: Ints) -> tuple[Ints, Ints]:
        """For each rank: which of `chunks` it is in (an index), and its rank in that chunk."""
        at = ranks if self.mask is None else np.flatnonzero(self.mask)[ranks]
        ends = np.cumsum(self.counts)
        chunk = np.searchsorted(ends, at, side="right")
        return chunk, at - (ends - self.counts)[chunk]


def checked_ranks(cells: npt.ArrayLike, size: int, what: str) -> Ints:
    """Ranks as sorted, unique int64.

    Raises
    ------
    RankError
        Not whole numbers from 0 to `size` - 1.
    """
    given = np.asarray(cells)
    if given.size == 0:
        return np.empty(0, np.int64)
    if given.dtype.kind not in "iu" or given.ndim != 1:
        raise RankError(f"{what}: cells are whole numbers or a mask of booleans, found {given.dtype} {given.shape}")
    low, high = int(given.min()), int(given.max())
    if low < 0 or high >= size:
        wrong = low if low < 0 else high
        raise RankError(f"{what}: cell {wrong} does not exist; {size} cells are selected, 0 to {size - 1}")
    return np.unique(given.astype(np.int64))


def checked_mask(mask: npt.ArrayLike, size: int, what: str) -> npt.NDArray[np.bool_]:
    """A mask of `size` booleans, or a `RankError`."""
    given = np.asarray(mask)
    if given.size == 0 and size == 0:
        return np.zeros(0, bool)
    if given.dtype != bool or given.shape != (size,):
        raise RankError(f"{what}: expected a mask of {size} booleans, found {given.dtype} {given.shape}")
    return given


def booleans(mask: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """A mask as an array, or a `RankError` for anything but booleans."""
    given = np.asarray(mask)
    if given.size == 0:
        return np.zeros(0, bool)
    if given.dtype != bool:
        raise RankError(f"a mask holds booleans, found {given.dtype}; label() takes cells by rank")
    return given
