"""BSB's connectivity sets on a network file's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from bsb.exceptions import DatasetExistsError, DatasetNotFoundError
from bsb.storage._chunks import Chunk as BsbChunk
from bsb.storage.interfaces import ConnectivitySet as BsbConnectivitySet

from chunkloom.bridge.bsb_placement import to_bsb, to_ours
from chunkloom.network import ConnectivitySet as Ours
from chunkloom.network.errors import SetExistsError, SetNotFoundError


class ConnectivitySet(BsbConnectivitySet):  # type: ignore[misc, unused-ignore]
    """The connections of one tag, for BSB."""

    def __init__(self, engine: Any, tag: str) -> None:
        super().__init__(engine)
        try:
            self._set = Ours(engine.network, tag)
        except SetNotFoundError as error:
            raise DatasetNotFoundError(str(error)) from error
        self.tag = tag
        self.pre_type_name, self.post_type_name = self._set.pre, self._set.post
        self._pre_name, self._post_name = self._set.pre, self._set.post

    @classmethod
    def create(cls, engine: Any, pre_type: Any, post_type: Any, tag: str | None = None) -> ConnectivitySet:
        name = tag or f"{pre_type.name}_to_{post_type.name}"
        try:
            Ours.create(engine.network, pre_type.name, post_type.name, name)
        except SetExistsError as error:
            raise DatasetExistsError(str(error)) from error
        return cls._typed(engine, name, pre_type, post_type)

    @classmethod
    def require(cls, engine: Any, pre_type: Any, post_type: Any, tag: Any = None) -> ConnectivitySet:
        """The set, made if it is not there. Also takes (tag, pre, post), which `Storage` passes."""
        if isinstance(pre_type, str):
            pre_type, post_type, tag = post_type, tag, pre_type
        name = tag or f"{pre_type.name}_to_{post_type.name}"
        Ours.require(engine.network, pre_type.name, post_type.name, name)
        return cls._typed(engine, name, pre_type, post_type)

    @classmethod
    def _typed(cls, engine: Any, tag: str, pre_type: Any, post_type: Any) -> ConnectivitySet:
        made = cls(engine, tag)
        made.pre_type, made.post_type = pre_type, post_type
        return made

    @staticmethod
    def exists(engine: Any, tag: str) -> bool:
        return Ours.exists(engine.network, tag)

    @staticmethod
    def get_tags(engine: Any) -> list[str]:
        return Ours.get_tags(engine.network)

    def __len__(self) -> int:
        return len(self._set)

    def clear(self, chunks: Any = None) -> None:
        self._set.clear(_several(chunks))

    def connect(self, pre_set: Any, post_set: Any, src_locs: Any, dest_locs: Any) -> None:
        self._set.connect(pre_set._set, post_set._set, _mapped(pre_set, src_locs), _mapped(post_set, dest_locs))

    def chunk_connect(self, src_chunk: Any, dst_chunk: Any, src_locs: Any, dst_locs: Any) -> None:
        self._set.chunk_connect(to_ours(src_chunk), to_ours(dst_chunk), src_locs, dst_locs)

    def get_chunk_stats(self) -> dict[str, dict[str, int]]:
        """Incoming and outgoing connections per chunk id."""
        return {str(c): n for c, n in self._set.get_chunk_stats().items()}

    def get_local_chunks(self, direction: Any) -> list[BsbChunk]:
        return [to_bsb(c) for c in self._set.get_local_chunks(direction)]

    def get_global_chunks(self, direction: Any, local_: Any) -> list[BsbChunk]:
        return [to_bsb(c) for c in self._set.get_global_chunks(direction, to_ours(local_))]

    def load_block_connections(self, direction: Any, local_: Any, global_: Any) -> Any:
        return self._set.load_block_connections(direction, to_ours(local_), to_ours(global_))

    def load_local_connections(self, direction: Any, local_: Any) -> Any:
        return self._set.load_local_connections(direction, to_ours(local_))

    def flat_iter_connections(self, direction: Any = None, local_: Any = None, global_: Any = None) -> Iterator[Any]:
        found = self._set.flat_iter_connections(direction, _several(local_), _several(global_))
        for way, here, there, data in found:
            yield way, to_bsb(here), to_bsb(there), data

    def nested_iter_connections(self, direction: Any = None, local_: Any = None, global_: Any = None) -> Any:
        def over_globals(way: Any, here: Any) -> Any:
            if global_ is not None:
                return self.load_block_connections(way, here, global_)
            return ((there, data) for _, _, there, data in self.flat_iter_connections(way, here))

        def over_locals(way: Any) -> Any:
            if local_ is not None:
                return over_globals(way, local_)
            return ((here, over_globals(way, here)) for here in self.get_local_chunks(way))

        if direction is not None:
            return over_locals(direction)
        return ((way, over_locals(way)) for way in ("inc", "out"))


def _mapped(cells: Any, locs: Any) -> Any:
    """Locations on whole morphologies, for a set whose morphologies are filtered by label."""
    given = np.asarray(locs)
    if not given.size or given.ndim == 1 or not cells._requires_morpho_mapping():
        return given
    return cells._morpho_backmap(given)


def _several(chunks: Any) -> Any:
    if chunks is None:
        return None
    if isinstance(chunks, BsbChunk) and chunks.ndim == 1:
        return [to_ours(chunks)]
    return [to_ours(c) for c in np.asarray(chunks).reshape(-1, 3)]
