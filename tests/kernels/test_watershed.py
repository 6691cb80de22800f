"""Distances and watersheds against the packages they come from, SciPy and shapes that are known."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.ndimage as ndi

from chunkloom.errors import MissingExtraError
from chunkloom.kernels.distance import distance, signed_distance
from chunkloom.kernels.watershed import distance_watershed, mutex_watershed

MASK = np.random.default_rng(4).random((19, 20, 21)) > 0.2


@pytest.mark.parametrize("spacing", [(1, 1, 1), (50, 50, 50), (4, 1, 2.5)], ids=str)
def test_distance_equals_scipy(spacing: tuple[float, ...]) -> None:
    pytest.importorskip("edt")
    np.testing.assert_allclose(distance(MASK, spacing), ndi.distance_transform_edt(MASK, spacing), rtol=1e-5)
    framed = ndi.distance_transform_edt(np.pad(MASK, 1), spacing)[1:-1, 1:-1, 1:-1]
    np.testing.assert_allclose(distance(MASK, spacing, black_border=True), framed, rtol=1e-5)
    outside = ndi.distance_transform_edt(~MASK, spacing)
    signed = signed_distance(MASK, spacing)
    np.testing.assert_allclose(signed + outside, distance(MASK, spacing), rtol=1e-5, atol=1e-5)


def test_distance_of_a_view_that_is_not_contiguous() -> None:
    pytest.importorskip("edt")
    view = MASK[:, ::2].transpose(2, 0, 1)
    np.testing.assert_allclose(distance(view, (3, 2, 1)), ndi.distance_transform_edt(view, (3, 2, 1)), rtol=1e-5)


def balls(*centres: tuple[int, int, int], radius: int) -> np.ndarray:
    grid = np.stack(np.meshgrid(*[np.arange(40)] * 3, indexing="ij"))
    return np.any([((grid - np.reshape(c, (3, 1, 1, 1))) ** 2).sum(axis=0) <= radius**2 for c in centres], axis=0)


def test_touching_balls_are_split_at_the_neck() -> None:
    pytest.importorskip("edt")
    pytest.importorskip("skimage")
    mask = balls((20, 20, 11), (20, 20, 28), radius=10)
    assert ndi.label(mask)[1] == 1
    labels, count = distance_watershed(mask, 5)
    assert count == 2
    assert labels[20, 20, 11] != labels[20, 20, 28]
    np.testing.assert_array_equal(labels > 0, mask)
    # Two mirror images: as many voxels on either side of the neck, which may fall to either.
    assert abs(int((labels == 1).sum()) - int((labels == 2).sum())) <= mask[:, :, 19:21].sum()


def test_watershed_equals_scikit_image_on_its_distance() -> None:
    edt = pytest.importorskip("edt")
    segmentation = pytest.importorskip("skimage.segmentation")
    mask = ndi.gaussian_filter(np.random.default_rng(0).random((40, 40, 40)), 3) > 0.5
    labels, count = distance_watershed(mask, 3)
    depth = edt.edt(mask)
    peaks = mask & (depth == ndi.maximum_filter(depth, size=7))
    seeds, _ = ndi.label(peaks, np.ones((3, 3, 3)))
    expected = segmentation.watershed(-depth, seeds, mask=mask)
    seeded = expected > 0
    np.testing.assert_array_equal(labels[seeded], expected[seeded])
    assert set(np.unique(labels)) == set(range(count + 1))


def test_a_small_object_beside_a_deep_one_is_not_lost() -> None:
    pytest.importorskip("edt")
    pytest.importorskip("skimage")
    mask = balls((20, 20, 20), radius=10)
    mask[20, 20, 32] = True
    labels, count = distance_watershed(mask, 15)
    assert count == 2
    assert labels[20, 20, 32] not in (0, labels[20, 20, 20])


def test_a_block_without_background_is_one_object() -> None:
    pytest.importorskip("edt")
    pytest.importorskip("skimage")
    labels, count = distance_watershed(np.ones((5, 6, 7)), 3)
    assert count == 1
    assert (labels == 1).all()


OFFSETS = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [3, 0, 0], [0, 3, 0], [0, 0, 3]]


def test_mutex_watershed_finds_the_objects_of_perfect_affinities() -> None:
    pytest.importorskip("mwatershed")
    truth = np.ones((8, 20, 20), np.uint64)
    truth[:, 7:] = 2
    truth[:, 7:, 9:] = 3
    affinities = np.zeros((6, *truth.shape), np.float32)
    for channel, offset in enumerate(OFFSETS):
        here = tuple(slice(0, n - o) for o, n in zip(offset, truth.shape, strict=True))
        there = tuple(slice(o, None) for o in offset)
        affinities[(channel, *here)] = truth[here] == truth[there]
    labels, count = mutex_watershed(affinities, OFFSETS, 0.5)
    assert count == 3
    pairs = np.unique(np.stack([labels.ravel(), truth.ravel()]), axis=1)
    assert pairs.shape[1] == 3


def test_mutex_watershed_equals_the_package_less_its_weak_fragments() -> None:
    mwatershed = pytest.importorskip("mwatershed")
    affinities = ndi.gaussian_filter(np.random.default_rng(2).random((6, 10, 14, 15)), (0, 1, 1, 1)).astype(np.float32)
    bias = 0.5
    fragments = mwatershed.agglom(affinities.astype(np.float64) - bias, OFFSETS)
    expected, number = np.zeros(fragments.shape, np.uint64), 0
    for fragment in np.unique(fragments[fragments > 0]):
        inside = fragments == fragment
        if affinities.astype(np.float64).mean(axis=0)[inside].mean() >= bias:
            number += 1
            expected[inside] = number
    labels, count = mutex_watershed(affinities, OFFSETS, bias)
    assert 0 < count == number < len(np.unique(fragments))
    np.testing.assert_array_equal(labels, expected)


@pytest.mark.parametrize(
    ("package", "work"),
    [
        ("edt", lambda: distance(MASK, (1, 1, 1))),
        ("mwatershed", lambda: mutex_watershed(np.ones((3, 2, 2, 2)), OFFSETS[:3], 0.5)),
        ("skimage.segmentation", lambda: distance_watershed(MASK, 3)),
    ],
)
def test_a_missing_package_is_named_with_its_install(
    package: str, work: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'chunkloom\[segmentation\]'$"):
        work()  # type: ignore[operator]
