"""Joining objects over the borders of chunks, against labelling of the whole."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

from chunkloom.kernels.labels import add_to_ids, label, relabel
from chunkloom.kernels.seams import Border, Seams, borders_of


def test_borders_are_copies_of_the_outermost_voxels() -> None:
    labels = np.arange(24, dtype=np.uint32).reshape(2, 3, 4)
    borders = borders_of((5, 6, 7), labels)
    assert len(borders) == 6
    np.testing.assert_array_equal(borders[Border((5, 6, 7), (-1, 0, 0))], labels[0])
    np.testing.assert_array_equal(borders[Border((5, 6, 7), (0, 1, 0))], labels[:, 2])
    np.testing.assert_array_equal(borders[Border((5, 6, 7), (0, 0, 1))], labels[:, :, 3])
    assert not any(np.shares_memory(plane, labels) for plane in borders.values())


def test_edges_and_corners_come_with_the_connectivity() -> None:
    labels = np.arange(24, dtype=np.uint32).reshape(2, 3, 4)
    assert len(borders_of((0, 0, 0), labels, 2)) == 18
    borders = borders_of((0, 0, 0), labels, 3)
    assert len(borders) == 26
    np.testing.assert_array_equal(borders[Border((0, 0, 0), (1, 0, -1))], labels[1, :, 0])
    assert borders[Border((0, 0, 0), (1, 1, 1))] == 23


def test_the_opposite_border_is_the_neighbours() -> None:
    assert Border((5, 6, 7), (0, 1, 0)).opposite() == Border((5, 7, 7), (0, -1, 0))
    assert Border((5, 6, 7), (-1, 1, 0)).opposite() == Border((4, 7, 7), (1, -1, 0))


@pytest.mark.parametrize("connectivity", [1, 2, 3])
@pytest.mark.parametrize("density", [0.1, 0.2, 0.35])
def test_chunk_labels_and_seams_give_the_whole_labelling(connectivity: int, density: float) -> None:
    cc3d = pytest.importorskip("cc3d")
    random = np.random.default_rng(9)
    mask = random.random((30, 26, 33)) < density
    seams, edge = Seams(connectivity), 7
    result = np.zeros(mask.shape, np.uint64)
    chunks = list(itertools.product(*(range(-(-n // edge)) for n in mask.shape)))
    random.shuffle(chunks)
    for number, chunk in enumerate(chunks):
        box = tuple(slice(c * edge, (c + 1) * edge) for c in chunk)
        result[box] = add_to_ids(label(mask[box], connectivity)[0], number * 1000)
        seams.add(chunk, result[box])
    result = relabel(result, *seams.table())
    whole = cc3d.connected_components(mask, connectivity={1: 6, 2: 18, 3: 26}[connectivity])
    pairs = np.unique(np.stack([result.ravel(), whole.ravel()]), axis=1)
    assert pairs.shape[1] == len(np.unique(pairs[0])) == len(np.unique(pairs[1]))


def test_objects_that_touch_too_little_stay_apart() -> None:
    left, right = np.zeros((2, 4, 4, 4), np.uint64)
    left[:, :, 3], right[:, :, 0] = 1, 2
    right[1:, :, 0] = 3
    seams = Seams(min_voxels=5)
    seams.add((0, 0, 0), left)
    assert seams.add((0, 0, 1), right) == 1
    assert seams.groups() == [[1, 3]]


def test_a_chunk_that_comes_again_changes_nothing() -> None:
    full = np.ones((3, 3, 3), np.uint64)
    seams = Seams()
    assert [seams.add((0, 0, 0), full), seams.add((0, 0, 1), full * 2)] == [0, 1]
    assert [seams.add((0, 0, 1), full * 2), seams.add((0, 0, 0), full)] == [0, 0]
    assert seams.groups() == [[1, 2]]


def test_listeners_hear_of_chunks_that_join_objects() -> None:
    heard: list[list[list[int]]] = []
    seams = Seams()
    seams.listen(lambda: heard.append(seams.groups()))
    for n in range(3):
        seams.add((0, 0, n), np.full((2, 2, 2), n + 1, np.uint64))
    assert heard == [[[1, 2]], [[1, 2, 3]]]


def test_chunks_may_come_from_many_threads() -> None:
    seams = Seams()
    threads = [
        threading.Thread(target=lambda k=k: [seams.add((0, 0, n), np.full((2, 2, 2), n + 1)) for n in range(k, 200, 4)])
        for k in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seams.groups() == [list(range(1, 201))]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"connectivity": 6}, "connectivity is 6"),
        ({"min_voxels": 0}, "min_voxels is 0"),
        ({"min_fraction": 1.5}, "min_fraction is 1.5"),
        ({"connectivity": 3, "min_voxels": 4}, "need connectivity 1, not 3"),
    ],
    ids=str,
)
def test_a_rule_that_cannot_be_is_refused(arguments: dict[str, float], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Seams(**arguments)  # type: ignore[arg-type]
