"""Many writes that become part of a file together or not at all.

A write scope keeps what was written when it is left in the middle; a batch keeps nothing then. It holds its records
in memory and makes them part of a new base in one step, so that a kill leaves the file as it was.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from chunkloom.network.access import WriteHandle
from chunkloom.network.records import Record
from chunkloom.network.statistics import Statistics

if TYPE_CHECKING:
    from chunkloom.network.handle import Handle


class Batch(WriteHandle):
    """A `WriteHandle` that collects what it is given. Made by `NetworkFile.at_once`.

    `stats` count what was collected; `file` does not show it. So a chunk gets its cells in one append.

    Attributes
    ----------
    begun : int
        The state of the file that the records were made for.
    """

    def __init__(self, handle: Handle) -> None:
        super().__init__(handle)
        self._counted = copy.deepcopy(handle.stats())
        self.begun = self._counted.state
        self.records: list[Record] = []

    @property
    def stats(self) -> Statistics:
        return self._counted

    def submit(self, record: Record) -> None:
        """Take a record that has been checked; it is written with all others."""
        self._counted.note(record)
        self.records.append(record)
