"""Chunks: ids, order, corners."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from chunkloom.network import Chunk, chunklist
from chunkloom.network.chunks import chunk_coordinates, chunk_ids
from chunkloom.network.errors import ParameterError

IDS = {
    (0, 0, 0): 0,
    (1, 0, 0): 1,
    (-1, 0, 0): 65535,
    (0, 1, 0): 65536,
    (0, -1, 0): 4294901760,
    (0, 0, 1): 4294967296,
    (0, 0, -1): 281470681743360,
    (-1, -1, -1): 2**48 - 1,
    (-32768, 32767, -3): 32768 | 32767 << 16 | 65533 << 32,
}


@pytest.mark.parametrize(("coordinates", "id"), IDS.items(), ids=str)
def test_ids_are_two_complement_with_x_lowest(coordinates: tuple[int, int, int], id: int) -> None:
    assert Chunk(coordinates).id == id
    assert Chunk.from_id(id).coordinates == coordinates


def test_ids_of_arrays_agree_with_those_of_chunks() -> None:
    coordinates = np.array(list(IDS), np.int16)
    assert chunk_ids(coordinates).tolist() == list(IDS.values())
    assert chunk_coordinates(list(IDS.values())).tolist() == coordinates.tolist()


def test_order_is_that_of_the_ids() -> None:
    found = chunklist([(-1, 0, 0), (0, 0, 1), (10, 0, 0), Chunk((2, 0, 0)), (0, -1, 0), (2, 0, 0), 10])
    assert [c.coordinates for c in found] == [(2, 0, 0), (10, 0, 0), (-1, 0, 0), (0, -1, 0), (0, 0, 1)]


@pytest.mark.parametrize("wrong", [(32768, 0, 0), (0, -32769, 0), (1.7, 0, 0), (1, 2), (1, 2, 3, 4)], ids=str)
def test_what_is_no_chunk_is_refused(wrong: tuple[float, ...]) -> None:
    with pytest.raises(ParameterError):
        Chunk(wrong)


@pytest.mark.parametrize("wrong", [-1, 2**48], ids=str)
def test_ids_out_of_range_are_refused(wrong: int) -> None:
    with pytest.raises(ParameterError, match="ids are 0 to"):
        Chunk.from_id(wrong)


@pytest.mark.parametrize("wrong", [(1, 2), (0, 1, 1), (1, 1, float("nan")), (1, 1, -1)], ids=str)
def test_a_size_is_three_positive_numbers(wrong: tuple[float, ...]) -> None:
    with pytest.raises(ParameterError, match="three positive numbers"):
        Chunk((0, 0, 0), wrong)


def test_corners_and_box() -> None:
    chunk = Chunk((1, -2, 0), (50.0, 40.5, 30.0))
    assert chunk.ldc.tolist() == [50.0, -81.0, 0.0]
    assert chunk.mdc.tolist() == [100.0, -40.5, 30.0]
    assert chunk.box.tolist() == [50.0, -81.0, 0.0, 100.0, -40.5, 30.0]
    assert np.isnan(Chunk((1, 0, 0)).ldc).all()


def test_the_chunk_of_a_position_is_its_floor() -> None:
    assert Chunk.containing((-0.5, 99.9, 100.0), (100, 100, 100)).coordinates == (-1, 0, 1)


def test_a_chunk_is_a_value() -> None:
    chunk = Chunk((1, 2, 3), (4, 5, 6))
    again = pickle.loads(pickle.dumps(chunk))
    assert (again, again.size, hash(again)) == (chunk, chunk.size, hash(chunk))
    assert chunk != (1, 2, 3)
    assert chunk != None  # noqa: E711
    with pytest.raises(AttributeError):
        chunk.id = 4
