"""Where a level is sampled, and the statistics of the sample."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkloom.kernels.statistics import SAMPLE_BYTES, mean_std, percentiles, sample_boxes


def test_a_small_level_is_sampled_whole() -> None:
    assert sample_boxes((200, 300, 400), 1) == [((0, 0, 0), (200, 300, 400))]


def test_an_empty_level_has_no_sample() -> None:
    assert sample_boxes((0, 300, 400), 1) == []


@given(st.tuples(*[st.integers(1, 100_000)] * 3), st.sampled_from([1, 2, 4, 8]))
def test_a_sample_is_bounded_inside_the_level_distinct_and_in_order(shape: tuple[int, ...], itemsize: int) -> None:
    boxes = sample_boxes(shape, itemsize)
    assert boxes == sample_boxes(shape, itemsize)
    sizes = [int(np.prod([e - b for b, e in zip(*box, strict=True)])) for box in boxes]
    assert 0 < sum(sizes) * itemsize <= SAMPLE_BYTES
    assert all(0 <= b < e <= n for box in boxes for b, e, n in zip(*box, shape, strict=True))
    assert [box[0] for box in boxes] == sorted({box[0] for box in boxes})


def test_the_boxes_of_a_large_level_are_these() -> None:
    """A literal snapshot: the browser engine must choose the same ones."""
    boxes = sample_boxes((1000, 1000, 1000), 8)
    assert len(boxes) == 32
    assert [begin for begin, _ in boxes[:4]] == [(0, 192, 448), (0, 512, 384), (64, 128, 448), (64, 512, 320)]


def test_a_sample_is_spread_over_the_level() -> None:
    begins = np.array([begin for begin, _ in sample_boxes((4096, 4096, 4096), 1)])
    assert len(begins) == 256
    assert np.all(np.abs(begins.mean(axis=0) - 2048) < 300)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "float64"])
def test_mean_and_standard_deviation_equal_numpy(dtype: str) -> None:
    blocks = [np.random.default_rng(n).uniform(0, 250, (n + 3, 8, 9)).astype(dtype) for n in range(3)]
    values = np.concatenate([block.ravel() for block in blocks]).astype(np.float64)
    np.testing.assert_allclose(mean_std(blocks), (values.mean(), values.std()), rtol=1e-8)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "float64"])
def test_percentiles_equal_numpy(dtype: str) -> None:
    blocks = [np.random.default_rng(n).uniform(0, 250, (n + 3, 8, 9)).astype(dtype) for n in range(3)]
    values = np.concatenate([block.ravel() for block in blocks]).astype(np.float64)
    np.testing.assert_allclose(percentiles(blocks, 2, 99.5), np.percentile(values, [2, 99.5]), rtol=1e-8)


def test_values_that_are_not_finite_do_not_count() -> None:
    block = np.array([1, np.nan, 3, np.inf, -np.inf], np.float32)
    assert mean_std([block]) == (2, 1)
    assert percentiles([block], 0, 100) == (1, 3)


def test_a_constant_sample_gives_a_harmless_divisor() -> None:
    assert mean_std([np.full(9, 7)]) == (7, 1)
    assert percentiles([np.full(9, 7)], 1, 99) == (7, 8)


def test_a_sample_without_finite_values_is_refused() -> None:
    with pytest.raises(ValueError, match="no finite value"):
        mean_std([np.full(3, np.nan)])
