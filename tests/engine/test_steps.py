"""Chain steps that make objects, as ops of a pipeline."""

from __future__ import annotations

import cc3d
import numpy as np
import pytest
from scipy import ndimage

from chunkloom import Box, Pipeline, array_volume
from chunkloom.chain.blockwise_merger import SimpleBlockwiseMerger
from chunkloom.chain.segmentation import LabelPostprocessor, MortonSegmentationRelabeling
from chunkloom.engine.cache import ChunkCache
from chunkloom.engine.finalize import finalize
from chunkloom.engine.ops import steps_as_ops
from chunkloom.errors import ParameterError

MASK = (ndimage.gaussian_filter(np.random.default_rng(1).normal(size=(37, 50, 41)), 2) > 0.02).astype(np.uint8)
CHUNK = (16, 16, 16)


def segmented(array: np.ndarray, *, erosion: int = 0) -> Pipeline:
    merger = SimpleBlockwiseMerger(face_erosion_iterations=erosion)
    steps = steps_as_ops([LabelPostprocessor(), MortonSegmentationRelabeling(), merger])
    return Pipeline(array_volume(array), steps, chunk=CHUNK, cache=ChunkCache())


def test_a_step_that_makes_objects_sees_whole_chunks_whoever_asks():
    box = Box((3, 10, 17), (29, 33, 40))
    volume = segmented(MASK)
    assert np.array_equal(volume.read(box), volume.read()[box.slices()])
    part = volume.read()[16:32, 32:48, 16:32]
    alone = ndimage.label(MASK[16:32, 32:48, 16:32])[0]
    assert np.array_equal(part[part > 0] - part[part > 0].min() + 1, alone[alone > 0])


@pytest.mark.parametrize("channels", [False, True], ids=["plain", "one channel"])
def test_the_second_pass_of_a_chain_equals_labelling_the_whole(channels):
    volume = segmented(MASK[None] if channels else MASK)
    made = finalize(volume).read()
    assert made.shape == volume.levels[0].shape
    whole = cc3d.connected_components(MASK, connectivity=6)
    pairs = np.unique(np.stack([made.ravel(), whole.ravel()]), axis=1)
    assert pairs.shape[1] == len(np.unique(pairs[0])) == len(np.unique(pairs[1]))


def test_the_second_pass_keeps_to_the_steps_own_rule():
    mask = np.zeros((16, 16, 32), np.uint8)
    mask[4:6, 4:6, 4:28] = 1
    mask[8:14, 8:14, 4:28] = 1
    assert len(np.unique(finalize(segmented(mask)).read())) == 1 + 2
    assert len(np.unique(finalize(segmented(mask, erosion=1)).read())) == 1 + 3


def test_equivalences_of_a_step_are_those_of_each_volume_it_makes():
    steps = [LabelPostprocessor(), MortonSegmentationRelabeling(), SimpleBlockwiseMerger()]
    cache = ChunkCache()
    first, second = (
        Pipeline(array_volume(array), steps_as_ops(steps), chunk=CHUNK, cache=cache)
        for array in (MASK, np.zeros_like(MASK))
    )
    first.read()
    second.read()
    merger = SimpleBlockwiseMerger()
    for index in Box((0, 0, 0), (3, 4, 3)).indices():
        box = Box.of_chunk(index, CHUNK).intersect(Box.of_shape(MASK.shape))
        merger.process(first.read(box), chunk_corner=index)
    assert first.seams.groups() == merger.equivalences() != []
    assert second.seams.groups() == []


def test_equivalences_are_found_in_chunks_that_another_pipeline_has_computed():
    cache = ChunkCache()
    made = []
    for _ in range(2):
        steps = steps_as_ops([LabelPostprocessor(), MortonSegmentationRelabeling(), SimpleBlockwiseMerger()])
        made.append(Pipeline(array_volume(MASK), steps, chunk=CHUNK, cache=cache))
        made[-1].read()
    assert made[1].seams.groups() == made[0].seams.groups() != []


def test_several_channels_of_ids_are_refused():
    with pytest.raises(ParameterError, match="choose the one with ids"):
        finalize(segmented(np.stack([MASK, MASK])))
