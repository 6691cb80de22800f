"""Contrast: percentiles of a sample that is the same every time."""

from __future__ import annotations

import numpy as np
import pytest

from chunkloom.engine.sources import array_volume
from chunkloom.engine.volume import Level, Volume
from chunkloom.errors import ChunkReadError
from chunkloom.geometry import Grid
from chunkloom.viewer.contrast import SAMPLE_VOXELS, contrast_range, sample_boxes


def test_small_level_is_looked_at_whole():
    values = np.random.default_rng(1).normal(100, 10, (20, 30, 40)).astype("float32")
    assert contrast_range(array_volume(values)) == pytest.approx(tuple(np.percentile(values, (0.5, 99.5))))


def test_whole_numbers_for_integers_rounded_outwards():
    values = np.random.default_rng(2).integers(10, 200, (20, 30, 41)).astype("uint8")
    low, high = np.percentile(values, (0.5, 99.5))
    assert contrast_range(array_volume(values)) == (np.floor(low), np.ceil(high))


def test_nan_and_infinity_do_not_count():
    values = np.full((4, 4, 4), np.nan, "float32")
    values[0] = np.inf
    values[1] = np.linspace(0, 100, 16).reshape(4, 4)
    low, high = contrast_range(array_volume(values))
    assert (low, high) == pytest.approx(tuple(np.percentile(np.linspace(0, 100, 16), (0.5, 99.5))), rel=1e-6)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(np.full((4, 4, 4), 7, "uint8"), (0, 255), id="one value"),
        pytest.param(np.full((4, 4, 4), 7, "uint16"), (0, 65535), id="one value of 16 bits"),
        pytest.param(np.full((4, 4, 4), np.nan, "float32"), (0, 1), id="nothing finite"),
    ],
)
def test_without_a_range_the_whole_dtype_is_shown(values, expected):
    assert contrast_range(array_volume(values)) == expected


class Broken(Volume):
    levels = (Level((8, 8, 8), np.dtype("uint8"), (8, 8, 8), ("z", "y", "x"), Grid()),)
    stage_digest = "broken"

    def read_box(self, level, box, work):
        raise ChunkReadError("chunk em/0/0.0.0: truncated")


def test_unreadable_sample_falls_back_and_says_so(caplog):
    assert contrast_range(Broken()) == (0, 255)
    assert "chunk em/0/0.0.0: truncated" in caplog.text


@pytest.mark.parametrize("channels", [(), (3,)], ids=["plain", "channels"])
def test_huge_level_is_sampled_in_a_bounded_spread(channels):
    axes = ("c", "z", "y", "x")[-3 - len(channels) :]
    chunk = (*channels, 128, 128, 128)
    level = Level((*channels, 40000, 50000, 60000), np.dtype("uint8"), chunk, axes, Grid())
    boxes = sample_boxes(level)
    assert len(boxes) == 8
    assert sum(box.size for box in boxes) * int(np.prod(channels)) <= SAMPLE_VOXELS
    for box in boxes:
        assert level.box.contains(box)
        assert all((hi - 1) // 128 == lo // 128 for lo, hi in zip(box.lo, box.hi, strict=True))
    # A quarter of the way along each axis, and three quarters.
    assert {round(box.lo[0] / 40000, 2) for box in boxes} == {0.25, 0.75}


def test_sample_is_the_coarsest_level(two_levels):
    assert contrast_range(two_levels) == (100, 120)


@pytest.fixture
def two_levels():
    fine = array_volume(np.zeros((8, 8, 8), "uint8"))
    coarse = array_volume(np.where(np.indices((4, 4, 4)).sum(axis=0) % 2, 120, 100).astype("uint8"))

    class Both(Volume):
        levels = (fine.levels[0], coarse.levels[0])
        stage_digest = "both"

        def read_box(self, level, box, work):
            return (fine, coarse)[level].read_box(0, box, work)

    return Both()
