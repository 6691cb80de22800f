"""Labels against SciPy and cc3d, ids against exact integers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkloom.kernels.labels import (
    add_to_ids,
    chunk_id_offset,
    label,
    mean_per_label,
    morton_index,
    relabel,
    relabel_sequential,
)


def same_partition(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal up to renumbering, background the same."""
    if ((a == 0) != (b == 0)).any():
        return False
    pairs = np.unique(np.stack([a.ravel(), b.ravel()]), axis=1)
    return len(np.unique(pairs[0])) == len(np.unique(pairs[1])) == pairs.shape[1]


@pytest.mark.parametrize(("connectivity", "neighbours"), [(1, 6), (2, 18), (3, 26)])
def test_label_equals_cc3d_up_to_renumbering(connectivity: int, neighbours: int) -> None:
    cc3d = pytest.importorskip("cc3d")
    mask = np.random.default_rng(3).random((20, 25, 30)) > 0.7
    labels, count = label(mask, connectivity)
    assert labels.dtype == np.uint32
    assert count == labels.max()
    assert same_partition(labels, cc3d.connected_components(mask, connectivity=neighbours))


def test_label_numbers_objects_by_their_first_voxel() -> None:
    mask = np.array([[[2, 0, 7, 0, np.nan, 0, -1]]])
    assert label(mask)[0].tolist() == [[[1, 0, 2, 0, 0, 0, 3]]]


@given(st.lists(st.sampled_from([0, 1, 5, 2**40, 2**63, 2**64 - 1]), min_size=1))
def test_relabel_sequential_keeps_order_and_background(values: list[int]) -> None:
    labels = np.array(values, np.uint64)
    result, count = relabel_sequential(labels)
    ids = sorted(set(values) - {0})
    assert count == len(ids)
    assert result.dtype == labels.dtype
    assert result.tolist() == [0 if v == 0 else ids.index(v) + 1 for v in values]


@given(
    st.dictionaries(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), max_size=6),
    st.lists(st.integers(0, 2**64 - 1), max_size=8),
)
def test_relabel_replaces_exactly_what_it_is_told(table: dict[int, int], others: list[int]) -> None:
    values = [*table, *others]
    old = np.array(sorted(table), np.uint64)
    new = np.array([table[key] for key in sorted(table)], np.uint64)
    assert relabel(np.array(values, np.uint64), old, new).tolist() == [table.get(v, v) for v in values]


@given(st.tuples(*[st.integers(0, 2**10 - 1)] * 3))
def test_morton_index_equals_pymorton(index: tuple[int, int, int]) -> None:
    """Which takes 10 bits an axis."""
    pymorton = pytest.importorskip("pymorton")
    assert morton_index(index) == pymorton.interleave(*index)


def test_morton_index_is_written_out_here() -> None:
    assert [morton_index(i) for i in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (3, 5, 1))] == [
        0,
        1,
        2,
        4,
        143,
    ]


def test_ids_are_unique_over_chunks() -> None:
    offsets = sorted(chunk_id_offset(index, 1000) for index in itertools.product(range(6), repeat=3))
    assert min(b - a for a, b in itertools.pairwise(offsets)) >= 1000


def test_ids_that_do_not_fit_are_refused() -> None:
    assert chunk_id_offset((2**19, 0, 0), 64) == 64 * 2**57
    with pytest.raises(ValueError, match="more than 64 bits"):
        chunk_id_offset((2**20, 0, 0), 64)
    with pytest.raises(ValueError, match="must not be negative"):
        chunk_id_offset((-1, 0, 0), 64)


def test_add_to_ids_leaves_the_background_and_the_input() -> None:
    labels = np.array([0, 1, 2], np.uint32)
    assert add_to_ids(labels, 2**63).tolist() == [0, 2**63 + 1, 2**63 + 2]
    assert labels.tolist() == [0, 1, 2]


def test_mean_per_label_equals_scipy() -> None:
    import scipy.ndimage as ndi

    rng = np.random.default_rng(0)
    labels, values = rng.integers(0, 9, (6, 7, 8)), rng.random((6, 7, 8))
    np.testing.assert_allclose(mean_per_label(labels, values, 8), ndi.mean(values, labels, range(9)))
