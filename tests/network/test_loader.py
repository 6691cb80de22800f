"""The chunk loader as a mixin: a resource of one's own with properties and collections."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chunkloom.network import (
    Chunk,
    ChunkedCollection,
    ChunkedProperty,
    ChunkLoader,
    NetworkFile,
    Resource,
    handles_handles,
)
from chunkloom.network.errors import ParameterError


class Spines(
    ChunkLoader,
    Resource,
    properties=(
        lambda loader: ChunkedProperty(loader, "tips", shape=(0, 3), dtype=float),
        lambda loader: ChunkedProperty(loader, "kind", shape=(0,), dtype=int),
    ),
    collections=(lambda loader: ChunkedCollection(loader, "extra"),),
):
    """A resource another program might add to a network file."""

    @handles_handles("r")
    def count(self, *, handle: Any) -> int:
        return sum(len(self._kind_chunks.get_chunk_reader(handle)(c)) for c in self.get_loaded_chunks(handle=handle))


@pytest.fixture
def spines(network: NetworkFile) -> Any:
    return Spines(network, "spines/granule")


def test_properties_load_in_chunk_order(network: NetworkFile, spines: Any) -> None:
    for x in (10, 2, -1):
        spines._tips_chunks.append((x, 0, 0), np.full((2, 3), x))
        spines._kind_chunks.append((x, 0, 0), [x, x])
        network.close()
    spines._kind_chunks.append((2, 0, 0), [7])
    assert spines._tips_chunks.load()[:, 0].tolist() == [2, 2, 10, 10, -1, -1]
    assert spines._kind_chunks.load().tolist() == [2, 2, 7, 10, 10, -1, -1]
    assert spines.count() == 7
    with network.read_scope() as handle, spines.chunk_context([(2, 0, 0)]):
        assert spines.count(handle=handle) == 3


def test_rows_can_be_replaced_and_cleared(spines: Any) -> None:
    chunk = Chunk((1, 2, 3))
    spines._kind_chunks.append(chunk, [1, 2])
    spines._kind_chunks.overwrite(chunk, [3])
    assert spines._kind_chunks.load().tolist() == [3]
    spines._kind_chunks.clear(chunk)
    found = spines._kind_chunks.load()
    assert (found.shape, found.dtype) == ((0,), np.int64)
    with pytest.raises(ParameterError, match="expected rows of shape"):
        spines._tips_chunks.append(chunk, [[1, 2]])


def test_collections_hold_any_key(spines: Any) -> None:
    chunk = (0, 0, 0)
    spines._extra_chunks.append(chunk, "a", [1.5])
    spines._extra_chunks.overwrite(chunk, "a", [2.5, 3.5])
    spines._extra_chunks.append(chunk, "b", [1.0])
    loaded = {k: v.tolist() for k, v in spines._extra_chunks.load_all().items()}
    assert loaded == {"a": [2.5, 3.5], "b": [1.0]}
    spines._extra_chunks.clear(chunk)
    assert spines._extra_chunks.load("a").shape == (0,)


def test_a_chunk_can_be_required(network: NetworkFile, spines: Any) -> None:
    chunk = Chunk((1, 0, 0), (100, 100, 100))
    spines.require_chunk(chunk)
    spines.require_chunk(chunk)
    network.close()
    assert spines.get_all_chunks() == [chunk]
    assert spines.get_chunk_path() == "spines/granule"
    assert spines.get_chunk_path(chunk) == "spines/granule/1"
    assert spines.get_chunk_path(chunk, "extra", "a") == "spines/granule/1/extra/a"
    with network.read_scope() as handle:
        assert "spines/granule/1" in handle.file
    with pytest.raises(ParameterError, match="one chunk size"):
        spines.require_chunk(Chunk((2, 0, 0), (1, 1, 1)))


def test_a_reader_cannot_be_used_to_write(network: NetworkFile, spines: Any) -> None:
    with network.read_scope() as handle, pytest.raises(ParameterError, match="write_scope"):
        spines.require_chunk((0, 0, 0), handle=handle)
    with network.write_scope() as handle:
        spines.require_chunk((0, 0, 0), handle=handle)
        assert spines.get_all_chunks(handle=handle) == [Chunk((0, 0, 0))]
