"""Labels: given, taken and asked for, by rank in whatever the filters leave."""

from __future__ import annotations

import json
from typing import Any

import h5py
import numpy as np
import pytest

from chunkloom.network import NetworkFile
from chunkloom.network.errors import RankError
from chunkloom.network.labelsets import LabelSets

CHUNKS = [(0, 0, 0), (-1, 0, 0), (0, 1, 0)]


@pytest.fixture
def cells(network: NetworkFile) -> Any:
    """Three chunks of four cells."""
    made = network.require_placement("cell")
    for chunk in CHUNKS:
        made.append_data(chunk, np.zeros((4, 3)))
    return made


def test_labels_add_up(cells: Any) -> None:
    cells.label(["a", "b"], [1, 5, 6])
    cells.label(["c"], np.isin(np.arange(12), [0, 1, 3, 5]))
    cells.remove_labels(["a", "b", "c"], [1])
    cells.label(["d"], [1])
    assert cells.get_labelled(["a"]).tolist() == [5, 6]
    assert cells.get_labelled(["b", "c"]).tolist() == [0, 3, 5, 6]
    assert cells.get_labelled(["d"]).tolist() == [1]
    assert cells.get_labelled([]).tolist() == [2, 4, 7, 8, 9, 10, 11]
    assert cells.get_labelled().tolist() == list(range(12))
    assert cells.get_unique_labels() == [set(), {"a", "b"}, {"c"}, {"a", "b", "c"}, {"d"}]


@pytest.mark.parametrize(("chunks", "rank", "id"), [([1], 0, 4), ([1, 2], 0, 4), ([1, 2], 5, 9), ([2], 3, 11)], ids=str)
def test_ranks_count_what_the_chunk_filter_leaves(
    network: NetworkFile, cells: Any, chunks: list[int], rank: int, id: int
) -> None:
    cells.set_chunk_filter([CHUNKS[i] for i in chunks])
    cells.label(["x"], [rank])
    assert network.placement("cell").get_labelled(["x"]).tolist() == [id]
    cells.remove_labels(["x"], [rank])
    assert network.placement("cell").get_labelled(["x"]).tolist() == []


def test_ranks_count_what_both_filters_leave(network: NetworkFile, cells: Any) -> None:
    cells.label(["a"], [1, 3, 5, 7, 9, 11])
    cells.set_chunk_filter(CHUNKS[1:])
    cells.set_label_filter(["a"])
    assert cells.load_ids().tolist() == [5, 7, 9, 11]
    cells.label_by_mask(["b"], [False, True, False, True])
    assert network.placement("cell").get_labelled(["b"]).tolist() == [7, 11]


def test_later_cells_are_unlabelled(network: NetworkFile, cells: Any) -> None:
    cells.label(["x"], [0])
    cells.append_data(CHUNKS[0], np.zeros((2, 3)))
    network.close()
    cells.append_data(CHUNKS[0], np.zeros((1, 3)))
    cells.label(["y"], [6])
    assert cells.get_labelled(["x"]).tolist() == [0]
    assert cells.get_labelled(["y"]).tolist() == [6]
    assert len(cells.get_labelled([])) == 13


@pytest.mark.parametrize("wrong", [[-1], [12], [0, 99], [0.5], np.ones(11, bool), np.ones(13, bool), ["a"]], ids=str)
def test_cells_that_are_not_there_are_refused(cells: Any, wrong: Any) -> None:
    for method in (cells.label, cells.remove_labels):
        with pytest.raises(RankError):
            method(["x"], wrong)
    assert cells.get_unique_labels() == [set()]


def test_a_mask_holds_booleans(cells: Any) -> None:
    with pytest.raises(RankError, match="booleans"):
        cells.label_by_mask(["x"], np.ones(12, int))


def test_an_empty_label_filter_is_the_unlabelled(cells: Any) -> None:
    cells.label(["x"], [0, 1, 2])
    cells.set_label_filter([])
    assert len(cells) == 9
    cells.set_label_filter(None)
    assert len(cells) == 12


def test_labels_go_with_their_chunk(network: NetworkFile, cells: Any) -> None:
    cells.label(["x"], [0, 4])
    cells.clear([CHUNKS[0]])
    assert cells.get_labelled(["x"]).tolist() == [0]
    cells.clear()
    cells.append_data(CHUNKS[0], np.zeros((4, 3)))
    assert cells.get_unique_labels() == [set()]


@pytest.mark.parametrize(
    "text", [{"0": [], "1": ["a"], "2": ["b"]}, {"2": ["b"], "1": ["a"], "0": []}, {"0": [], "7": ["b"], "1": ["a"]}]
)
def test_the_numbers_of_label_sets_are_keys_not_places(text: dict[str, list[str]]) -> None:
    sets = LabelSets({int(n): frozenset(s) for n, s in text.items()})
    assert sets.matching(["a"]).tolist() == [1]
    assert [sets.sets[int(n)] for n in sets.with_(np.array([1]), ["b"])] == [{"a", "b"}]
    assert sets.matching([]).tolist() == [0]


def test_the_file_numbers_label_sets_without_gaps(network: NetworkFile, cells: Any) -> None:
    for i in range(4):
        cells.label([f"l{i}"], np.arange(i, 12))
    network.close()
    with h5py.File(network.path) as file:
        stored = json.loads(file["placement/cell"].attrs["labelsets"])
    assert list(stored) == [str(i) for i in range(len(stored))]
