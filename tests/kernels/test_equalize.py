"""Contrast equalization against a plain loop over voxels, and scikit-image where that means the same."""

from __future__ import annotations

import numpy as np
import pytest

from chunkloom.kernels.equalize import equalize

IMAGE = np.random.default_rng(8).integers(0, 256, (6, 11, 13), dtype=np.uint8)


def by_loop(x: np.ndarray, radius: tuple[int, ...], clip_limit: float, bins: int) -> np.ndarray:
    out = np.empty(x.shape)
    place = x / 255 * bins
    number = np.minimum(place.astype(int), bins - 1)
    for index in np.ndindex(*x.shape):
        window = number[tuple(slice(max(i - r, 0), i + r + 1) for i, r in zip(index, radius, strict=True))]
        counts = np.bincount(window.ravel(), minlength=bins).astype(float)
        kept = np.minimum(counts, max(1.0, clip_limit * window.size))
        kept += (window.size - kept.sum()) / bins
        own = number[index]
        out[index] = (kept[:own].sum() + kept[own] * (place[index] - own)) / window.size
    return out


@pytest.mark.parametrize("radius", [(0, 3, 3), (2, 2, 2), (0, 40, 40), (1, 0, 4)], ids=str)
@pytest.mark.parametrize("clip_limit", [1.0, 0.05, 0.001])
@pytest.mark.parametrize("bins", [2, 16, 64])
def test_equals_the_definition(radius: tuple[int, ...], clip_limit: float, bins: int) -> None:
    block = IMAGE.copy()
    block.setflags(write=False)
    result = equalize(block, 0, 255, radius, clip_limit, bins)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, by_loop(IMAGE, radius, clip_limit, bins), atol=2e-6)


def test_without_a_limit_it_is_the_rank_filter_of_scikit_image() -> None:
    rank = pytest.importorskip("skimage.filters.rank")
    plane = IMAGE[:1] // 4 * 4
    # One bin for each grey level: the share of darker or equal voxels is one bin further up.
    ours = equalize(plane.astype(np.float32) + 0.999, 0, 256, (0, 3, 3), 1.0, 256)
    theirs = rank.equalize(plane[0], np.ones((7, 7), np.uint8))
    np.testing.assert_allclose(ours[0] * 255, theirs, atol=1)


def test_context_is_cropped() -> None:
    whole = equalize(IMAGE, 0, 255, (1, 2, 2), 0.05, 32)
    part = equalize(IMAGE, 0, 255, (1, 2, 2), 0.05, 32, (2, 0, 1), (1, 4, 5))
    np.testing.assert_array_equal(part, whole[2:-1, :-4, 1:-5])


def test_values_beyond_the_range_and_nan_have_a_place() -> None:
    block = np.array([[[-5.0, 300.0, np.nan, 100.0]]], np.float32)
    result = equalize(block, 0, 200, (0, 0, 3), 1.0, 10)
    assert np.isfinite(result).all()
    assert result[0, 0, 1] == 1
    assert result[0, 0, 0] == result[0, 0, 2] == 0
