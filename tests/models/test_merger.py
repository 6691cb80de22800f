"""Outputs of several models as one, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from chunkloom.errors import ParameterError
from chunkloom.models.merger import merge, merge_mode

OUTPUTS = [np.random.default_rng(i).integers(0, 256, (2, 3, 4, 5)).astype(np.uint8) for i in range(3)]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("and", np.min(OUTPUTS, 0)), ("or", np.max(OUTPUTS, 0)), ("sum", np.mean(OUTPUTS, 0).astype(np.uint8))],
    ids=["and", "or", "sum"],
)
def test_merges_element_by_element_in_the_outputs_dtype(mode, expected):
    found = merge(OUTPUTS, mode)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("name", "mode"),
    [("AND", "and"), ("Or", "or"), ("sum", "sum"), ("AndModelMerger", "and"), ("SumModelMerger", "sum")],
)
def test_modes_by_name(name, mode):
    assert merge_mode(name) == mode


def test_an_unknown_mode_is_refused_by_name():
    with pytest.raises(ParameterError, match="XOR"):
        merge_mode("XOR")


def test_outputs_of_different_shapes_are_refused():
    with pytest.raises(ParameterError, match="same"):
        merge([np.zeros((1, 2, 2, 2)), np.zeros((1, 2, 2, 3))])


def test_inputs_are_not_written_to():
    before = [output.copy() for output in OUTPUTS]
    merge(OUTPUTS, "sum")
    np.testing.assert_array_equal(OUTPUTS, before)
