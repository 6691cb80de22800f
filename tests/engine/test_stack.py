from __future__ import annotations

import numpy as np
import pytest

from chunkloom import Box, Pipeline, array_volume, ops
from chunkloom.engine.cache import ChunkCache
from chunkloom.engine.sources import Stack
from chunkloom.errors import ParameterError

RNG = np.random.default_rng(4)
ONE, TWO = RNG.integers(0, 255, (2, 20, 30, 25)).astype(np.uint8)
PAIR = np.stack([TWO, ONE // 2])


def test_volumes_become_channels_in_order():
    volume = Stack([array_volume(ONE), array_volume(PAIR), array_volume(TWO)])
    assert volume.levels[0].axes == ("c", "z", "y", "x")
    assert volume.levels[0].chunk_shape[0] == 4
    assert np.array_equal(volume.read(), np.concatenate([ONE[None], PAIR, TWO[None]]))
    box = Box((3, 4, 5), (9, 30, 6))
    assert np.array_equal(volume.read(box)[3], TWO[box.slices()])


def test_a_stack_is_a_volume_that_ops_work_on():
    stack = Stack([array_volume(ONE), Pipeline(array_volume(ONE), [ops.Invert()], cache=ChunkCache())])
    volume = Pipeline(stack, [ops.Channels(1)], cache=ChunkCache())
    assert np.array_equal(volume.read(), 255 - ONE)


def test_levels_that_all_have_are_kept():
    deep = Pipeline(array_volume(ONE), chunk=(8, 8, 8), cache=ChunkCache())
    assert len(Stack([deep, array_volume(TWO)]).levels) == 1
    both = Stack([deep, deep])
    assert len(both.levels) == len(deep.levels)
    assert np.array_equal(both.read(level=1)[1], deep.read(level=1))


def test_kinds_that_agree_are_kept():
    labels = array_volume(ONE, kind="labels")
    assert Stack([labels, labels]).kind == "labels"
    assert Stack([labels, array_volume(ONE)]).kind == "image"


def test_the_digest_covers_volumes_and_their_order():
    a, b = array_volume(ONE), array_volume(TWO)
    assert len({Stack([a, b]).digest, Stack([b, a]).digest, Stack([a]).digest, Stack([a, a]).digest}) == 4


@pytest.mark.parametrize(
    ("volumes", "reason"),
    [
        ([], "at least one volume"),
        ([array_volume(ONE), array_volume(ONE.astype("f4"))], "volume 1 .* is float32.*add cast:dtype=uint8"),
        ([array_volume(ONE), array_volume(ONE[1:])], r"shape \(19, 30, 25\)"),
        ([array_volume(ONE), array_volume(ONE, voxel_size_nm=(1, 1, 1.5))], "expected one grid"),
        ([array_volume(ONE), array_volume(ONE, corner_nm=(0, 0, 0.5))], "expected one grid"),
        ([array_volume(PAIR[None])], "expected one channel axis"),
    ],
    ids=["none", "dtype", "shape", "voxel size", "corner", "two channel axes"],
)
def test_volumes_that_do_not_fit_are_refused(volumes, reason):
    with pytest.raises(ParameterError, match=reason):
        Stack(volumes)
