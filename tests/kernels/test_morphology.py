"""Morphology against scikit-image and SciPy, holes against SciPy and fastmorph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import scipy.ndimage as ndi
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkloom.kernels.morphology import (
    close_box,
    dilate,
    erode,
    fill_holes,
    open_box,
    two_pass_halo,
    window_halo,
)

IMAGE = np.random.default_rng(2).integers(0, 256, (13, 17, 19), dtype=np.uint8)
SIZES = [1, 2, 3, 4, 5, (1, 2, 7), (6, 1, 3)]


def padded(image: np.ndarray, halo: Sequence[int]) -> np.ndarray:
    return np.pad(image, [(h, h) for h in halo], mode="edge")


def as_box(size: int | tuple[int, ...]) -> np.ndarray:
    return np.ones((size,) * 3 if isinstance(size, int) else size, np.uint8)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "float32", "bool", "uint64"])
def test_dilation_and_erosion_equal_scikit_image(size: int | tuple[int, ...], dtype: str) -> None:
    from skimage.morphology import dilation

    image = (IMAGE > 200) if dtype == "bool" else IMAGE.astype(dtype)
    block = padded(image, window_halo(size))
    block.setflags(write=False)
    result = dilate(block, size)
    assert result.dtype == image.dtype
    np.testing.assert_array_equal(result, dilation(image, as_box(size)))
    # Erosion by the same box: the dilation of the complement.
    turned = dilation(255 - IMAGE, as_box(size))
    np.testing.assert_array_equal(erode(padded(IMAGE, window_halo(size)), size), 255 - turned)


def test_a_result_is_never_the_input_itself() -> None:
    assert not np.shares_memory(dilate(IMAGE, 1), IMAGE)


@pytest.mark.parametrize("size", [3, 5, (1, 3, 5)], ids=str)
def test_opening_and_closing_equal_scipy_inside(size: int | tuple[int, ...]) -> None:
    halo = two_pass_halo(size)
    inner = tuple(slice(h, n - h) for h, n in zip(halo, IMAGE.shape, strict=True))
    shape = as_box(size).shape
    np.testing.assert_array_equal(open_box(IMAGE, size), ndi.grey_opening(IMAGE, shape)[inner])
    np.testing.assert_array_equal(close_box(IMAGE, size), ndi.grey_closing(IMAGE, shape)[inner])


def test_opening_with_an_even_box_is_refused() -> None:
    with pytest.raises(ValueError, match="odd"):
        open_box(IMAGE, 4)


@settings(max_examples=60, deadline=None)
@given(st.tuples(*[st.integers(1, 9)] * 3), st.floats(0.3, 0.9), st.integers(0, 1000))
def test_filled_holes_equal_scipy(shape: tuple[int, ...], share: float, seed: int) -> None:
    mask = np.random.default_rng(seed).random(shape) < share
    before = mask.copy()
    np.testing.assert_array_equal(fill_holes(mask), ndi.binary_fill_holes(mask))
    np.testing.assert_array_equal(mask, before)


def test_filled_holes_equal_fastmorph() -> None:
    fastmorph = pytest.importorskip("fastmorph")
    rng = np.random.default_rng(4)
    mask = ndi.binary_dilation(rng.random((40, 40, 40)) > 0.97, iterations=2)
    mask[10:20, 10:20, 10:20] = True
    mask[13:16, 13:16, 13:16] = False
    filled = fastmorph.fill_holes(mask.astype(np.uint8), remove_enclosed=True)
    np.testing.assert_array_equal(fill_holes(mask), filled != 0)


def test_holes_are_filled_in_each_channel() -> None:
    mask = np.zeros((2, 5, 5, 5), np.uint8)
    mask[0, 1:4, 1:4, 1:4] = 7
    mask[0, 2, 2, 2] = 0
    filled = fill_holes(mask)
    assert filled.dtype == bool
    assert (filled[0].sum(), filled[1].sum()) == (27, 0)
