from __future__ import annotations

import numpy as np
import pytest

from chunkloom import Pipeline, array_volume, ops
from chunkloom.engine.cache import ChunkCache
from chunkloom.errors import ParameterError

RNG = np.random.default_rng(3)
SHAPE = (22, 19, 25)


def boxes(array: np.ndarray, factors: tuple[int, int, int], reduce) -> np.ndarray:
    """`reduce` of the voxels of each box, one box at a time."""
    coarse = tuple(-(-n // f) for n, f in zip(array.shape, factors, strict=True))
    out = np.empty(coarse, np.float64)
    for index in np.ndindex(coarse):
        part = tuple(slice(i * f, i * f + f) for i, f in zip(index, factors, strict=True))
        out[index] = reduce(array[part])
    return out


def most_frequent(part: np.ndarray) -> float:
    """The smallest of the most frequent values."""
    values, counts = np.unique(part, return_counts=True)
    return values[np.argmax(counts)]


FACTORS = {"2": (2, (2, 2, 2)), "1 2 3": ((1, 2, 3), (1, 2, 3)), "30": (30, (30, 30, 30))}


@pytest.mark.parametrize("factor", FACTORS)
def test_images_are_averaged(factor):
    given, factors = FACTORS[factor]
    array = RNG.normal(size=SHAPE)
    volume = Pipeline(array_volume(array), [ops.Downsample(given)], chunk=(8, 8, 8), cache=ChunkCache())
    assert np.allclose(volume.read(), boxes(array, factors, np.mean))


@pytest.mark.parametrize("dtype", ["uint32", "bool"])
def test_labels_and_masks_take_the_most_frequent_value(dtype):
    array = RNG.integers(0, 3, SHAPE).astype(dtype)
    volume = Pipeline(array_volume(array), [ops.Downsample((3, 2, 2))], chunk=(8, 8, 8), cache=ChunkCache())
    made = volume.read()
    assert made.dtype == dtype
    assert np.array_equal(made, boxes(array, (3, 2, 2), most_frequent))


def test_the_method_can_be_chosen():
    array = RNG.integers(0, 200, SHAPE).astype(np.uint8)
    volume = Pipeline(array_volume(array), [ops.Downsample(2, method="mode")], chunk=(8, 8, 8), cache=ChunkCache())
    assert np.array_equal(volume.read(), boxes(array, (2, 2, 2), most_frequent))


def test_the_grid_changes_and_the_corner_stays():
    volume = array_volume(np.zeros(SHAPE, np.uint8), voxel_size_nm=(3.24, 8, 8), corner_nm=(-1.62, 0.5, 7))
    level = Pipeline(volume, [ops.Downsample((1, 2, 4))]).levels[0]
    assert level.shape == (22, 10, 7)
    assert level.voxel_size_nm == (3.24, 16, 32)
    assert level.grid.corner_nm == (-1.62, 0.5, 7)


def test_ops_after_it_work_on_the_new_grid():
    array = RNG.integers(0, 255, SHAPE).astype(np.uint8)
    coarse = Pipeline(array_volume(array), [ops.Downsample(2)], cache=ChunkCache()).read()
    volume = Pipeline(array_volume(array), [ops.Downsample(2), ops.Median(3)], chunk=(8, 8, 8), cache=ChunkCache())
    assert np.array_equal(volume.read(), Pipeline(array_volume(coarse), [ops.Median(3)], cache=ChunkCache()).read())


def test_each_level_is_made_from_the_sources_own():
    array = RNG.integers(0, 255, (40, 40, 40)).astype(np.uint8)
    pyramid = Pipeline(array_volume(array), chunk=(10, 10, 10), cache=ChunkCache())
    volume = Pipeline(pyramid, [ops.Downsample(2)], chunk=(10, 10, 10), cache=ChunkCache())
    expected = boxes(pyramid.read(level=1), (2, 2, 2), np.mean)
    assert np.array_equal(volume.read(level=1), np.round(expected))


def test_channels_are_reduced_one_by_one():
    array = RNG.normal(size=(2, *SHAPE))
    made = Pipeline(array_volume(array), [ops.Downsample(2)], chunk=(8, 8, 8), cache=ChunkCache()).read()
    assert np.allclose(made, [boxes(channel, (2, 2, 2), np.mean) for channel in array])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [({"factor": 0}, "factor is 0"), ({"factor": (1, 2, 100)}, "1 to 64"), ({"method": "max"}, "method is 'max'")],
    ids=str,
)
def test_parameters_that_cannot_be_are_refused(arguments, reason):
    with pytest.raises(ParameterError, match=reason):
        ops.Downsample(**arguments)
