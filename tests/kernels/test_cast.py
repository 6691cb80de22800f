"""Casts, clip, scale and threshold against what NumPy defines and against exact arithmetic."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkloom.kernels.cast import cast, clip, scale, threshold_exclusive, threshold_inclusive, truncate

INTEGERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
FLOATS = ["float16", "float32", "float64"]


def exact_cast(value: float, dtype: str) -> int:
    """Python's own round is half to even and exact."""
    limits = np.iinfo(dtype)
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return limits.max if value > 0 else limits.min
    return min(max(round(value), limits.min), limits.max)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("source", FLOATS)
@given(data=st.data())
def test_cast_rounds_half_to_even_and_saturates(source: str, dtype: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.floats(width={"float16": 16, "float32": 32, "float64": 64}[source]), min_size=1))
    x = np.array(values, source)
    assert cast(x, dtype).tolist() == [exact_cast(float(v), dtype) for v in x]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("source", FLOATS)
def test_cast_at_the_limits_of_a_type(source: str, dtype: str) -> None:
    limits = np.iinfo(dtype)
    with np.errstate(over="ignore"):
        at = np.array([limits.min, limits.max, 0.5, 1.5, 2.5, -0.5, -1.5], source)
        x = np.concatenate(
            [at, np.nextafter(at, np.array(np.inf, source)), np.nextafter(at, np.array(-np.inf, source))]
        )
    assert cast(x, dtype).tolist() == [exact_cast(float(v), dtype) for v in x]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("source", INTEGERS)
@given(data=st.data())
def test_cast_between_integers_saturates(source: str, dtype: str, data: st.DataObject) -> None:
    limits = np.iinfo(source)
    x = np.array(data.draw(st.lists(st.integers(limits.min, limits.max), min_size=1)), source)
    target = np.iinfo(dtype)
    result = cast(x, dtype)
    assert result.dtype == dtype
    assert result.tolist() == [min(max(int(v), target.min), target.max) for v in x]


def test_cast_to_bool_is_not_zero_and_nan_is_false() -> None:
    assert cast(np.array([0, 0.2, -3, np.nan, np.inf]), bool).tolist() == [False, True, True, False, True]


def test_cast_to_a_smaller_float_keeps_nan_and_infinity() -> None:
    result = cast(np.array([1e300, np.nan, 1.5]), np.float32)
    assert np.isinf(result[0])
    assert np.isnan(result[1])
    assert result[2] == 1.5


def test_truncate_drops_the_fraction_and_saturates() -> None:
    x = np.array([-0.9, 0.9, 254.99, 255.9, 300, np.nan], np.float32)
    assert truncate(x, np.uint8).tolist() == [0, 0, 254, 255, 255, 0]


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@given(values=st.lists(st.integers(0, 2**63 - 1), min_size=1), threshold=st.floats(-1e19, 1e19))
def test_threshold_of_integers_is_exact(dtype: str, values: list[int], threshold: float) -> None:
    x = np.array(values, dtype)
    assert threshold_inclusive(x, threshold).tolist() == [int(v >= threshold) for v in values]
    assert threshold_exclusive(x, threshold).tolist() == [int(v > threshold) for v in values]


def test_threshold_includes_or_excludes_its_own_value() -> None:
    x = np.array([0.4, 0.5, 0.6, np.nan, np.inf, -np.inf], np.float32)
    assert threshold_inclusive(x, 0.5).tolist() == [0, 1, 1, 0, 1, 0]
    assert threshold_exclusive(x, 0.5).tolist() == [0, 0, 1, 0, 1, 0]
    assert threshold_exclusive(x, 0.5).dtype == np.uint8


@pytest.mark.parametrize("function", [lambda x: cast(x, np.uint8), lambda x: clip(x, 0, 1), lambda x: scale(x, 2, 1)])
def test_input_is_not_written_to(function: object) -> None:
    x = np.array([np.nan, 3.0, -1.0], np.float32)
    x.setflags(write=False)
    before = x.copy()
    function(x)  # type: ignore[operator]
    np.testing.assert_array_equal(x, before)


def digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()).hexdigest()


def test_case_chain_uint8_clip(shared: Path) -> None:
    case = shared / "cases" / "chain-uint8-clip"
    expected = json.loads((case / "expected.json").read_text())
    x = np.load(case / "probabilities.npy")
    result = cast(scale(clip(x, 0, 1), 255), np.uint8)
    assert (result.shape, str(result.dtype)) == (
        tuple(expected["array"]["shape"]),
        expected["array"]["dtype"],
    )
    assert digest(result) == expected["array"]["sha256_c_le"]
    assert digest(threshold_inclusive(x, 0.5)) == expected["threshold"]["array"]["sha256_c_le"]


@given(st.lists(st.floats(width=32), min_size=1, max_size=50))
def test_clip_scale_cast_to_uint8_never_wraps(values: list[float]) -> None:
    x = np.array(values, np.float32)
    result = cast(scale(clip(x, 0, 1), 255), np.uint8)
    for value, out in zip(x, result, strict=True):
        clipped = np.float32(min(max(value, 0), 1)) if not np.isnan(value) else np.float32(0)
        assert out == round(float(clipped * np.float32(255)))
