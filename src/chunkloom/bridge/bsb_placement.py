"""BSB's placement sets on a network file's."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from bsb.exceptions import DatasetExistsError, DatasetNotFoundError, LabellingError
from bsb.morphologies import MorphologySet, RotationSet
from bsb.storage._chunks import Chunk as BsbChunk
from bsb.storage._chunks import chunklist
from bsb.storage.interfaces import PlacementSet as BsbPlacementSet

from chunkloom.network import Chunk, MorphologyIndex
from chunkloom.network import PlacementSet as Ours
from chunkloom.network.errors import (
    MissingDataError,
    RankError,
    SetExistsError,
    SetNotFoundError,
)


def to_ours(chunk: Any) -> Chunk:
    """A chunk of BSB's, or three coordinates, as ours."""
    size = getattr(chunk, "dimensions", None)
    return Chunk([int(c) for c in chunk], None if size is None or np.isnan(size).any() else size)


def to_bsb(chunk: Chunk) -> BsbChunk:
    """A chunk of ours as BSB's; its size is NaN while it is not known."""
    return BsbChunk(chunk.coordinates, np.nan if chunk.size is None else chunk.size)


class PlacementSet(BsbPlacementSet):  # type: ignore[misc, unused-ignore]
    """The cells of one type, for BSB.

    Differs from `chunkloom.network.PlacementSet` where BSB expects it: an empty chunk filter is every chunk, an
    empty label filter is none.
    """

    def __init__(self, engine: Any, cell_type: Any) -> None:
        super().__init__(engine, cell_type)
        self._chunks: list[BsbChunk] = []
        try:
            self._set = Ours(engine.network, cell_type.name)
        except SetNotFoundError as error:
            raise DatasetNotFoundError(str(error)) from error

    @classmethod
    def create(cls, engine: Any, cell_type: Any) -> PlacementSet:
        try:
            Ours.create(engine.network, cell_type.name)
        except SetExistsError as error:
            raise DatasetExistsError(str(error)) from error
        return cls(engine, cell_type)

    @staticmethod
    def exists(engine: Any, cell_type: Any) -> bool:
        return Ours.exists(engine.network, cell_type.name)

    @classmethod
    def require(cls, engine: Any, cell_type: Any) -> PlacementSet:
        Ours.require(engine.network, cell_type.name)
        return cls(engine, cell_type)

    def remove(self) -> None:
        """Remove the set."""
        self._set.remove()

    def __len__(self) -> int:
        return len(self._set)

    def __iter__(self) -> Iterator[Any]:
        return itertools.zip_longest(self.load_positions(), self.load_morphologies(allow_empty=True))

    # ---- filters

    def get_all_chunks(self) -> list[BsbChunk]:
        return [to_bsb(c) for c in self._set.get_all_chunks()]

    def get_loaded_chunks(self) -> list[BsbChunk]:
        return list(self._chunks) or self.get_all_chunks()

    def set_chunk_filter(self, chunks: Any) -> None:
        self._filter(chunklist(chunks))

    def clear_chunk_filter(self) -> None:
        """Load every chunk again."""
        self._filter([])

    def include_chunk(self, chunk: Any) -> None:
        """Add a chunk to the filter."""
        self._filter(chunklist([*self._chunks, chunk]))

    def exclude_chunk(self, chunk: Any) -> None:
        """Take a chunk out of the filter; without the last one, every chunk is loaded again."""
        gone = chunklist([chunk])[0]
        self._filter([c for c in self.get_loaded_chunks() if c != gone])

    @contextlib.contextmanager
    def chunk_context(self, chunks: Any) -> Iterator[None]:
        former = self._chunks
        self.set_chunk_filter(chunks)
        try:
            yield
        finally:
            self._filter(former)

    def set_label_filter(self, labels: Any) -> None:
        super().set_label_filter(labels)
        self._set.set_label_filter(labels or None)

    def set_morphology_label_filter(self, morphology_labels: Any) -> None:
        self._morphology_labels = morphology_labels

    def _filter(self, chunks: list[BsbChunk]) -> None:
        self._chunks = chunks
        if chunks:
            self._set.set_chunk_filter([to_ours(c) for c in chunks])
        else:
            self._set.clear_chunk_filter()

    # ---- loading

    def load_ids(self) -> Any:
        return self._set.load_ids()

    def convert_to_local(self, ids: Any) -> Any:
        """Ranks among the cells of the chunk filter."""
        return self._set.convert_to_local(ids)

    def load_positions(self) -> Any:
        return self._set.load_positions()

    def load_rotations(self) -> RotationSet:
        with _as_missing():
            return RotationSet(self._set.load_rotations())

    def load_morphologies(self, allow_empty: bool = False) -> MorphologySet:
        with _as_missing():
            index = self._set.load_morphologies(allow_empty=allow_empty)
        if not index.names and not allow_empty:
            raise DatasetNotFoundError(f"no morphologies are stored for {self.tag!r}")
        if (index.indices < 0).any():
            raise DatasetNotFoundError(f"{int((index.indices < 0).sum())} cells of {self.tag!r} have no morphology")
        loaders = [self._engine.morphologies.preload(name) for name in index.names]
        return MorphologySet(loaders, index.indices, labels=self._morphology_labels)

    def load_additional(self, key: str | None = None) -> Any:
        with _as_missing():
            return self._set.load_all_additional() if key is None else self._set.load_additional(key)

    def get_chunk_stats(self) -> dict[str, int]:
        return {str(c): n for c, n in self._set.get_chunk_stats().items()}

    # ---- writing

    def append_data(
        self,
        chunk: Any,
        positions: Any = None,
        morphologies: Any = None,
        rotations: Any = None,
        additional: Any = None,
        count: int | None = None,
    ) -> None:
        if positions is not None:
            positions = np.asarray(positions, dtype=float)
            if positions.shape == (1,):  # BSB's own way to place one cell
                positions = np.broadcast_to(positions[:, None], (1, 3))
        index = None
        if morphologies is not None:
            index = MorphologyIndex(tuple(m.name for m in morphologies._loaders), morphologies.get_indices())
        turned = None if rotations is None else np.asarray(rotations, dtype=float)
        self._set.append_data(to_ours(chunk), positions, index, turned, additional, count)

    def append_entities(self, chunk: Any, count: int, additional: Any = None) -> None:
        """Append cells that are only counted."""
        self.append_data(chunk, count=count, additional=additional)

    def append_additional(self, name: str, chunk: Any, data: Any) -> None:
        self._set.append_additional(name, to_ours(chunk), data)

    def clear(self, chunks: Any = None) -> None:
        self._set.clear(None if chunks is None else [to_ours(c) for c in chunklist(chunks)])

    # ---- labels

    def label(self, labels: Any, cells: Any) -> None:
        with _as_labelling():
            self._set.label(labels, cells)

    def label_by_mask(self, labels: Any, mask: Any) -> None:
        with _as_labelling():
            self._set.label_by_mask(labels, mask)

    def remove_labels(self, labels: Any, cells: Any) -> None:
        with _as_labelling():
            self._set.remove_labels(labels, cells)

    def remove_labels_by_mask(self, labels: Any, mask: Any) -> None:
        with _as_labelling():
            self._set.remove_labels_by_mask(labels, mask)

    def get_labelled(self, labels: Any = None) -> Any:
        return self._set.get_labelled(labels)

    def get_label_mask(self, labels: Any = None) -> Any:
        return self._set.get_label_mask(labels)

    def get_unique_labels(self) -> Any:
        found = self._set.get_unique_labels()
        out = np.empty(len(found), dtype=object)
        out[:] = [set(s) for s in found]
        return out


@contextlib.contextmanager
def _as_missing() -> Iterator[None]:
    try:
        yield
    except MissingDataError as error:
        raise DatasetNotFoundError(str(error)) from error


@contextlib.contextmanager
def _as_labelling() -> Iterator[None]:
    try:
        yield
    except RankError as error:
        raise LabellingError(str(error)) from error
