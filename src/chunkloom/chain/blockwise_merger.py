"""The one step that remembers: objects that continue in the next chunk are found as chunks are computed.

It keeps faces of chunks and a union-find, in memory, for as long as its chain lives. Where the equivalences
go is not its business: it tells a listener that there are new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chunkloom.chain.parameters import integer
from chunkloom.chain.segmentation import channel_of
from chunkloom.chain.steps import Array, PostProcessor
from chunkloom.errors import ParameterError
from chunkloom.kernels import cast
from chunkloom.kernels.seams import Listener, Seams


@dataclass(frozen=True, eq=False, repr=False)
class SimpleBlockwiseMerger(PostProcessor):
    """Find objects that continue in the next chunk; ids must be unique over all chunks before it.

    Ids at equal positions of two touching faces are one object. The data passes through; what belongs
    together is in `equivalences`. Safe to call from many threads, in any order of chunks, and again for the
    same chunk.
    """

    channel: int = integer(0, "Channel whose ids are joined, from 0.", minimum=0)
    face_erosion_iterations: int = integer(
        0, "How often objects are eroded on a face before they are compared.", minimum=0, maximum=100
    )
    dtype: ClassVar[Any] = np.dtype(np.uint64)
    is_segmentation: ClassVar[bool | None] = True
    whole_chunks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_seams", Seams(erosion=self.face_erosion_iterations))

    def equivalences(self) -> list[list[int]]:
        """Groups of ids that are one object, each sorted, by their smallest ids."""
        return self.seams.groups()

    def equivalence_table(self) -> tuple[Array, Array]:
        """Sorted ids and what each becomes, for `chunkloom.kernels.labels.relabel`."""
        return self.seams.table()

    def on_new_equivalences(self, listener: Listener) -> None:
        """Call `listener` when a chunk joined objects, from that chunk's thread: it must return at once."""
        self.seams.listen(listener)

    def _process(self, data: Array, chunk_corner: Sequence[int] | None = None) -> Array:
        if chunk_corner is None:
            raise ParameterError(
                "SimpleBlockwiseMerger needs to know the chunk: call process(data, chunk_corner=its index on the grid)"
            )
        ids = cast.truncate(data, np.uint64)
        self.note(chunk_corner, ids)
        return ids

    def note(self, chunk_corner: Sequence[int], ids: Array) -> None:
        """Take note of a chunk of ids without copying it: one that was processed before. Once counts."""
        self.seams.add(chunk_corner, channel_of(self, ids, self.channel))

    @property
    def seams(self) -> Seams:
        """What it has found so far."""
        seams: Seams = self.__dict__["_seams"]
        return seams
