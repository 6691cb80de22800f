"""The spatial index: every annotation once over all levels, in every cell it passes through, a few thousand a cell."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from chunkloom.bridge.spatial import IndexLevel, spatial_index

LOWER, UPPER = np.array([-3.0, 10.0, 0.0]), np.array([5.0, 11.0, 4.0])


def listed(level: IndexLevel) -> dict[tuple[int, ...], list[int]]:
    cells = product(*(range(n) for n in level.shape))
    return {at: found.tolist() for at in cells if (found := level.cell(at)) is not None and len(found)}


def points(count: int, seed: int = 0) -> Any:
    return LOWER + np.random.default_rng(seed).random((count, 3)) * (UPPER - LOWER)


def test_every_point_is_once_in_its_cell() -> None:
    given = points(3000)
    levels = spatial_index(given, None, LOWER, UPPER, limit=50)
    seen: list[int] = []
    for level in levels:
        for at, members in listed(level).items():
            low = LOWER + np.array(at) * level.size
            assert (given[members] >= low - 1e-9).all()
            assert (given[members] <= low + np.array(level.size) + 1e-9).all()
            seen.extend(members)
            assert len(members) <= level.limit
    assert sorted(seen) == list(range(3000))


def test_every_line_is_in_one_level_and_all_cells_it_passes_through() -> None:
    a, b = points(400, 1), points(400, 2)
    b[:100] = a[:100] + 0.1 * (b[:100] - a[:100])  # short ones, too
    b[100:110, 1] = a[100:110, 1]  # and along a plane
    levels = spatial_index(a, b, LOWER, UPPER, limit=20)
    steps = np.linspace(0, 1, 400)[:, None]
    level_of: dict[int, int] = {}
    for number, level in enumerate(levels):
        cells = listed(level)
        for i in {i for members in cells.values() for i in members}:
            assert level_of.setdefault(i, number) == number
            along = a[i] + steps * (b[i] - a[i])
            at = np.clip(np.floor((along - LOWER) / level.size), 0, np.array(level.shape) - 1).astype(int)
            passed = set(map(tuple, at.tolist()))
            held = {cell for cell, members in cells.items() if i in members}
            assert passed <= held
            # What is listed beyond it touches the line at a corner or an edge alone.
            for cell in held - passed:
                low = LOWER + np.array(cell) * level.size
                fine = a[i] + np.linspace(0, 1, 20001)[:, None] * (b[i] - a[i])
                gap = np.maximum(np.maximum(low - fine, fine - low - level.size), 0).max(axis=1).min()
                assert gap < 1e-3
    assert sorted(level_of) == list(range(400))


def test_levels_fill_the_bounds_and_halve_towards_cubes() -> None:
    levels = spatial_index(points(5000), None, LOWER, UPPER, limit=50)
    for level in levels:
        np.testing.assert_allclose(np.array(level.shape) * level.size, UPPER - LOWER)
    for coarse, fine in pairwise(levels):
        assert {c // f for c, f in zip(fine.shape, coarse.shape, strict=True)} <= {1, 2}
    assert [level.shape for level in levels[:4]] == [(1, 1, 1), (2, 1, 1), (4, 1, 2), (8, 1, 4)]


def test_a_coarse_level_is_an_even_share_of_all() -> None:
    level = spatial_index(points(20000), None, LOWER, UPPER, limit=2000)[0]
    chosen = level.cell((0, 0, 0))
    assert chosen is not None
    assert len(chosen) == pytest.approx(2000, rel=0.1)
    assert points(20000)[chosen].mean(axis=0) == pytest.approx((LOWER + UPPER) / 2, abs=0.2)
    assert (np.diff(chosen) < 0).any()  # in random order


def test_many_at_one_place_end() -> None:
    same = np.tile(LOWER, (3000, 1))
    levels = spatial_index(same, same + 1, LOWER, UPPER, limit=10)
    assert sum(len(level.cell((0, 0, 0))) for level in levels) == 3000  # type: ignore[arg-type]


def test_cells_outside_the_grid_are_none_and_empty_ones_empty() -> None:
    level = spatial_index(np.zeros((0, 3)), None, LOWER, UPPER)[0]
    assert level.cell((0, 0, 1)) is None
    assert level.cell((0, 0, -1)) is None
    assert level.cell((0, 0)) is None
    empty = level.cell((0, 0, 0))
    assert empty is not None
    assert len(empty) == 0
