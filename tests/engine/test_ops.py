"""Every op, computed chunk by chunk, equals scipy or numpy on the whole array."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from chunkloom import Pipeline, array_volume, ops
from chunkloom.engine.cache import ChunkCache
from chunkloom.engine.op import known_ops, make_op, parse_op
from chunkloom.errors import ParameterError

RNG = np.random.default_rng(9)
RAW = RNG.integers(0, 255, (37, 50, 41)).astype(np.uint8)
MASK = ndimage.gaussian_filter(RNG.normal(size=(37, 50, 41)), 2) > 0.02

BOX = np.ones((3, 3, 3))


def dog(a):
    a = a.astype(np.float32)
    return ndimage.gaussian_filter(a, 1, mode="nearest") - ndimage.gaussian_filter(a, 2.5, mode="nearest")


CASES = {
    "gaussian": (ops.Gaussian(sigma=1.5), RAW, lambda a: ndimage.gaussian_filter(a.astype("f4"), 1.5, mode="nearest")),
    "gaussian per axis": (
        ops.Gaussian(sigma=(0.0, 1.0, 2.0)),
        RAW,
        lambda a: ndimage.gaussian_filter(a.astype("f4"), (0, 1, 2), mode="nearest"),
    ),
    "difference of gaussians": (ops.DifferenceOfGaussians(low_sigma=1.0, high_sigma=2.5), RAW, dog),
    "gradient": (
        ops.Gradient(sigma=1.2),
        RAW,
        lambda a: ndimage.gaussian_gradient_magnitude(a.astype("f4"), 1.2, mode="nearest"),
    ),
    "uniform": (
        ops.Uniform(size=(1, 3, 5)),
        RAW,
        lambda a: ndimage.uniform_filter(a.astype("f4"), (1, 3, 5), mode="nearest"),
    ),
    "median": (ops.Median(size=3), RAW, lambda a: ndimage.median_filter(a, 3, mode="nearest")),
    "dilate": (ops.Dilate(size=3), RAW, lambda a: ndimage.grey_dilation(a, 3, mode="nearest")),
    "erode": (ops.Erode(size=(1, 3, 5)), RAW, lambda a: ndimage.grey_erosion(a, (1, 3, 5), mode="nearest")),
    "clip": (ops.Clip(low=10, high=20), RAW, lambda a: np.clip(a.astype("f4"), 10, 20)),
    "scale": (ops.Scale(factor=2, offset=1), RAW, lambda a: a.astype("f4") * 2 + 1),
    "invert": (ops.Invert(), RAW, lambda a: 255 - a),
    "invert mask": (ops.Invert(), MASK, lambda a: ~a),
    "threshold": (ops.Threshold(low=100, high=200), RAW, lambda a: ((a >= 100) & (a <= 200)).astype("u1")),
    "cast": (ops.Cast(dtype="int16"), RAW, lambda a: a.astype("i2")),
    "expression": (ops.Expression("np.sqrt(x) + (x > 3)"), RAW, lambda a: np.sqrt(a.astype("f4")) + (a > 3)),
    "fill holes": (ops.FillHoles(reach=64), MASK, lambda a: ndimage.binary_fill_holes(a).astype("u1")),
}


@pytest.mark.parametrize("case", CASES)
def test_chunks_equal_the_whole(case):
    op, array, oracle = CASES[case]
    volume = Pipeline(array_volume(array), [op], chunk=(16, 16, 16), cache=ChunkCache())
    expected = oracle(array)
    made = volume.read()
    if made.dtype.kind == "f":
        assert np.abs(made - expected).max() <= 1e-4 * max(1.0, np.abs(expected).max())
    else:
        assert np.array_equal(made, expected)


def padded_twice(function, array):
    """scipy pads an opening once for both its passes only when the array is padded first."""
    return function(np.pad(array, 4, mode="edge"), (3, 3, 3))[4:-4, 4:-4, 4:-4]


@pytest.mark.parametrize(
    ("op", "function"), [(ops.Open(3), ndimage.grey_opening), (ops.Close(3), ndimage.grey_closing)]
)
def test_opening_and_closing_equal_the_whole(op, function):
    volume = Pipeline(array_volume(RAW), [op], chunk=(16, 16, 16), cache=ChunkCache())
    assert np.array_equal(volume.read(), padded_twice(function, RAW))


def test_every_op_works_with_channels_first():
    array = np.stack([RAW, RAW[::-1]])
    for case, (op, given, _) in CASES.items():
        source = array if given is RAW else np.stack([MASK, MASK[::-1]])
        both = Pipeline(array_volume(source), [op], chunk=(16, 16, 16), cache=ChunkCache()).read()
        first = Pipeline(array_volume(source[0]), [op], chunk=(16, 16, 16), cache=ChunkCache()).read()
        assert np.array_equal(both[0], first), case


def test_channels_are_chosen():
    array = np.stack([RAW, 255 - RAW, RAW // 2])
    volume = array_volume(array)
    assert np.array_equal(Pipeline(volume, [ops.Channels((2, 0))]).read(), array[[2, 0]])
    one = Pipeline(volume, [ops.Channels(1)])
    assert one.levels[0].axes == ("z", "y", "x")
    assert np.array_equal(one.read(), array[1])


@pytest.mark.parametrize("channels", [3, (0, 3)])
def test_a_channel_that_is_not_there_is_refused(channels):
    with pytest.raises(ParameterError, match="no channel 3"):
        Pipeline(array_volume(np.stack([RAW, RAW, RAW])), [ops.Channels(channels)])


def test_sizes_scale_with_the_level():
    pyramid = Pipeline(array_volume(RAW, voxel_size_nm=(8, 8, 8)), chunk=(16, 16, 16), cache=ChunkCache())
    volume = Pipeline(pyramid, [ops.Gaussian(sigma=2.0)], cache=ChunkCache())
    assert volume.coarse == "op"
    expected = ndimage.gaussian_filter(pyramid.read(level=1).astype("f4"), 1.0, mode="nearest")
    assert np.abs(volume.read(level=1) - expected).max() < 1e-2


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("gaussian:sigma=1.5", ops.Gaussian(sigma=1.5)),
        ("gaussian(sigma=[1, 2, 3])", ops.Gaussian(sigma=(1, 2, 3))),
        ('{"op": "threshold", "low": 1, "high": 2}', ops.Threshold(low=1, high=2)),
        ("clip: low = 0, high = 1", ops.Clip(low=0, high=1)),
        ("invert", ops.Invert()),
        ("invert()", ops.Invert()),
        ("cast:dtype=uint8", ops.Cast(dtype="uint8")),
        ('expression:expression="np.clip(x, 0, 1)"', ops.Expression("np.clip(x, 0, 1)")),
        ("expression:expression=x*2-1", ops.Expression("x*2-1")),
        ("channels:channels=[0,2]", ops.Channels((0, 2))),
        ("connected_components:connectivity=3", ops.ConnectedComponents(connectivity=3)),
        ("label:chunk=[32,64,64]", ops.Label(chunk=(32, 64, 64))),
        ("downsample:factor=[1,2,2],method=mode", ops.Downsample(factor=(1, 2, 2), method="mode")),
    ],
)
def test_ops_are_read_as_typed(text, op):
    assert parse_op(text) == op


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gausian:sigma=1", ["gausian", "gaussian"]),
        ("gaussian:sgima=1", ["sgima", "sigma"]),
        ("gaussian", ["needs sigma"]),
        ("gaussian:sigma=-1", ["sigma is -1"]),
        ("gaussian:sigma=wide", ["sigma", "a number"]),
        ("gaussian:sigma=[1,2]", ["sigma"]),
        ("gaussian:1.5", ["1.5", "parameter=value"]),
        ("median:size=2", ["odd"]),
        ("cast:dtype=float99", ["float99"]),
        ("expression:expression=__import__('os')", ["expression"]),
        ("{broken", ["JSON"]),
        ("a b", ["not understood"]),
    ],
)
def test_what_is_wrong_with_an_op_is_said(text, words):
    with pytest.raises(ParameterError) as refused:
        parse_op(text)
    for word in words:
        assert word in str(refused.value)


def test_every_op_is_rebuilt_from_its_parameters():
    for op, _, _ in CASES.values():
        given = {k: tuple(v) if isinstance(v, list) else v for k, v in op.parameters().items()}
        assert make_op(op.name, given) == op


def test_the_names_of_the_ops():
    # Other tests make ops of their own.
    assert [name for name, cls in known_ops().items() if cls.__module__.startswith("chunkloom.")] == [
        "cast",
        "channels",
        "clip",
        "close",
        "connected_components",
        "contacts",
        "difference_of_gaussians",
        "dilate",
        "downsample",
        "erode",
        "expression",
        "fill_holes",
        "gaussian",
        "gradient",
        "invert",
        "label",
        "median",
        "open",
        "python",
        "scale",
        "threshold",
        "uniform",
    ]
