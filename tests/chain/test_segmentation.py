"""Postprocessors that make objects, against SciPy, cc3d and mwatershed."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import scipy.ndimage as ndi

from chunkloom.chain import (
    AffinityPostprocessor,
    DistanceWatershedPostprocessor,
    FillHolesPostprocessor,
    LabelPostprocessor,
    MortonSegmentationRelabeling,
    PostProcessor,
    SimpleBlockwiseMerger,
)
from chunkloom.errors import ParameterError
from chunkloom.kernels.labels import morton_index, relabel

PREDICTION = np.random.default_rng(21).normal(0, 1, (2, 12, 13, 14)).astype(np.float32)


def test_filled_holes_equal_scipy_per_channel() -> None:
    smooth = ndi.gaussian_filter(PREDICTION, (0, 1, 1, 1))
    result = FillHolesPostprocessor(0.05).process(smooth)
    assert result.dtype == np.uint8
    for channel, filled in zip(smooth, result, strict=True):
        np.testing.assert_array_equal(filled, ndi.binary_fill_holes(channel > np.float32(0.05)))


@pytest.mark.parametrize("channel", [0, 1])
def test_labels_equal_scipy_and_other_channels_are_kept(channel: int) -> None:
    mask = (PREDICTION > 0.8).astype(np.uint8) * 3
    result = LabelPostprocessor(channel).process(mask)
    assert result.dtype == np.uint32
    np.testing.assert_array_equal(result[channel], ndi.label(mask[channel])[0])
    np.testing.assert_array_equal(result[1 - channel], mask[1 - channel])


def test_data_without_a_channel_axis_is_channel_0() -> None:
    mask = PREDICTION[0] > 1
    np.testing.assert_array_equal(LabelPostprocessor().process(mask), ndi.label(mask)[0])


@pytest.mark.parametrize(
    "step",
    [LabelPostprocessor(2), MortonSegmentationRelabeling(2), DistanceWatershedPostprocessor(channel=2)],
    ids=repr,
)
def test_a_channel_that_is_not_there_is_refused(step: PostProcessor) -> None:
    with pytest.raises(ParameterError, match="there is no channel 2"):
        step.process(PREDICTION, chunk_corner=(0, 0, 0), chunk_num_voxels=8)


def test_watershed_splits_what_labelling_joins() -> None:
    pytest.importorskip("edt")
    pytest.importorskip("skimage")
    grid = np.stack(np.meshgrid(np.arange(24), np.arange(24), np.arange(40), indexing="ij"))
    mask = np.any(
        [((grid - np.reshape(c, (3, 1, 1, 1))) ** 2).sum(axis=0) <= 81 for c in ((12, 12, 11), (12, 12, 27))],
        axis=0,
    )
    assert LabelPostprocessor().process(mask).max() == 1
    result = DistanceWatershedPostprocessor().process(mask.astype(np.float32))
    assert (result.dtype, result.max()) == (np.uint32, 2)
    np.testing.assert_array_equal(result > 0, mask)


def test_morton_relabelling_adds_the_chunks_own_range() -> None:
    labels = np.array([[[[0, 1, 2]]], [[[7, 0, 9]]]], np.uint32)
    result = MortonSegmentationRelabeling().process(labels, chunk_corner=(3, 5, 1), chunk_num_voxels=2**40)
    offset = 2**40 * morton_index((3, 5, 1))
    assert result.dtype == np.uint64
    assert result.tolist() == [[[[0, 1 + offset, 2 + offset]]], [[[7, 0, 9]]]]


@pytest.mark.parametrize("context", [{}, {"chunk_corner": (0, 0, 0)}, {"chunk_num_voxels": 8}], ids=str)
def test_morton_relabelling_needs_to_know_the_chunk(context: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match="needs to know the chunk"):
        MortonSegmentationRelabeling().process(np.ones((1, 2, 2, 2), np.uint32), **context)


def test_ids_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ParameterError, match="more than 64 bits"):
        MortonSegmentationRelabeling().process(
            np.ones((1, 2, 2, 2), np.uint32), chunk_corner=(2**20, 0, 0), chunk_num_voxels=64
        )


# Affinities

OFFSETS = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [3, 0, 0], [0, 3, 0], [0, 0, 3]]


def affinities_of_membranes(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Cells with walls, and 1 - max(wall here, wall there) for each offset, with noise."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(0, 24, (8, 3))
    grid = np.stack(np.meshgrid(*[np.arange(24)] * 3, indexing="ij"), axis=-1)
    distances = np.sort(np.linalg.norm(grid[..., None, :] - points, axis=-1), axis=-1)
    # Thick enough that no offset reaches over a wall.
    wall = np.clip(2.5 - (distances[..., 1] - distances[..., 0]) / 2, 0, 1)
    wall = np.clip(wall + rng.normal(0, 0.05, wall.shape), 0, 1)
    channels = [1 - np.maximum(wall, np.roll(wall, [-n for n in offset], (0, 1, 2))) for offset in OFFSETS]
    return np.array(channels, np.float32), wall


def test_affinities_equal_mwatershed_directly() -> None:
    mwatershed = pytest.importorskip("mwatershed")
    affinities, _ = affinities_of_membranes(1)
    step = AffinityPostprocessor(bias=0.5, neighborhood=str(OFFSETS))
    result = step.process(affinities, chunk_corner=(1, 0, 2), chunk_num_voxels=24**3)
    fragments = mwatershed.agglom(affinities.astype(np.float64) - 0.5, OFFSETS)
    strength = affinities.astype(np.float64).mean(axis=0)
    kept = [f for f in np.unique(fragments[fragments > 0]) if strength[fragments == f].mean() >= 0.5]
    expected = np.zeros(fragments.shape, np.uint64)
    for number, fragment in enumerate(kept, 1):
        expected[fragments == fragment] = number + 24**3 * morton_index((1, 0, 2))
    assert (result.dtype, result.shape) == (np.uint64, (1, 24, 24, 24))
    assert len(kept) > 3
    np.testing.assert_array_equal(result[0], expected)


def test_integer_affinities_are_shares_of_255_and_floats_are_taken_as_they_are() -> None:
    pytest.importorskip("mwatershed")
    affinities, _ = affinities_of_membranes(2)
    step = AffinityPostprocessor(0.5, OFFSETS)  # type: ignore[arg-type]
    integers = np.rint(affinities * 255).astype(np.uint8)
    np.testing.assert_array_equal(step.process(integers), step.process(integers / 255.0))


def test_fewer_channels_take_the_first_offsets_and_the_step_stays_as_it_is() -> None:
    pytest.importorskip("mwatershed")
    affinities, _ = affinities_of_membranes(3)
    step = AffinityPostprocessor(0.5)
    described = step.to_dict()
    short = AffinityPostprocessor(0.5, str(OFFSETS[:3]))
    np.testing.assert_array_equal(step.process(affinities[:3]), short.process(affinities[:3]))
    assert step.to_dict() == described
    assert len(step.offsets) == 9


@pytest.mark.parametrize("shape", [(4, 4, 4), (10, 4, 4, 4)], ids=str)
def test_affinities_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ParameterError, match="at most 9 channels"):
        AffinityPostprocessor().process(np.zeros(shape, np.float32))


# Objects over chunks


def chunks_of(shape: tuple[int, ...], edge: int) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(-(-n // edge)) for n in shape)))


def segment(mask: np.ndarray, merger: SimpleBlockwiseMerger, order: list[tuple[int, ...]], edge: int) -> np.ndarray:
    out = np.zeros(mask.shape, np.uint64)
    for chunk in order:
        box = tuple(slice(c * edge, (c + 1) * edge) for c in chunk)
        context = {"chunk_corner": chunk, "chunk_num_voxels": edge**3}
        data = mask[box][None]
        for step in (LabelPostprocessor(), MortonSegmentationRelabeling(), merger):
            data = step.process(data, **context)
        assert data.dtype == np.uint64
        out[box] = data[0]
    return out


@pytest.mark.parametrize("order", ["forward", "backward", "shuffled", "twice"])
def test_merged_chunks_equal_labelling_of_the_whole(order: str) -> None:
    cc3d = pytest.importorskip("cc3d")
    mask = np.random.default_rng(5).random((30, 26, 33)) > 0.66
    chunks = chunks_of(mask.shape, 10)
    if order == "backward":
        chunks.reverse()
    elif order == "shuffled":
        np.random.default_rng(1).shuffle(chunks)
        chunks = [tuple(int(n) for n in chunk) for chunk in chunks]
    elif order == "twice":
        chunks = chunks + chunks
    merger = SimpleBlockwiseMerger()
    labels = segment(mask, merger, chunks, 10)
    merged = relabel(labels, *merger.equivalence_table())
    whole = cc3d.connected_components(mask, connectivity=6)
    pairs = np.unique(np.stack([merged.ravel(), whole.astype(np.uint64).ravel()]), axis=1)
    assert pairs.shape[1] == len(np.unique(pairs[0])) == len(np.unique(pairs[1]))


def test_threads_find_the_same_equivalences() -> None:
    mask = np.random.default_rng(6).random((40, 40, 40)) > 0.66
    alone, together = SimpleBlockwiseMerger(), SimpleBlockwiseMerger()
    chunks = chunks_of(mask.shape, 10)
    segment(mask, alone, chunks, 10)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda chunk: segment(mask, together, [chunk], 10), chunks))
    assert together.equivalences() == alone.equivalences() != []


def test_groups_are_plain_integers_in_order() -> None:
    merger = SimpleBlockwiseMerger()
    merger.process(np.full((2, 2, 2), 2**63 + 7, np.uint64), chunk_corner=(0, 0, 0))
    assert merger.equivalences() == []
    merger.process(np.full((2, 2, 2), 5, np.uint64), chunk_corner=(0, 0, 1))
    merger.process(np.full((2, 2, 2), 9, np.uint64), chunk_corner=(0, 2, 0))  # not a neighbour
    assert merger.equivalences() == [[5, 2**63 + 7]]


def test_listeners_hear_of_new_equivalences_only() -> None:
    merger, heard = SimpleBlockwiseMerger(), []
    merger.on_new_equivalences(lambda: heard.append(threading.get_ident()))
    ones = np.ones((1, 2, 2, 2), np.uint32)
    merger.process(ones, chunk_corner=(0, 0, 0))
    merger.process(ones * 2, chunk_corner=(1, 0, 0))
    merger.process(ones * 2, chunk_corner=(1, 0, 0))
    merger.process(ones * 0, chunk_corner=(2, 0, 0))
    assert heard == [threading.get_ident()]


def test_eroded_faces_do_not_join_by_a_thread() -> None:
    labels = np.zeros((1, 4, 9, 9), np.uint64)
    labels[0, :, 4, 4] = 1
    labels[0, :, 1:8, 1:8] = 1
    other = np.zeros_like(labels)
    other[0, :, 4, 4] = 2
    thin, solid = SimpleBlockwiseMerger(face_erosion_iterations=1), SimpleBlockwiseMerger()
    for merger in (thin, solid):
        merger.process(labels, chunk_corner=(0, 0, 0))
        merger.process(other, chunk_corner=(1, 0, 0))
    assert (thin.equivalences(), solid.equivalences()) == ([], [[1, 2]])


def test_a_chunk_cut_short_by_the_end_of_the_data_is_compared_where_both_are() -> None:
    merger = SimpleBlockwiseMerger()
    merger.process(np.full((4, 4, 4), 1, np.uint64), chunk_corner=(0, 0, 0))
    merger.process(np.full((4, 4, 2), 2, np.uint64), chunk_corner=(1, 0, 0))
    assert merger.equivalences() == [[1, 2]]


def test_merger_needs_to_know_the_chunk_and_keeps_its_state_to_itself() -> None:
    with pytest.raises(ParameterError, match="needs to know the chunk"):
        SimpleBlockwiseMerger().process(np.ones((2, 2, 2), np.uint64))
    assert SimpleBlockwiseMerger() != SimpleBlockwiseMerger()


def test_merger_works_on_its_channel() -> None:
    merger = SimpleBlockwiseMerger(channel=1)
    data = np.stack([np.full((2, 2, 2), 9), np.full((2, 2, 2), 1)]).astype(np.uint64)
    merger.process(data, chunk_corner=(0, 0, 0))
    merger.process(data + 1, chunk_corner=(1, 0, 0))
    assert merger.equivalences() == [[1, 2]]


def test_real_neurons_come_back_from_their_noisy_affinities(shared: Path) -> None:
    """Affinities of a real segmentation (1 within an object, 0 between), with seeded noise, and back."""
    pytest.importorskip("mwatershed")
    tensorstore = pytest.importorskip("tensorstore")
    metrics = pytest.importorskip("skimage.metrics")
    path = shared / "data" / "fibsem.zarr" / "neurons" / "s0"
    store = tensorstore.open({"driver": "zarr", "kvstore": {"driver": "file", "path": str(path)}}).result()
    truth = store[:48, :64, 60:124].read().result().astype(np.uint64)
    rng = np.random.default_rng(0)
    affinities = np.zeros((len(OFFSETS), *truth.shape), np.float32)
    for channel, offset in enumerate(OFFSETS):
        here = tuple(slice(0, n - o) for o, n in zip(offset, truth.shape, strict=True))
        there = tuple(slice(o, None) for o in offset)
        affinities[(channel, *here)] = (truth[here] == truth[there]) & (truth[here] != 0)
    affinities = np.clip(affinities * 0.8 + rng.normal(0.1, 0.05, affinities.shape), 0, 1).astype(np.float32)
    result = AffinityPostprocessor(0.5, str(OFFSETS)).process(
        affinities, chunk_corner=(0, 0, 0), chunk_num_voxels=48**3
    )
    inside = truth > 0
    split, merged = metrics.variation_of_information(truth[inside], result[0][inside].astype(np.int64))
    assert len(np.unique(truth)) > 5
    assert merged < 0.05
    assert split < 0.2
