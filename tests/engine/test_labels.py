"""Labels made chunk by chunk, against labelling of the whole array by cc3d and scipy."""

from __future__ import annotations

import threading

import cc3d
import numpy as np
import pytest
from scipy import ndimage

from chunkloom import Box, Pipeline, array_volume, ops
from chunkloom.engine.cache import ChunkCache
from chunkloom.engine.demand import UNCLAIMED, Work
from chunkloom.engine.finalize import Collected, Finalized, chunks_of, finalize, look_at
from chunkloom.engine.sources import LevelView
from chunkloom.engine.sweep import in_threads
from chunkloom.errors import CancelledWorkError, ParameterError

RNG = np.random.default_rng(12)
SHAPE = (37, 50, 41)
# Below and near the density at which random voxels connect through the whole volume: objects that wind far.
MASKS = {
    "sparse": RNG.random(SHAPE) < 0.12,
    "winding": RNG.random(SHAPE) < 0.31,
    "blobs": ndimage.gaussian_filter(RNG.normal(size=SHAPE), 2) > 0.02,
}
CC3D = {1: 6, 2: 18, 3: 26}


def components(mask: np.ndarray, connectivity: int) -> np.ndarray:
    return np.asarray(cc3d.connected_components(mask.astype(np.uint8), connectivity=CC3D[connectivity]))


def assert_same_objects(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal up to renumbering."""
    pairs = np.unique(np.stack([found.ravel(), expected.ravel().astype(np.uint64)]), axis=1)
    assert pairs.shape[1] == len(np.unique(pairs[0])) == len(np.unique(pairs[1]))
    assert np.array_equal(found == 0, expected == 0)


def spiral(shape: tuple[int, int, int]) -> np.ndarray:
    """One object a voxel thick that goes through every row of every second plane and never touches itself."""
    mask = np.zeros(shape, np.uint8)
    mask[::2, ::2, :] = 1
    for z in range(0, shape[0], 2):
        for number, y in enumerate(range(1, shape[1] - 1, 2)):
            mask[z, y, -1 if number % 2 == 0 else 0] = 1
    last = (shape[1] - 1) // 2 * 2
    for number, z in enumerate(range(1, shape[0] - 1, 2)):
        mask[z, last if number % 2 == 0 else 0, (-1 if (last // 2) % 2 == 0 else 0) if number % 2 == 0 else 0] = 1
    return mask


@pytest.mark.parametrize("chunk", [(16, 16, 16), (8, 64, 9), (64, 64, 64)], ids=str)
@pytest.mark.parametrize("connectivity", [1, 2, 3])
@pytest.mark.parametrize("mask", MASKS)
def test_second_pass_equals_labelling_the_whole(mask, connectivity, chunk):
    volume = Pipeline(
        array_volume(MASKS[mask]), [ops.ConnectedComponents(connectivity=connectivity)], chunk=chunk, cache=ChunkCache()
    )
    made = finalize(volume).read()
    expected = components(MASKS[mask], connectivity)
    assert_same_objects(made, expected)
    assert np.array_equal(np.unique(made), np.arange(expected.max() + 1))


def test_one_object_that_winds_through_all_chunks_has_one_id():
    mask = spiral((21, 25, 30))
    assert components(mask, 1).max() == 1
    volume = Pipeline(array_volume(mask), [ops.ConnectedComponents()], chunk=(5, 7, 8), cache=ChunkCache())
    assert np.array_equal(finalize(volume).read(), mask)


@pytest.mark.parametrize("connectivity", [1, 3])
@pytest.mark.parametrize(
    "box", [((3, 30), (5, 47), (2, 39)), ((16, 32), (0, 16), (16, 32)), ((35, 37), (49, 50), (0, 1))]
)
def test_a_box_counts_the_chunks_it_touches(box, connectivity):
    chunk = (16, 16, 16)
    mask = MASKS["winding"]
    box = Box(tuple(b for b, _ in box), tuple(e for _, e in box))
    volume = Pipeline(
        array_volume(mask), [ops.ConnectedComponents(connectivity=connectivity)], chunk=chunk, cache=ChunkCache()
    )
    made = finalize(volume, box).read()
    covered = chunks_of(volume, box)
    whole = Box(
        tuple(i * 16 for i in covered.lo), tuple(min(i * 16, n) for i, n in zip(covered.hi, SHAPE, strict=True))
    )
    expected = np.zeros(SHAPE, np.uint64)
    expected[whole.slices()] = components(mask[whole.slices()], connectivity)
    assert_same_objects(made[box.slices()], expected[box.slices()])
    ids = np.unique(made[box.slices()])
    assert np.array_equal(ids[ids > 0], np.arange(1, len(ids[ids > 0]) + 1))
    outside = made.copy()
    outside[box.slices()] = 0
    assert not outside.any()


def test_the_rule_of_overlap_keeps_objects_apart():
    mask = np.zeros((8, 8, 16), np.uint8)
    mask[0:4, 0:4, 2:14] = 1  # 16 voxels wide where the chunks meet
    mask[6:8, 6, 2:14] = 1  # 2 voxels wide
    volume = Pipeline(array_volume(mask), [ops.ConnectedComponents(min_voxels=3)], chunk=(8, 8, 8), cache=ChunkCache())
    made = finalize(volume).read()
    assert len(np.unique(made)) == 1 + 3
    assert made[0, 0, 2] == made[0, 0, 13]
    assert made[6, 6, 2] != made[6, 6, 13]


@pytest.mark.parametrize("connectivity", [1, 2, 3])
def test_labels_of_a_chunk_are_its_own_and_unique_over_all(connectivity):
    mask = MASKS["winding"]
    volume = Pipeline(
        array_volume(mask), [ops.Label(connectivity=connectivity)], chunk=(16, 16, 16), cache=ChunkCache()
    )
    made = volume.read()
    assert made.dtype == np.uint64
    assert volume.kind == "labels"
    structure = ndimage.generate_binary_structure(3, connectivity)
    seen = set()
    for index in volume.levels[0].box.chunk_range((16, 16, 16)).indices():
        part = Box.of_chunk(index, (16, 16, 16)).slices()
        assert_same_objects(made[part], ndimage.label(mask[part], structure)[0])
        ids = set(made[part][made[part] > 0].tolist())
        assert not ids & seen
        seen |= ids


def test_a_box_off_the_grid_shows_the_ids_of_its_chunks():
    volume = Pipeline(array_volume(MASKS["blobs"]), [ops.Label()], chunk=(16, 16, 16), cache=ChunkCache())
    box = Box((3, 10, 17), (29, 33, 40))
    alone = Pipeline(array_volume(MASKS["blobs"]), [ops.Label()], chunk=(16, 16, 16), cache=ChunkCache(0))
    assert np.array_equal(alone.read(box), volume.read()[box.slices()])


def test_nan_is_background():
    values = np.where(MASKS["sparse"], np.nan, 0).astype(np.float32)
    values[0, 0, 0] = 2.5
    made = Pipeline(array_volume(values), [ops.Label()], chunk=(16, 16, 16), cache=ChunkCache()).read()
    assert np.argwhere(made).tolist() == [[0, 0, 0]]


def test_equivalences_are_told_as_chunks_are_seen():
    mask = np.zeros((16, 16, 48), np.uint8)
    mask[4, 4, 2:46] = 1
    volume = Pipeline(array_volume(mask), [ops.ConnectedComponents()], chunk=(16, 16, 16), cache=ChunkCache())
    heard = []
    volume.seams.listen(lambda: heard.append(volume.seams.groups()))
    ids = [int(volume.read(((0, 16), (0, 16), (16 * n, 16 * n + 16))).max()) for n in (2, 0, 1)]
    assert heard == [[sorted(ids)]]
    volume.read()
    assert len(heard) == 1


def test_pipelines_of_one_op_have_seams_of_their_own():
    op = ops.ConnectedComponents()
    first = Pipeline(array_volume(MASKS["blobs"]), [op], chunk=(16, 16, 16), cache=ChunkCache())
    second = Pipeline(array_volume(MASKS["sparse"]), [op], chunk=(16, 16, 16), cache=ChunkCache())
    first.read()
    assert first.seams.groups()
    assert not second.seams.groups()
    assert not op.seams.groups()


def test_volumes_whose_ids_stand_have_no_seams():
    volume = array_volume(MASKS["blobs"])
    labels = Pipeline(volume, [ops.ConnectedComponents()], cache=ChunkCache())
    assert Pipeline(volume, [ops.Label()]).seams is None
    assert Pipeline(labels, [ops.Contacts()]).seams is None
    assert labels.seams is Pipeline(labels).seams is LevelView(labels, 0).seams is not None
    with pytest.raises(ParameterError, match="no objects to join"):
        finalize(volume)


def test_data_with_channels_is_refused():
    with pytest.raises(ParameterError, match=r"axes c, z, y, x of shape \(2, .*channels:channels=0"):
        Pipeline(array_volume(np.stack([MASKS["blobs"]] * 2)), [ops.ConnectedComponents()])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: ops.Label(connectivity=6), "connectivity is 6"),
        (lambda: ops.Label(chunk=(0, 8, 8)), "chunk is"),
        (lambda: ops.ConnectedComponents(min_fraction=2), "min_fraction is 2"),
        (lambda: ops.ConnectedComponents(connectivity=3, min_voxels=2), "need connectivity 1"),
    ],
    ids=["connectivity", "chunk", "fraction", "both"],
)
def test_parameters_that_cannot_be_are_refused(make, reason):
    with pytest.raises(ParameterError, match=reason):
        make()


def test_components_of_coarser_data_are_refused():
    pyramid = Pipeline(array_volume(MASKS["blobs"]), chunk=(16, 16, 16), cache=ChunkCache())
    with pytest.raises(ParameterError, match="coarse='downsample'"):
        Pipeline(pyramid, [ops.ConnectedComponents()], coarse="op")


def test_coarser_levels_are_the_most_frequent_ids():
    volume = Pipeline(array_volume(MASKS["blobs"]), [ops.ConnectedComponents()], chunk=(16, 16, 16), cache=ChunkCache())
    final = finalize(volume)
    assert [level.shape for level in final.levels] == [level.shape for level in volume.levels]
    fine = final.read(box=((0, 2), (0, 2), (0, 2)))
    values, counts = np.unique(fine, return_counts=True)
    assert final.read(level=1)[0, 0, 0] == values[np.argmax(counts)]
    assert final.levels[1].grid == volume.levels[1].grid


def test_final_ids_do_not_depend_on_the_order_of_chunks():
    volume = Pipeline(
        array_volume(MASKS["winding"]), [ops.ConnectedComponents()], chunk=(9, 16, 16), cache=ChunkCache()
    )
    backwards = finalize(volume, each=lambda function, items: map(function, reversed(list(items))))
    threads = finalize(volume, each=in_threads(4))
    alone = finalize(volume, each=map)
    assert alone.read().tobytes() == backwards.read().tobytes() == threads.read().tobytes()
    assert alone.digest == backwards.digest == threads.digest


def test_chunks_can_be_looked_at_elsewhere_and_collected():
    import pickle

    mask = MASKS["winding"]
    volume = Pipeline(array_volume(mask), [ops.ConnectedComponents()], chunk=(16, 16, 16), cache=ChunkCache())
    collected = Collected(volume.seams)
    for index in chunks_of(volume).indices():
        collected.add(pickle.loads(pickle.dumps(look_at(volume, index))))
    made = Finalized(volume, collected.table()).read()
    assert_same_objects(made, components(mask, 1))


def test_progress_counts_both_passes():
    told = []
    volume = Pipeline(array_volume(MASKS["blobs"]), [ops.ConnectedComponents()], chunk=(16, 32, 64), cache=ChunkCache())
    finalize(volume, progress=lambda done, total: told.append((done, total)))
    assert told == [(n, 12) for n in range(1, 7)]


def test_the_digest_covers_the_box():
    volume = Pipeline(array_volume(MASKS["blobs"]), [ops.ConnectedComponents()], chunk=(16, 16, 16), cache=ChunkCache())
    some = finalize(volume, Box((0, 0, 0), (16, 16, 16)))
    assert len({volume.digest, finalize(volume).digest, some.digest}) == 3


def test_an_id_the_first_pass_did_not_see_is_refused():
    volume = Pipeline(array_volume(MASKS["blobs"]), [ops.ConnectedComponents()], chunk=(16, 16, 16), cache=ChunkCache())
    table = Collected(volume.seams).table()
    with pytest.raises(ParameterError, match="not there in the first pass"):
        Finalized(volume, table).read()


def test_the_first_pass_stops_when_nobody_waits():
    class Left(Work):
        def __init__(self):
            self.asked = threading.Semaphore(3)

        def check(self):
            if not self.asked.acquire(blocking=False):
                raise CancelledWorkError("gone")

    volume = Pipeline(array_volume(MASKS["blobs"]), [ops.ConnectedComponents()], chunk=(8, 8, 8), cache=ChunkCache())
    with pytest.raises(CancelledWorkError):
        finalize(volume, work=Left())


def test_an_empty_volume_has_no_objects():
    volume = Pipeline(array_volume(np.zeros((20, 20, 20), np.uint8)), [ops.ConnectedComponents()], chunk=(16, 16, 16))
    assert not finalize(volume).read().any()


def test_ids_that_need_more_than_64_bits_are_refused():
    op = ops.Label(chunk=(64, 64, 64))
    far = Box((64 * 2**17,) * 3, tuple(64 * 2**17 + 64 for _ in range(3)))
    with pytest.raises(ParameterError, match="more than 64 bits"):
        op.apply_at(np.ones((64, 64, 64), np.uint8), far, 0)


def slow_contacts(labels: np.ndarray) -> np.ndarray:
    """Each voxel's ball of radius 1, looked at one shift at a time."""
    padded = np.pad(labels, 1)
    found = np.zeros(labels.shape, bool)
    for axis in range(3):
        for step in (-1, 1):
            other = np.roll(padded, step, axis)[1:-1, 1:-1, 1:-1]
            found |= (labels != 0) & (other != 0) & (other != labels)
    return found.astype(np.uint8)


@pytest.mark.parametrize("dtype", ["uint8", "uint64"])
def test_contacts_are_where_objects_touch(dtype):
    labels = RNG.integers(0, 4, SHAPE).astype(dtype)
    volume = Pipeline(array_volume(labels), [ops.Contacts()], chunk=(16, 16, 16), cache=ChunkCache())
    assert volume.kind == "mask"
    assert np.array_equal(volume.read(), slow_contacts(labels))


def test_contacts_of_channels_are_each_channels_own():
    labels = RNG.integers(0, 4, (2, *SHAPE)).astype(np.uint32)
    made = Pipeline(array_volume(labels), [ops.Contacts()], chunk=(16, 16, 16), cache=ChunkCache()).read()
    assert np.array_equal(made, np.stack([slow_contacts(channel) for channel in labels]))


def test_contacts_need_ids():
    with pytest.raises(ParameterError, match="needs ids, found float32"):
        Pipeline(array_volume(np.zeros((4, 4, 4), np.float32)), [ops.Contacts()])


def test_reading_the_first_pass_again_gives_the_same_chunk():
    volume = Pipeline(
        array_volume(MASKS["blobs"]), [ops.ConnectedComponents()], chunk=(16, 16, 16), cache=ChunkCache(0)
    )
    box = Box((0, 0, 0), (16, 16, 16))
    assert volume.read_box(0, box, UNCLAIMED).tobytes() == volume.read_box(0, box, UNCLAIMED).tobytes()


def test_what_is_one_object_is_known_of_chunks_that_come_from_a_cache():
    cache = ChunkCache()
    made = [
        Pipeline(array_volume(MASKS["blobs"]), [ops.ConnectedComponents()], chunk=(16, 16, 16), cache=cache)
        for _ in range(2)
    ]
    for volume in made:
        volume.read()
    found = made[1].seams.groups()
    assert found == made[0].seams.groups() != []
    joined = sum(map(len, found)) - len(found)
    assert len(np.unique(made[0].read())) - joined == len(np.unique(components(MASKS["blobs"], 1)))


def test_an_op_in_two_pipelines_joins_each_volumes_own_objects():
    op = ops.ConnectedComponents()
    made = [
        Pipeline(array_volume(mask), [op], chunk=(16, 16, 16), cache=ChunkCache())
        for mask in (MASKS["blobs"], np.zeros(SHAPE, bool))
    ]
    for volume in made:
        volume.read()
    assert made[0].seams.groups()
    assert made[1].seams.groups() == op.seams.groups() == []
