"""Placement sets: appending, loading, filtering. Each fault of the older engine has a test here that keeps it out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chunkloom.network import Chunk, MorphologyIndex, NetworkFile, check
from chunkloom.network.errors import (
    MissingDataError,
    ParameterError,
    SetExistsError,
    SetNotFoundError,
)

A, B, C = (0, 0, 0), (-1, 0, 0), (0, 1, 0)  # in the order of their ids


def points(n: int, start: float = 0) -> Any:
    return np.arange(3 * n).reshape(n, 3) + start


def test_cells_come_back_in_chunk_order(network: NetworkFile) -> None:
    cells = network.require_placement("cell")
    for chunk, start in ((C, 200), (A, 0), (B, 100)):
        cells.append_data(chunk, points(3, start), rotations=points(3, start + 0.5))
    expected = np.concatenate([points(3, s) for s in (0, 100, 200)])
    assert np.array_equal(cells.load_positions(), expected)
    assert np.array_equal(cells.load_rotations(), expected + 0.5)
    assert cells.load_ids().tolist() == list(range(9))


def test_appending_to_a_chunk_adds_after_what_is_there(network: NetworkFile) -> None:
    cells = network.require_placement("cell")
    for reopened in range(4):
        cells.append_data(A, points(5, reopened * 100))
        if reopened % 2:
            network.close()
    assert np.array_equal(cells.load_positions(), np.concatenate([points(5, i * 100) for i in range(4)]))
    assert (len(cells), cells.get_chunk_stats()) == (20, {0: 20})


def test_one_cell_at_a_time_makes_a_compact_file(network: NetworkFile) -> None:
    import os

    cells = network.require_placement("cell")
    for i in range(300):
        cells.append_data(A, points(1, i))
        if i % 60 == 0:
            network.close()
    network.close()
    assert np.array_equal(cells.load_positions(), np.concatenate([points(1, i) for i in range(300)]))
    assert os.path.getsize(network.path) < 40_000


@pytest.mark.parametrize(
    "wrong",
    [
        {"positions": points(3), "rotations": points(2)},
        {"positions": points(3), "morphologies": ["m", "m"]},
        {"positions": points(3), "additional": {"x": [1.0, 2.0]}},
        {"positions": points(3), "additional": {"x": ["a", "b", "c"]}},
        {"positions": points(3), "additional": {"x": np.array([1j, 2j, 3j])}},
        {"positions": points(3), "additional": {"a/b": [1, 2, 3]}},
        {"positions": [1.0, 2.0, 3.0]},
        {"positions": np.zeros((3, 2))},
        {"rotations": points(3)},
        {"morphologies": ["m"]},
        {"positions": points(3), "count": 3},
        {"count": -1},
        {"count": 1.5},
        {},
        {"positions": points(1), "morphologies": MorphologyIndex(("m",), np.array([1]))},
    ],
    ids=str,
)
def test_an_append_that_does_not_fit_writes_nothing(network: NetworkFile, wrong: dict[str, Any]) -> None:
    cells = network.require_placement("cell")
    cells.append_data(B, points(2), rotations=points(2), morphologies=["m", "n"], additional={"x": [1.0, 2.0]})
    for chunk in (A, B):
        with pytest.raises(ParameterError):
            cells.append_data(chunk, **wrong)
    assert (len(cells), cells.get_chunk_stats()) == (2, {65535: 2})
    network.close()
    assert check(network) == []
    assert len(cells.load_positions()) == len(cells.load_morphologies()) == 2


def test_an_append_does_not_mind_the_filters(network: NetworkFile) -> None:
    cells = network.require_placement("cell")
    cells.append_data(A, points(4), morphologies=["m"] * 4)
    cells.label(["x"], [0])
    cells.set_label_filter(["x"])
    cells.set_chunk_filter([A])
    cells.append_data(B, points(2), morphologies=["m"] * 2)
    assert len(cells) == 1
    assert len(network.placement("cell")) == 6


def test_entities_are_counted(network: NetworkFile) -> None:
    cells = network.require_placement("cell")
    cells.append_entities(A, 4)
    cells.append_entities(B, 3, additional={"rate": [1.0, 2.0, 3.0]})
    assert (len(cells), cells.load_positions().shape) == (7, (0, 3))
    cells.label(["x"], [1, 5])
    assert cells.get_labelled(["x"]).tolist() == [1, 5]
    assert cells.get_label_mask([]).tolist() == [True, False, True, True, True, False, True]


def test_entities_and_positions_mix_between_chunks_only(network: NetworkFile) -> None:
    cells = network.require_placement("cell")
    cells.append_entities(A, 2)
    cells.append_data(B, points(1))
    with pytest.raises(ParameterError, match="have no positions"):
        cells.append_data(A, points(1))
    with pytest.raises(ParameterError, match="have positions"):
        cells.append_entities(B, 1)
    assert np.isnan(cells.load_positions()).all(axis=1).tolist() == [True, True, False]


def test_morphologies_are_merged_by_name(network: NetworkFile) -> None:
    cells = network.require_placement("cell")
    cells.append_data(A, points(1), morphologies=["A"])
    cells.append_data(A, points(2), morphologies=MorphologyIndex(("A", "B"), np.array([1, 0])))
    network.close()
    cells.append_data(A, points(2), morphologies=["C", "B"])
    cells.append_data(A, np.empty((0, 3)), morphologies=[])
    cells.append_data(B, points(1), morphologies=["B"])
    index = cells.load_morphologies()
    assert [index.names[i] for i in index.indices] == ["A", "B", "A", "C", "B", "B"]
    cells.append_data(A, points(1), morphologies=["A"])
    assert len(cells.load_morphologies()) == 7


def test_chunks_without_morphologies_are_told_apart(network: NetworkFile) -> None:
    cells = network.require_placement("cell")
    cells.append_data(A, points(1))
    cells.append_data(B, points(1), morphologies=["M"])
    assert cells.load_morphologies().indices.tolist() == [-1, 0]
    with pytest.raises(ParameterError, match="morphologies"):
        cells.append_data(A, points(1), morphologies=["M"])


def test_morphologies_bring_zero_rotations(network: NetworkFile) -> None:
    cells = network.require_placement("cell")
    cells.append_data(A, points(2), morphologies=["m", "m"])
    assert cells.load_rotations().tolist() == [[0, 0, 0], [0, 0, 0]]


def test_rotations_stay_beside_their_cells(network: NetworkFile) -> None:
    cells = network.require_placement("cell")
    cells.append_data(A, points(2))
    cells.append_data(A, points(1), rotations=[[1, 2, 3]])
    network.close()
    cells.append_data(A, points(1))
    cells.append_data(A, points(1), rotations=[[4, 5, 6]])
    assert cells.load_rotations().tolist() == [[0, 0, 0], [0, 0, 0], [1, 2, 3], [0, 0, 0], [4, 5, 6]]


def test_missing_rotations_and_morphologies_are_an_error(network: NetworkFile) -> None:
    cells = network.require_placement("cell")
    assert cells.load_rotations().shape == (0, 3)
    cells.append_data(A, points(2))
    with pytest.raises(MissingDataError, match="no rotations"):
        cells.load_rotations()
    with pytest.raises(MissingDataError, match="no morphologies"):
        cells.load_morphologies()
    assert len(cells.load_morphologies(allow_empty=True)) == 0


# ---- filters


def three(network: NetworkFile) -> Any:
    cells = network.require_placement("cell")
    for i, chunk in enumerate((A, B, C)):
        cells.append_data(chunk, points(4, 100 * i), rotations=points(4), additional={"n": np.arange(4) + 10 * i})
    return cells


def test_an_empty_filter_is_empty(network: NetworkFile) -> None:
    three(network)
    cells = network.placement("cell", chunks=[])
    assert len(cells) == len(cells.load_positions()) == len(cells.load_ids()) == 0
    assert cells.get_loaded_chunks() == []
    with cells.chunk_context([B]):
        assert len(cells) == 4
    assert len(cells) == 0


def test_a_filter_takes_chunks_in_any_form_once(network: NetworkFile) -> None:
    cells = three(network)
    cells.set_chunk_filter([Chunk(B), 65536, "65535", (0, 1, 0)])
    assert cells.load_ids().tolist() == [4, 5, 6, 7, 8, 9, 10, 11]
    cells.include_chunk(B)
    cells.include_chunk(A)
    assert len(cells.load_positions()) == len(cells) == 12


def test_chunks_that_are_not_there_hold_nothing(network: NetworkFile) -> None:
    cells = three(network)
    cells.set_chunk_filter([(9, 9, 9)])
    assert cells.load_positions().shape == cells.load_rotations().shape == (0, 3)
    assert cells.load_ids().shape == cells.load_additional("n").shape == (0,)
    assert cells.get_label_mask(["x"]).shape == (0,)
    cells.set_label_filter(["x"])
    assert len(cells) == len(cells.load_positions()) == 0


def test_excluding_leaves_the_rest(network: NetworkFile) -> None:
    cells = three(network)
    cells.exclude_chunk(B)
    assert cells.load_ids().tolist() == [0, 1, 2, 3, 8, 9, 10, 11]
    cells.exclude_chunk(A)
    cells.exclude_chunk(C)
    assert len(cells) == 0
    cells.clear_chunk_filter()
    assert len(cells) == 12


def test_a_context_gives_its_filter_back_after_an_error(network: NetworkFile) -> None:
    cells = three(network)
    cells.set_chunk_filter([A])

    def fail() -> None:
        with cells.chunk_context([B, C]):
            assert len(cells) == 8
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert cells.load_ids().tolist() == [0, 1, 2, 3]


def test_ids_and_ranks_convert(network: NetworkFile) -> None:
    cells = three(network)
    assert cells.convert_to_local([5, 3]).tolist() == [5, 3]
    cells.set_chunk_filter([B, C])
    assert cells.convert_to_local([11, 0, 4, 99]).tolist() == [7, 0]
    found = cells.convert_to_local([0])
    assert (found.dtype, found.shape) == (np.int64, (0,))


# ---- additional data


@pytest.mark.parametrize(
    "values",
    [
        np.array([2**53 + 1, -(2**62)], np.int64),
        np.array([2**64 - 1, 0], np.uint64),
        np.array([True, False]),
        np.array([1.5, np.nan], np.float32),
        np.array([[1, 2], [3, 4]], np.uint8),
    ],
    ids=lambda a: a.dtype.name,
)
def test_additional_data_keep_their_type(network: NetworkFile, values: Any) -> None:
    cells = network.require_placement("cell")
    cells.append_data(A, points(2), additional={"v": values})
    network.close()
    cells.append_data(A, points(2), additional={"v": values})
    found = cells.load_additional("v")
    assert found.dtype == values.dtype
    assert np.array_equal(found, np.concatenate((values, values)), equal_nan=values.dtype.kind == "f")


def test_additional_data_are_padded_and_filtered(network: NetworkFile) -> None:
    cells = network.require_placement("cell")
    cells.append_data(A, points(3))
    cells.append_data(B, points(2), additional={"w": [1.0, 2.0], "i": [7, 8]})
    assert np.array_equal(cells.load_additional("w"), [np.nan] * 3 + [1.0, 2.0], equal_nan=True)
    with pytest.raises(MissingDataError, match="3 of the cells"):
        cells.load_additional("i")
    assert cells.load_additional("i", fill=-1).tolist() == [-1, -1, -1, 7, 8]
    cells.label(["x"], [4])
    cells.set_label_filter(["x"])
    assert cells.load_additional("w").tolist() == [2.0]
    assert cells.load_additional("i").tolist() == [8]
    with pytest.raises(MissingDataError, match="it has: w, i"):
        cells.load_additional("v")


def test_integers_cannot_be_left_out(network: NetworkFile) -> None:
    cells = network.require_placement("cell")
    cells.append_data(A, points(2))
    with pytest.raises(ParameterError, match="have no 'i'"):
        cells.append_data(A, points(1), additional={"i": [5]})
    cells.append_additional("i", A, np.array([3, 4]))
    cells.append_data(A, points(1), additional={"i": [5]})
    assert cells.load_additional("i").tolist() == [3, 4, 5]
    cells.append_data(A, points(1), additional={"i": [2.0]})
    with pytest.raises(ParameterError, match="exactly"):
        cells.append_data(A, points(1), additional={"i": [2.5]})
    with pytest.raises(ParameterError, match="2 values for the 0 cells"):
        cells.append_additional("i", A, [1, 2])


def test_float_gaps_are_padded_inside_a_chunk(network: NetworkFile) -> None:
    cells = network.require_placement("cell")
    cells.append_data(A, points(1))
    cells.append_data(A, points(1), additional={"w": [1.0]})
    cells.append_data(A, points(1))
    cells.append_data(A, points(1), additional={"w": [2.0]})
    assert np.array_equal(cells.load_additional("w"), [np.nan, 1, np.nan, 2], equal_nan=True)


# ---- sets


def test_clearing_takes_chunks_in_any_form(network: NetworkFile) -> None:
    cells = three(network)
    cells.clear(chunks=[(0, 0, 0)])
    assert (len(cells), cells.load_ids()[-1]) == (8, 7)
    cells.clear(chunks=[65535, "65536", (7, 7, 7)])
    assert (len(cells), cells.get_all_chunks(), cells.load_all_additional()) == (0, [], {})
    cells.append_data(B, points(2), additional={"n": [1.5, 2.5]})
    network.close()
    assert cells.load_additional("n").tolist() == [1.5, 2.5]
    assert check(network) == []


def test_the_chunk_size_is_set_once_and_checked_at_every_write(network: NetworkFile, tmp_path: Any) -> None:
    free = NetworkFile.create(tmp_path / "free.hdf5")
    cells = free.require_placement("cell")
    cells.append_data(A, points(1))
    assert free.chunk_size is None
    assert all(np.isnan(c.dimensions).all() for c in cells.get_all_chunks())
    cells.append_data(Chunk(B, (20, 20, 20.5)), points(1))
    assert free.chunk_size == (20, 20, 20.5)
    assert [c.size for c in cells.get_all_chunks()] == [(20, 20, 20.5)] * 2
    for chunk in (A, B, C):
        with pytest.raises(ParameterError, match="one chunk size"):
            free.require_placement("other").append_data(Chunk(chunk, (20, 20, 21)), points(1))
    assert len(free.placement("other").get_all_chunks()) == 0
    cells.append_data(Chunk(C, (20, 20, 20.5 + 1e-9)), points(1))
    free.close()
    assert free.chunk_size == (20, 20, 20.5)


def test_sets_are_made_found_and_removed(network: NetworkFile) -> None:
    with pytest.raises(SetNotFoundError, match="it has: none"):
        network.placement("cell")
    cells = network.require_placement("cell")
    assert network.require_placement("cell") == cells
    with pytest.raises(SetExistsError):
        type(cells).create(network, "cell")
    cells.remove()
    assert not type(cells).exists(network, "cell")
    assert network.placement_names() == []


@pytest.mark.parametrize("name", ["", "a/b", "."])
def test_a_name_is_one_group(network: NetworkFile, name: str) -> None:
    with pytest.raises(ParameterError, match="name"):
        network.require_placement(name)
    with pytest.raises(ParameterError, match="name"):
        network.require_connectivity("a", "b", name)


def test_statistics_of_an_untouched_set_are_empty(network: NetworkFile) -> None:
    cells = network.require_placement("cell")
    assert cells.get_chunk_stats() == {}
    assert network.get_chunk_stats() == {}
    network.clear_placement()
    assert network.placement_names() == []


def test_clearing_placement_keeps_connections(network: NetworkFile) -> None:
    cells = three(network)
    links = network.require_connectivity("cell", "cell", "links")
    links.connect(cells, cells, [0, 1], [4, 5])
    network.clear_placement()
    assert (len(links), network.get_chunk_stats()[0]["connections"]) == (2, {"inc": 0, "out": 2})
    links.clear()
    assert (len(links), network.get_chunk_stats()) == (0, {})
