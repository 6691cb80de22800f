"""The one step that remembers: objects that continue in the next chunk are found as chunks are computed.

It keeps faces of chunks and a union-find, in memory, for as long as its chain lives. Where the equivalences
go is not its business: it tells a listener that there are new ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chunkloom.chain.parameters import integer
from chunkloom.chain.segmentation import channel_of
from chunkloom.chain.steps import Array, PostProcessor
from chunkloom.errors import ParameterError
from chunkloom.kernels import cast, merge

Listener = Callable[[], None]


class _Memory:
    """Faces that wait for their opposite, those that are done with, and the ids found to be one object."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting: dict[merge.Face, merge.Plane] = {}
        self.done: set[merge.Face] = set()
        self.equivalences = merge.Equivalences()
        self.listeners: list[Listener] = []


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
    per_chunk: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_memory", _Memory())

    def equivalences(self) -> list[list[int]]:
        """Groups of ids that are one object, each sorted, by their smallest ids."""
        memory = self._remembered()
        with memory.lock:
            return memory.equivalences.groups()

    def equivalence_table(self) -> tuple[Array, Array]:
        """Sorted ids and what each becomes, for `chunkloom.kernels.labels.relabel`."""
        memory = self._remembered()
        with memory.lock:
            return memory.equivalences.table()

    def on_new_equivalences(self, listener: Listener) -> None:
        """Call `listener` when a chunk joined objects, from that chunk's thread: it must return at once."""
        memory = self._remembered()
        with memory.lock:
            memory.listeners.append(listener)

    def _process(self, data: Array, chunk_corner: Sequence[int] | None = None) -> Array:
        if chunk_corner is None:
            raise ParameterError(
                "SimpleBlockwiseMerger needs to know the chunk: call process(data, chunk_corner=its index on the grid)"
            )
        ids = cast.truncate(data, np.uint64)
        chunk = tuple(int(n) for n in chunk_corner)
        planes = {
            face: merge.erode_face(plane, self.face_erosion_iterations)
            for face, plane in merge.faces_of(chunk, channel_of(self, ids, self.channel)).items()
        }
        memory = self._remembered()
        with memory.lock:
            joined = sum(self._match(memory, face, plane) for face, plane in planes.items())
            listeners = list(memory.listeners) if joined else []
        for listener in listeners:
            listener()
        return ids

    @staticmethod
    def _match(memory: _Memory, face: merge.Face, plane: merge.Plane) -> int:
        """Compare a face with its opposite, or keep it until that comes. The number of groups this joined."""
        if face in memory.done:
            return 0
        opposite = memory.waiting.pop(face.opposite(), None)
        if opposite is None:
            memory.waiting[face] = plane
            return 0
        memory.done.update((face, face.opposite()))
        if plane.shape != opposite.shape:  # a chunk that the end of the data cut short
            common = tuple(slice(min(a, b)) for a, b in zip(plane.shape, opposite.shape, strict=True))
            plane, opposite = plane[common], opposite[common]
        return memory.equivalences.unite_pairs(merge.overlapping_pairs(plane, opposite))

    def _remembered(self) -> _Memory:
        memory: _Memory = self.__dict__["_memory"]
        return memory
