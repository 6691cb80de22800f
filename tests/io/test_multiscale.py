"""Choosing a level for a voxel size, and reading it as if it had that size."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chunkloom.errors import ParameterError
from chunkloom.io import ArrayMeta, choose_level, closest_raw_scale, relabel

BASE = ArrayMeta(
    "/v/s0", "zarr2", (8, 8, 8), (8, 8, 8), np.dtype("u1"), ("z", "y", "x"), (4, 4, 4), (-2, -2, -2), "none"
)


def levels(*sizes: tuple[float, float, float]) -> list[ArrayMeta]:
    return [replace(BASE, voxel_size_nm=size) for size in sizes]


ISOTROPIC = levels((4, 4, 4), (8, 8, 8), (16, 16, 16))
ANISOTROPIC = levels((40, 4, 4), (40, 8, 8), (40, 16, 16))


@pytest.mark.parametrize(
    ("found", "wanted", "number"),
    [
        (ISOTROPIC, (8, 8, 8), 1),
        (ISOTROPIC, (8.000001, 8, 8), 1),
        (ISOTROPIC, (10, 10, 10), 1),
        (ISOTROPIC, (16, 16, 15.9), 1),
        (ISOTROPIC, (100, 100, 100), 2),
        (ISOTROPIC, (1, 1, 1), 0),
        (ISOTROPIC, (8, 8, 4), 0),
        (ANISOTROPIC, (40, 8, 8), 1),
        (ANISOTROPIC, (32, 32, 32), 0),
        (ANISOTROPIC, (50, 9, 9), 1),
    ],
)
def test_floor_takes_the_last_that_is_not_coarser(
    found: list[ArrayMeta], wanted: tuple[float, ...], number: int
) -> None:
    assert choose_level(found, wanted) == number


@pytest.mark.parametrize(
    ("wanted", "number"), [((5.5, 5.5, 5.5), 0), ((5.7, 5.7, 5.7), 1), ((90, 90, 90), 2), ((4, 4, 64), 0)]
)
def test_nearest_is_by_ratio(wanted: tuple[float, ...], number: int) -> None:
    assert choose_level(ISOTROPIC, wanted, "nearest") == number


def test_exact_names_what_there_is() -> None:
    assert choose_level(ISOTROPIC, (16, 16, 16), "exact") == 2
    with pytest.raises(ParameterError, match="4 x 4 x 4; 8 x 8 x 8"):
        choose_level(ISOTROPIC, (5, 5, 5), "exact")


@pytest.mark.parametrize("size", [(0, 1, 1), (1, 1), (float("nan"), 1, 1)])
def test_size_that_is_none_is_refused(size: tuple[float, ...]) -> None:
    with pytest.raises(ParameterError):
        choose_level(ISOTROPIC, size)


def test_relabelled_corner_is_rescaled_with_a_warning() -> None:
    found = relabel(BASE, (8, 4, 3.24))
    assert found.voxel_size_nm == (8, 4, 3.24)
    assert found.corner_nm == pytest.approx((-4, -2, -1.62))
    assert "as if" in found.warnings[0]


def test_relabelling_to_the_same_size_changes_nothing() -> None:
    assert relabel(BASE, (4.0000001, 4, 4)) is BASE


def test_closest_raw_scale_of_a_real_pyramid(shared: Path) -> None:
    raw = shared / "data" / "vnc.zarr" / "raw"
    assert closest_raw_scale(raw, (50, 10, 10)) == (50, 9.2, 9.2)
    assert closest_raw_scale(raw / "s0", (50, 10, 10)) == (50, 4.6, 4.6)


def test_closest_raw_scale_of_nothing_is_none_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert closest_raw_scale(tmp_path / "none", (4, 4, 4)) is None
    assert "no such path" in caplog.text
