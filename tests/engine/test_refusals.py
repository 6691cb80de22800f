"""What can never work is refused when a pipeline is made, not chunk by chunk while it is looked at."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from chunkloom import Op, Pipeline, array_volume, ops
from chunkloom.chain.postprocessors import ThresholdPostprocessor
from chunkloom.chain.segmentation import FillHolesPostprocessor, LabelPostprocessor
from chunkloom.engine.ops import steps_as_ops
from chunkloom.errors import ParameterError

IMAGE = array_volume(np.zeros((20, 20, 20), np.uint8))
CHANNELS = array_volume(np.zeros((3, 20, 20, 20), np.uint8))


@dataclasses.dataclass(frozen=True)
class Makes(Op):
    """Declares a dtype."""

    made: str = "uint8"

    def output_dtype(self, dtype):
        return np.dtype(self.made)


@pytest.mark.parametrize("text", ["x[0]", "x.mean()", "np.max(x)", "x[:, 0]", "x.T", "1"])
@pytest.mark.parametrize("volume", [IMAGE, CHANNELS], ids=["plain", "channels"])
def test_expressions_that_give_no_block(volume, text):
    with pytest.raises(ParameterError, match="shape"):
        Pipeline(volume, [ops.Expression(text)])


@pytest.mark.parametrize("text", ["x - x.mean()", "x * 2", "np.where(x > 1, x, 0)", "x - x[0]"])
def test_expressions_that_do(text):
    Pipeline(IMAGE, [ops.Expression(text)]).read()


@pytest.mark.parametrize(
    "make",
    [
        lambda: ops.Median(size=127),
        lambda: ops.Median(size=(1, 127, 127)),
        lambda: ops.Threshold(low=2, high=1),
        lambda: ops.Clip(low=2, high=1),
        lambda: ops.Channels((0, 0)),
        lambda: ops.Channels(()),
        lambda: ops.Cast("float128"),
        lambda: ops.Cast("complex64"),
        lambda: ops.FillHoles(reach=(1, 2, 129)),
        lambda: array_volume(np.zeros((2, 2, 2)), axes="xxx"),
        lambda: array_volume(np.zeros((2, 2, 2)), axes="zyz"),
    ],
    ids=lambda make: None,
)
def test_parameters_that_fit_nothing(make):
    with pytest.raises(ParameterError):
        make()


@pytest.mark.parametrize(
    "op",
    [
        ops.Threshold(low=math.nan),
        ops.Threshold(low=0, high=math.inf),
        ops.Scale(factor=math.inf),
        ops.Clip(low=-math.inf, high=1),
        ops.Scale(factor=1, offset=-math.nan),
    ],
    ids=str,
)
def test_numbers_that_are_none(op):
    with pytest.raises(ParameterError, match="finite"):
        Pipeline(IMAGE, [op])


@pytest.mark.parametrize("dtype", ["complex64", "object", "datetime64[s]", "S3"])
def test_ops_that_make_what_no_volume_is_of(dtype):
    with pytest.raises(ParameterError, match=r"'Makes' makes .*expected one of bool"):
        Pipeline(IMAGE, [Makes(dtype)])


@pytest.mark.parametrize("chunk", [(4096, 4096, 4096), (1 << 20, 1 << 20, 1)], ids=str)
@pytest.mark.parametrize("made", [[], [ops.Invert()]], ids=["rechunked", "op"])
def test_chunks_that_nothing_holds(chunk, made):
    with pytest.raises(ParameterError, match="GiB each"):
        Pipeline(IMAGE, made, chunk=chunk)


@pytest.mark.parametrize(
    ("step", "kind"),
    [(ThresholdPostprocessor(), "mask"), (FillHolesPostprocessor(), "mask"), (LabelPostprocessor(), "labels")],
    ids=["threshold", "fill holes", "label"],
)
def test_steps_that_make_a_mask_and_steps_that_make_labels(step, kind):
    assert Pipeline(IMAGE, steps_as_ops([step])).kind == kind


@pytest.mark.parametrize(
    ("op", "fine", "coarse"),
    [
        (ops.FillHoles(reach=16), (16, 16, 16), (16, 8, 4)),
        (ops.Dilate(size=9), (4, 4, 4), (4, 2, 1)),
        (ops.Median(size=9), (4, 4, 4), (4, 2, 1)),
        (ops.Gaussian(sigma=2.0), (8, 8, 8), (8, 4, 2)),
    ],
    ids=lambda value: value.name if isinstance(value, Op) else None,
)
def test_sizes_are_of_the_finest_level_and_scale(op, fine, coarse):
    assert op.halo == fine
    assert op.at_level((1, 2, 4)).halo == coarse
