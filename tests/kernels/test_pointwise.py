"""Normalizations and the sigmoid against NumPy and SciPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from chunkloom.kernels.pointwise import affine, min_max, min_max_inverted, sigmoid, z_score

DTYPES = ["uint8", "int16", "uint32", "uint64", "float16", "float32", "float64", "bool"]


def sample(dtype: str) -> np.ndarray:
    values = np.random.default_rng(3).uniform(0, 200, (3, 5, 7))
    return (values > 100) if dtype == "bool" else values.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_min_max_is_the_formula(dtype: str) -> None:
    x = sample(dtype)
    expected = (np.clip(x.astype(float), 20, 180) - 20) / 160
    assert min_max(x, 20, 180).dtype == np.float32
    np.testing.assert_allclose(min_max(x, 20, 180), expected, atol=1e-6)
    np.testing.assert_allclose(min_max_inverted(x, 20, 180), 1 - expected, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_z_score_and_affine_are_the_formula(dtype: str) -> None:
    x = sample(dtype)
    np.testing.assert_allclose(z_score(x, 90, 30), (x.astype(float) - 90) / 30, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(affine(x, 0.5, -3), x.astype(float) * 0.5 - 3, rtol=1e-5, atol=1e-6)


def test_large_integers_are_not_rounded_before_the_mean_is_taken_off() -> None:
    x = np.array([4_000_000_001, 4_000_000_003], np.uint32)
    assert z_score(x, 4_000_000_000, 1).tolist() == [1, 3]


def test_sigmoid_equals_scipy_and_saturates() -> None:
    x = np.linspace(-120, 120, 2001).astype(np.float32)
    np.testing.assert_allclose(sigmoid(x), expit(x.astype(float)), rtol=2e-6, atol=1e-38)
    with np.errstate(all="raise"):
        assert sigmoid(np.array([-np.inf, 0, np.inf, 1e30], np.float32)).tolist() == [0, 0.5, 1, 1]


def test_text_and_complex_values_are_refused() -> None:
    with pytest.raises(TypeError, match="expected real numbers"):
        min_max(np.ones(3, complex), 0, 1)
