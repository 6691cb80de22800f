from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest
from scipy import ndimage

from chunkloom import Box, Op, Pipeline, array_volume, ops
from chunkloom.engine.cache import ChunkCache
from chunkloom.engine.demand import UNCLAIMED
from chunkloom.engine.pipeline import read_padded
from chunkloom.errors import ChunkError, ParameterError

RNG = np.random.default_rng(7)
ARRAY = RNG.integers(0, 255, (37, 50, 41)).astype(np.uint8)


@dataclasses.dataclass(frozen=True)
class Smooth(Op):
    """A 3-voxel box filter on each axis, as a plug-in would write it: the halo is left on."""

    cache = True

    @property
    def halo(self):
        return (1, 1, 1)

    def output_dtype(self, dtype):
        return np.dtype(np.float64)

    def apply(self, block):
        return ndimage.uniform_filter(block.astype(np.float64), 3, axes=(-3, -2, -1))


def smoothed(array: np.ndarray) -> np.ndarray:
    return ndimage.uniform_filter(array.astype(np.float64), 3, mode="nearest")


def test_a_pipeline_equals_the_ops_on_the_whole_array():
    volume = Pipeline(array_volume(ARRAY), [Smooth(), Smooth(), ops.Threshold(low=127.123)], cache=ChunkCache())
    assert np.array_equal(volume.read(), (smoothed(smoothed(ARRAY)) >= 127.123).astype(np.uint8))


@pytest.mark.parametrize("chunk", [(8, 8, 8), (16, 9, 64), (64, 64, 64)], ids=str)
def test_any_box_equals_the_crop_of_the_whole(chunk):
    volume = Pipeline(array_volume(ARRAY), [Smooth()], chunk=chunk, cache=ChunkCache())
    whole = smoothed(ARRAY)
    for _ in range(10):
        lo = [int(RNG.integers(0, n - 1)) for n in ARRAY.shape]
        hi = [int(RNG.integers(b + 1, n + 1)) for b, n in zip(lo, ARRAY.shape, strict=True)]
        box = Box(tuple(lo), tuple(hi))
        assert np.allclose(volume.read(box), whole[box.slices()], rtol=0, atol=1e-9)


def test_chunks_are_the_same_bytes_with_and_without_a_cache():
    kept = Pipeline(array_volume(ARRAY), [Smooth()], cache=ChunkCache())
    not_kept = Pipeline(array_volume(ARRAY), [Smooth()], cache=ChunkCache(0))
    box = Box((3, 5, 7), (30, 45, 40))
    assert kept.read(box).tobytes() == kept.read(box).tobytes() == not_kept.read(box).tobytes()


def test_channels_are_read_whole():
    array = RNG.integers(0, 255, (3, 20, 21, 22)).astype(np.uint8)
    volume = Pipeline(array_volume(array), [Smooth()], cache=ChunkCache())
    expected = np.stack([smoothed(channel) for channel in array])
    assert np.allclose(volume.read(), expected, rtol=0, atol=1e-9)


def test_what_ops_are_given_from_the_cache_is_read_only():
    class Writer(Op):
        def apply(self, block):
            block[:] = 0
            return block

    volume = Pipeline(array_volume(ARRAY), [Smooth(), Writer()], cache=ChunkCache())
    with pytest.raises(ChunkError, match=r"'Writer' failed at level 0, voxels .*read-only"):
        volume.read()


def test_one_chunk_asked_for_by_many_threads_is_computed_once():
    computed = []
    began = threading.Event()

    class Slow(Smooth):
        def apply(self, block):
            computed.append(1)
            began.wait(5)
            return super().apply(block)

    volume = Pipeline(array_volume(ARRAY, chunk=(64, 64, 64)), [Slow()], cache=ChunkCache(), chunk=(64, 64, 64))
    threads = [threading.Thread(target=volume.read) for _ in range(8)]
    for thread in threads:
        thread.start()
    began.set()
    for thread in threads:
        thread.join()
    assert len(computed) == 1


def test_a_failure_is_shared_by_those_waiting_and_the_next_request_tries_again():
    state = {"fail": True}

    class Fails(Smooth):
        def apply(self, block):
            if state["fail"]:
                raise RuntimeError("no luck")
            return super().apply(block)

    volume = Pipeline(array_volume(ARRAY), [Fails()], cache=ChunkCache())
    with pytest.raises(RuntimeError, match="no luck"):
        volume.read()
    state["fail"] = False
    assert np.allclose(volume.read(), smoothed(ARRAY))


def test_an_op_that_breaks_its_word_is_named():
    class Liar(Smooth):
        def apply(self, block):
            return block

    with pytest.raises(ParameterError, match=r"Liar.*uint8.*declares float64"):
        Pipeline(array_volume(ARRAY), [Liar()], cache=ChunkCache()).read()


def test_the_digest_covers_ops_and_parameters():
    volume = array_volume(ARRAY)
    digests = {
        Pipeline(volume, []).digest,
        Pipeline(volume, [ops.Threshold(low=1)]).digest,
        Pipeline(volume, [ops.Threshold(low=2)]).digest,
        Pipeline(volume, [ops.Threshold(low=2)], chunk=(16, 16, 16)).digest,
        Pipeline(array_volume(ARRAY, voxel_size_nm=(2, 2, 2)), [ops.Threshold(low=2)]).digest,
    }
    assert len(digests) == 5


def test_a_single_level_gets_coarser_ones_from_the_fine_result():
    volume = Pipeline(array_volume(ARRAY, voxel_size_nm=(8, 8, 8), chunk=(16, 16, 16)), [Smooth()], cache=ChunkCache())
    assert [level.spatial_shape for level in volume.levels] == [(37, 50, 41), (19, 25, 21), (10, 13, 11)]
    assert volume.levels[1].grid.voxel_size_nm == (16, 16, 16)
    assert volume.levels[1].grid.corner_nm == (0, 0, 0)
    whole = smoothed(ARRAY)
    expected = np.array(
        [
            [
                [whole[2 * z : 2 * z + 2, 2 * y : 2 * y + 2, 2 * x : 2 * x + 2].mean() for x in range(21)]
                for y in range(25)
            ]
            for z in range(19)
        ]
    )
    assert np.allclose(volume.read(level=1), expected)


def test_coarser_levels_halve_the_axes_with_the_smallest_voxels():
    array = np.zeros((20, 100, 100), np.uint8)
    volume = Pipeline(array_volume(array, voxel_size_nm=(50, 5, 5), chunk=(20, 10, 10)))
    assert [level.spatial_shape for level in volume.levels][:4] == [
        (20, 100, 100),
        (20, 50, 50),
        (20, 25, 25),
        (20, 13, 13),
    ]


def test_coarser_labels_are_the_most_frequent_ids_never_averages():
    array = np.zeros((4, 4, 4), np.uint64)
    array[:2, :2, :2] = 2**60 + 1
    array[0, 0, 0] = 5
    volume = Pipeline(array_volume(array), chunk=(2, 2, 2), cache=ChunkCache())
    assert volume.kind == "labels"
    assert volume.read(level=1)[0, 0, 0] == 2**60 + 1
    assert volume.read(level=1)[1, 1, 1] == 0


def test_padding_repeats_the_border_or_is_constant():
    volume = array_volume(ARRAY)
    box = Box((-3, 45, -50), (5, 60, 3))
    edge = np.pad(ARRAY, ((3, 0), (0, 10), (50, 0)), mode="edge")[:8, 45:60, :53]
    assert np.array_equal(read_padded(volume, 0, box, UNCLAIMED, "edge"), edge)
    constant = np.pad(ARRAY, ((3, 0), (0, 10), (50, 0)), constant_values=9)[:8, 45:60, :53]
    assert np.array_equal(read_padded(volume, 0, box, UNCLAIMED, "constant", 9), constant)


def test_a_box_wholly_outside_is_all_padding():
    volume = array_volume(ARRAY)
    box = Box((-5, 0, 0), (-2, 50, 41))
    assert not read_padded(volume, 0, box, UNCLAIMED, "constant").any()
    assert np.array_equal(read_padded(volume, 0, box, UNCLAIMED, "edge"), np.repeat(ARRAY[:1], 3, axis=0))


def test_an_op_with_other_code_under_the_same_name_is_another_stage():
    def made(offset):
        if offset == 1:

            @dataclasses.dataclass(frozen=True)
            class Mine(Op):
                def apply(self, block):
                    return block + 1
        else:

            @dataclasses.dataclass(frozen=True)
            class Mine(Op):
                def apply(self, block):
                    return block + 2

        return Pipeline(array_volume(ARRAY), [Mine()])

    assert made(1).digest != made(2).digest
    assert made(1).digest == made(1).digest


def test_a_subclass_does_not_take_the_name_or_the_digest_of_a_built_in_op():
    from chunkloom.engine.op import known_ops

    @dataclasses.dataclass(frozen=True)
    class Sharper(ops.Gaussian):
        pass

    volume = array_volume(ARRAY)
    assert known_ops()["gaussian"] is ops.Gaussian
    assert Pipeline(volume, [Sharper(1.0)]).digest != Pipeline(volume, [ops.Gaussian(1.0)]).digest


def test_a_chunk_cannot_be_changed_through_the_array_an_op_returned():
    buffer = np.zeros((64, 64, 64), np.uint8)

    @dataclasses.dataclass(frozen=True)
    class Reuses(Op):
        cache = True

        def apply(self, block):
            buffer[:] = 1
            return buffer[tuple(slice(0, n) for n in block.shape)]

    volume = Pipeline(array_volume(ARRAY), [Reuses()], cache=ChunkCache())
    assert volume.read().max() == 1
    buffer[:] = 7
    assert volume.read().max() == 1
