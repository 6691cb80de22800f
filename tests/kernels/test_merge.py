"""Which ids belong together, against groups merged the slow way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkloom.kernels.merge import Equivalences, erode_face, overlapping_pairs


def test_pairs_share_positions() -> None:
    a = np.array([[1, 1, 0, 2], [3, 3, 3, 2]])
    b = np.array([[9, 9, 9, 0], [8, 8, 7, 2**63]], np.uint64)
    assert overlapping_pairs(a, b).tolist() == [[1, 9], [2, 2**63], [3, 7], [3, 8]]
    assert overlapping_pairs(a, b, min_voxels=2).tolist() == [[1, 9], [3, 8]]
    # 3 and 7 share one voxel, which is all of 7 and a third of 3; 1 and 9 two, all of 1.
    assert overlapping_pairs(a, b, min_fraction=1).tolist() == [[1, 9], [2, 2**63], [3, 7], [3, 8]]
    wide = np.array([[7, 7, 7, 7], [7, 7, 0, 0]])
    assert overlapping_pairs(np.array([[1, 2, 2, 2], [1, 1, 1, 1]]), wide, min_fraction=0.7).tolist() == [[2, 7]]


def test_nothing_in_common_is_no_pair() -> None:
    assert overlapping_pairs(np.zeros((3, 3)), np.ones((3, 3))).shape == (0, 2)


def test_faces_of_two_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="must have one shape"):
        overlapping_pairs(np.zeros((3, 3)), np.zeros((3, 4)))


def test_eroded_face_keeps_what_runs_on_beyond_its_edge() -> None:
    plane = np.zeros((7, 7), np.uint64)
    plane[0:3, 0:3] = 5
    plane[4, 4] = 6
    assert erode_face(plane, 0) is plane
    assert np.argwhere(erode_face(plane, 1)).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]


def test_touching_ids_are_eroded_apart() -> None:
    plane = np.array([[1, 1, 2, 2]] * 3, np.uint64)
    assert erode_face(plane, 1)[1].tolist() == [1, 0, 0, 2]


def connected(pairs: list[tuple[int, int]]) -> list[list[int]]:
    """Groups by repeated merging of sets: slow and simple."""
    groups: list[set[int]] = []
    for pair in pairs:
        touching = [g for g in groups if g & set(pair)]
        groups = [g for g in groups if not g & set(pair)] + [set(pair).union(*touching)]
    return sorted(sorted(g) for g in groups if len(g) > 1)


ids = st.sampled_from([1, 2, 3, 4, 5, 6, 7, 2**40, 2**63 + 1, 2**64 - 1])


@given(st.lists(st.tuples(ids, ids), max_size=15))
def test_groups_equal_merged_sets(pairs: list[tuple[int, int]]) -> None:
    equivalences = Equivalences(pairs)
    assert equivalences.groups() == connected(pairs)
    assert [equivalences.find(i) for group in equivalences.groups() for i in group] == [
        group[0] for group in equivalences.groups() for _ in group
    ]


@given(st.lists(st.tuples(ids, ids), max_size=15), st.randoms())
def test_the_order_of_pairs_does_not_matter(pairs: list[tuple[int, int]], random: object) -> None:
    shuffled = list(pairs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert Equivalences(shuffled).groups() == Equivalences(pairs).groups()


def test_a_long_chain_of_ids_is_one_group() -> None:
    equivalences = Equivalences((n + 1, n) for n in range(1, 20_000))
    assert equivalences.find(20_000) == 1
    assert len(equivalences) == 20_000
