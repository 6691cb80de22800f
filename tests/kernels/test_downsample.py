"""Coarser versions against exact arithmetic, and against TensorStore's downsampling."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkloom.kernels import downsample

SHAPE = (7, 8, 5)


def values(dtype: str, top: int | None = None) -> np.ndarray:
    rng = np.random.default_rng(6)
    if dtype == "bool":
        return rng.random(SHAPE) > 0.5
    if dtype.startswith("float"):
        return rng.normal(0, 10, SHAPE).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, SHAPE, dtype=dtype, endpoint=True) if top is None else (
        rng.integers(0, top, SHAPE).astype(dtype)
    )  # fmt: skip


def boxes(block: np.ndarray, factors: tuple[int, ...]) -> dict[tuple[int, ...], list[int]]:
    shape = [range(-(-n // f)) for n, f in zip(block.shape, factors, strict=True)]
    return {
        index: block[tuple(slice(i * f, (i + 1) * f) for i, f in zip(index, factors, strict=True))].ravel().tolist()
        for index in itertools.product(*shape)
    }


FACTORS = [(2, 2, 2), (1, 2, 2), (3, 2, 4), (1, 1, 1), (9, 9, 9)]


@pytest.mark.parametrize("factors", FACTORS, ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32", "uint32", "int64", "uint64", "bool"])
def test_mean_of_integers_is_exact_and_rounds_half_to_even(dtype: str, factors: tuple[int, ...]) -> None:
    block = values(dtype)
    block.setflags(write=False)
    result = downsample.mean(block, factors)
    assert result.dtype == block.dtype
    for index, members in boxes(block, factors).items():
        assert result[index] == round(Fraction(sum(members), len(members)))


@pytest.mark.parametrize("factors", FACTORS, ids=str)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_mean_of_floats(dtype: str, factors: tuple[int, ...]) -> None:
    block = values(dtype)
    result = downsample.mean(block, factors)
    assert result.dtype == block.dtype
    for index, members in boxes(block, factors).items():
        assert result[index] == pytest.approx(np.mean(members), rel=2e-3 if dtype == "float16" else 1e-5, abs=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(*[st.integers(1, 7)] * 3),
    st.tuples(*[st.integers(1, 4)] * 3),
    st.integers(0, 99),
    st.integers(1, 5),
)
def test_mode_is_the_most_frequent_and_of_equals_the_smallest(
    shape: tuple[int, ...], factors: tuple[int, ...], seed: int, top: int
) -> None:
    block = np.random.default_rng(seed).integers(0, top, shape).astype(np.uint64) * (2**62 + 1)
    result = downsample.mode(block, factors)
    for index, members in boxes(block, factors).items():
        counts = Counter(members)
        assert result[index] == min(v for v, n in counts.items() if n == max(counts.values()))


@pytest.mark.parametrize("factors", FACTORS[:3], ids=str)
@pytest.mark.parametrize(("method", "dtype"), [("mean", "uint8"), ("mean", "int16"), ("mode", "uint64")])
def test_equals_tensorstore(method: str, dtype: str, factors: tuple[int, ...]) -> None:
    import tensorstore as ts

    block = values(dtype, top=4)
    oracle = ts.downsample(ts.array(block), factors, method=method).read().result()
    ours = (downsample.mean if method == "mean" else downsample.mode)(block, factors)
    np.testing.assert_array_equal(ours, oracle)


def test_channels_stay_apart() -> None:
    block = np.stack([np.zeros(SHAPE, np.uint8), np.full(SHAPE, 9, np.uint8)])
    for kernel in (downsample.mean, downsample.mode):
        result = kernel(block, (2, 2, 2))
        assert result.shape == (2, 4, 4, 3)
        assert (result[0] == 0).all()
        assert (result[1] == 9).all()


@pytest.mark.parametrize("factors", [(2, 2), (0, 1, 1), (2, 2, 2, 2)])
def test_factors_are_three_positive_numbers(factors: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="three whole numbers"):
        downsample.mean(values("uint8"), factors)
