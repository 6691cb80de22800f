"""Voxel-wise postprocessors against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from chunkloom.chain import (
    ChannelSelection,
    DefaultPostprocessor,
    LambdaPostprocessor,
    PostProcessor,
    SigmoidPostprocessor,
    ThresholdPostprocessor,
)
from chunkloom.errors import ParameterError

X = np.random.default_rng(11).normal(0, 1, (3, 5, 6, 7)).astype(np.float32)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (
            DefaultPostprocessor(),
            np.trunc((np.clip(X, -1, 1) + np.float32(1)) * np.float32(127.5)).astype(np.uint8),
        ),
        (DefaultPostprocessor(0, 1, 0, 255), np.trunc(np.clip(X, 0, 1) * np.float32(255)).astype(np.uint8)),
        (ThresholdPostprocessor(), (X > 0.5).astype(np.uint8)),
        (ThresholdPostprocessor(-0.25), (X > -0.25).astype(np.uint8)),
        (LambdaPostprocessor("np.abs(x)*2"), np.abs(X) * 2),
        (ChannelSelection("2,0"), X[[2, 0]]),
        (ChannelSelection([1]), X[[1]]),
        (ChannelSelection(2), X[[2]]),
    ],
    ids=repr,
)
def test_postprocessor_equals_numpy(step: PostProcessor, expected: np.ndarray) -> None:
    data = X.copy()
    data.setflags(write=False)
    result = step.process(data)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


def test_sigmoid_equals_scipy() -> None:
    np.testing.assert_allclose(SigmoidPostprocessor().process(X), expit(X.astype(float)), rtol=1e-6)


def test_threshold_excludes_its_own_value() -> None:
    assert ThresholdPostprocessor(0.5).process(np.full((1, 1, 1), 0.5, np.float32)).item() == 0


def test_default_saturates_and_turns_nan_into_zero() -> None:
    step = DefaultPostprocessor(-10, 10, 0, 100)
    assert step.process(np.array([[[9.0, -9.0, np.nan]]], np.float32)).tolist() == [[[255, 0, 0]]]


@pytest.mark.parametrize("channels", ["1, 0", "[1,0]", [1, 0], (1, 0), ["1", "0"]])
def test_channels_are_read_from_text_and_lists_alike(channels: object) -> None:
    step = ChannelSelection(channels)  # type: ignore[arg-type]
    assert (step.to_dict()["channels"], step.indices, step.num_channels) == ("1,0", (1, 0), 2)


def test_data_without_a_channel_axis_is_its_only_channel() -> None:
    np.testing.assert_array_equal(ChannelSelection("0").process(X[0]), X[0])
    with pytest.raises(ParameterError, match="there is no channel 1"):
        ChannelSelection("1").process(X[0])


def test_a_channel_that_is_not_there_is_refused() -> None:
    with pytest.raises(ParameterError, match="there is no channel 3 in data of shape"):
        ChannelSelection("0,3").process(X)
