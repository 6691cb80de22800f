"""Sets of labels, kept as one number per cell: which number stands for which set.

0 stands for no labels. A cell's labels are changed by giving it the number of another set. Numbers run from 0
without gaps, as other engines read them by position; none is ever taken away.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Self

import h5py
import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


class LabelSets:
    """The numbered label sets of one placement set."""

    def __init__(self, sets: dict[int, frozenset[str]] | None = None) -> None:
        self.sets = {0: frozenset[str]()} | (sets or {})
        self._numbers: dict[frozenset[str], int] = {}
        for number in sorted(self.sets):
            self._numbers.setdefault(self.sets[number], number)
        self._changed = False

    @classmethod
    def read(cls, group: h5py.Group) -> Self:
        """The sets a group's `labelsets` attribute holds, whatever the order of its keys."""
        text = group.attrs.get("labelsets")
        found: dict[str, Any] = {} if text is None else json.loads(text)
        return cls({int(n): frozenset(labels) for n, labels in found.items()})

    def write(self, group: h5py.Group) -> None:
        """Write the attribute, if a set was added since it was read."""
        if self._changed or "labelsets" not in group.attrs:
            group.attrs["labelsets"] = json.dumps({str(n): sorted(self.sets[n]) for n in sorted(self.sets)})

    def with_(self, ids: Ids, labels: Iterable[str]) -> Ids:
        """Numbers of the sets of `ids` with these labels added."""
        add = frozenset(labels)
        return self._map(ids, lambda s: s | add)

    def without(self, ids: Ids, labels: Iterable[str]) -> Ids:
        """Numbers of the sets of `ids` with these labels taken away."""
        take = frozenset(labels)
        return self._map(ids, lambda s: s - take)

    def matching(self, labels: Iterable[str]) -> Ids:
        """Numbers of the sets that hold any of these labels; of the empty set, if there are none."""
        wanted = frozenset(labels)
        hit = [n for n, s in self.sets.items() if (s & wanted if wanted else not s)]
        return np.array(hit, np.int64)

    def _map(self, ids: Ids, change: Any) -> Ids:
        present, inverse = np.unique(ids, return_inverse=True)
        numbers = [self._number(change(self.sets.get(int(i), frozenset()))) for i in present]
        return np.array(numbers, np.int64)[inverse] if len(numbers) else ids

    def _number(self, labels: frozenset[str]) -> int:
        number = self._numbers.get(labels)
        if number is None:
            number = self._numbers[labels] = next(n for n in range(len(self.sets) + 1) if n not in self.sets)
            self.sets[number] = labels
            self._changed = True
        return number
