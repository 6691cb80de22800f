"""Labels of the cells of a placement set, and the choice of cells that labels and chunks together leave."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkloom.network.access import OWN, ReadHandle, WriteHandle, handles_handles
from chunkloom.network.labelsets import LabelSets
from chunkloom.network.loader import ChunkLoader, gather
from chunkloom.network.records import Labels
from chunkloom.network.selection import Selection, booleans, checked_mask, checked_ranks

Array = npt.NDArray[Any]
Ids = npt.NDArray[np.int64]
_NUMBERS = np.empty(0, np.int64)


class LabelledCells(ChunkLoader):
    """A chunk loader whose chunks hold cells with a property "labels"."""

    name: str
    _labels: list[str] | None

    def set_label_filter(self, labels: Iterable[str] | None) -> None:
        """Load only cells with any of these labels; the unlabelled ones if the list is empty; all if None."""
        self._labels = None if labels is None else list(labels)

    def get_label_filter(self) -> list[str] | None:
        """The labels of the filter."""
        return self._labels

    @handles_handles("r")
    def selection(self, *, handle: ReadHandle = OWN) -> Selection:
        """The cells both filters leave."""
        of = handle.stats.sets.get(self._path)
        cells = {} if of is None else of.cells
        loaded = None if self._filter is None else self.loaded_ids(handle)
        mask = None if self._labels is None else self._mask(handle, self._labels)
        return Selection.of(cells, loaded, mask)

    def label(self, labels: Iterable[str], cells: npt.ArrayLike) -> None:
        """Give labels to cells: ranks in the selection, or a mask over it.

        Raises
        ------
        RankError
            A rank or mask that does not fit the selection.
        """
        self._relabel(labels, cells, remove=False)

    def remove_labels(self, labels: Iterable[str], cells: npt.ArrayLike) -> None:
        """Take labels from cells; see `label`."""
        self._relabel(labels, cells, remove=True)

    def label_by_mask(self, labels: Iterable[str], mask: npt.ArrayLike) -> None:
        """Give labels to the cells of a mask over the selection."""
        self._relabel(labels, booleans(mask), remove=False)

    def remove_labels_by_mask(self, labels: Iterable[str], mask: npt.ArrayLike) -> None:
        """Take labels from the cells of a mask over the selection."""
        self._relabel(labels, booleans(mask), remove=True)

    @handles_handles("r")
    def get_label_mask(self, labels: Iterable[str] | None = None, *, handle: ReadHandle = OWN) -> npt.NDArray[np.bool_]:
        """Which cells of the loaded chunks have any of these labels ([]: none at all; None: all cells)."""
        return self._mask(handle, labels)

    @handles_handles("r")
    def get_labelled(self, labels: Iterable[str] | None = None, *, handle: ReadHandle = OWN) -> Ids:
        """Ids of the cells of the loaded chunks with any of these labels ([]: with none at all; None: of all cells)."""
        loaded = self.loaded_ids(handle)
        of = handle.stats.sets.get(self._path)
        return Selection.of({} if of is None else of.cells, loaded, self._mask(handle, labels)).ids()

    @handles_handles("r")
    def get_unique_labels(self, *, handle: ReadHandle = OWN) -> list[frozenset[str]]:
        """The sets of labels that cells of the loaded chunks have, in the order they came to be."""
        numbers = np.unique(self._numbers(handle))
        sets = LabelSets.read(handle.file[self._path]).sets if len(numbers) else {}
        return [sets.get(int(n), frozenset()) for n in numbers]

    def _numbers(self, handle: ReadHandle) -> Array:
        return gather(handle, self._path, self.loaded_ids(handle), "labels", _NUMBERS, 0)[0]

    def _mask(self, handle: ReadHandle, labels: Iterable[str] | None) -> npt.NDArray[np.bool_]:
        if labels is None:
            of = handle.stats.sets.get(self._path)
            return np.ones(0 if of is None else sum(of.cells[c] for c in self.loaded_ids(handle)), bool)
        numbers = self._numbers(handle)
        if not len(numbers):
            return np.zeros(0, bool)
        matching = LabelSets.read(handle.file[self._path]).matching(labels)
        return np.isin(numbers, matching)

    @handles_handles("a")
    def _relabel(self, labels: Iterable[str], cells: npt.ArrayLike, *, remove: bool, handle: WriteHandle = OWN) -> None:
        names = (labels,) if isinstance(labels, str) else tuple(dict.fromkeys(labels))
        selection = self.selection(handle=handle)
        what = f"labels of {self.name!r}"
        given = np.asarray(cells)
        if given.dtype == bool:
            ranks = np.flatnonzero(checked_mask(given, len(selection), what))
        else:
            ranks = checked_ranks(given, len(selection), what)
        if not len(ranks) or not names:
            return
        at, local = selection.in_chunks(ranks)
        present, counts = np.unique(at, return_counts=True)
        arrays = {"chunks": selection.chunks[present], "counts": counts.astype(np.int64), "ranks": local}
        handle.submit(Labels(self._path, names, remove, arrays))
