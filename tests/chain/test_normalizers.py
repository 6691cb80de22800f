"""Normalizers against NumPy on the whole array."""

from __future__ import annotations

import numpy as np
import pytest

from chunkloom.chain import (
    InputNormalizer,
    LambdaNormalizer,
    MinMaxNormalizer,
    WholeVolumePercentile,
    WholeVolumeStandardizer,
    ZScoreNormalizer,
    resolve_normalizers,
)
from chunkloom.errors import ParameterError

RAW = np.random.default_rng(7).integers(0, 256, (12, 13, 14), dtype=np.uint8)
REAL = RAW.astype(np.float64)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (MinMaxNormalizer(), REAL / 255),
        (MinMaxNormalizer(50, 200), (np.clip(REAL, 50, 200) - 50) / 150),
        (MinMaxNormalizer(50, 200, True), 1 - (np.clip(REAL, 50, 200) - 50) / 150),
        (ZScoreNormalizer(120, 30), (REAL - 120) / 30),
        (LambdaNormalizer("x/127.5-1"), REAL / 127.5 - 1),
    ],
    ids=repr,
)
def test_normalizer_equals_the_formula(step: InputNormalizer, expected: np.ndarray) -> None:
    raw = RAW.copy()
    raw.setflags(write=False)
    result = step.process(raw)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, atol=1e-6)
    np.testing.assert_array_equal(step(raw[None]), result[None])


def test_integers_do_not_wrap_in_an_expression() -> None:
    assert LambdaNormalizer("x*2").process(np.full((1, 1, 1), 200, np.uint8)).item() == 400


def test_standardizer_takes_its_statistics_from_the_volume() -> None:
    step = WholeVolumeStandardizer()
    assert not step.resolved
    step = step.resolve([RAW[:6], RAW[6:]])
    np.testing.assert_allclose([step.mean, step.std], [REAL.mean(), REAL.std()], rtol=1e-8)
    np.testing.assert_allclose(step.process(RAW[2:5]), (REAL[2:5] - REAL.mean()) / REAL.std(), atol=1e-5)


def test_percentile_takes_its_range_from_the_volume() -> None:
    step = WholeVolumePercentile(5, 90).resolve(RAW)
    low, high = np.percentile(REAL, [5, 90])
    np.testing.assert_allclose(step.process(RAW), (np.clip(REAL, low, high) - low) / (high - low), atol=1e-6)


def test_a_chunk_is_never_normalized_by_its_own_statistics() -> None:
    for step in (WholeVolumeStandardizer(), WholeVolumePercentile()):
        with pytest.raises(ParameterError, match="has no statistics yet"):
            step.process(RAW)


def test_given_statistics_are_kept() -> None:
    step = WholeVolumeStandardizer(mean=3)
    assert step.resolve(RAW).mean == 3
    full = WholeVolumeStandardizer(3, 4)
    assert full.resolve(RAW) is full


def test_statistics_are_of_the_data_as_the_steps_before_leave_it() -> None:
    steps = resolve_normalizers([MinMaxNormalizer(), LambdaNormalizer("x*2-1"), WholeVolumeStandardizer()], RAW)
    last = steps[2]
    assert isinstance(last, WholeVolumeStandardizer)
    seen = REAL / 255 * 2 - 1
    np.testing.assert_allclose([last.mean, last.std], [seen.mean(), seen.std()], atol=1e-7)


def test_a_volume_without_finite_values_is_refused() -> None:
    with pytest.raises(ParameterError, match="WholeVolumeStandardizer: cannot take statistics"):
        WholeVolumeStandardizer().resolve(np.full((2, 2, 2), np.nan))
