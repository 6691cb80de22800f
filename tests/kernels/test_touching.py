"""What touches what, against loops over voxels, whole and in blocks."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest

from chunkloom.kernels.touching import Touches, merged_touches, no_touches, shared_faces, touches

STEPS = [(0, 0, 0), (1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)]


def volumes(seed: int, shape: tuple[int, int, int] = (7, 9, 8)) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 4, shape).repeat(2, 0)[: shape[0]].astype(np.uint64) * np.uint64(2**60 + 1)
    objects = np.where(rng.random(shape) < 0.3, rng.integers(1, 4, shape), 0).astype(np.uint32)
    return objects, cells, rng.integers(0, 3, shape).astype(np.uint8)


def as_counts(found: Touches) -> dict[tuple[int, int], tuple[int, ...]]:
    rows = zip(found.a.tolist(), found.b.tolist(), found.counts.tolist(), strict=True)
    return {(a, b): tuple(n) for a, b, n in rows}


def touched_by_loops(objects: Any, cells: Any, sides: Any) -> dict[tuple[int, int], tuple[int, ...]]:
    counts: Counter[tuple[int, int, int]] = Counter()
    for at in product(*map(range, objects.shape)):
        s = int(objects[at])
        if not s:
            continue
        counts[s, 0, 0] += 1
        seen = set()
        for step in STEPS:
            near = tuple(a + b for a, b in zip(at, step, strict=True))
            if all(0 <= n < m for n, m in zip(near, objects.shape, strict=True)) and cells[near]:
                side = int(sides[near]) or (int(sides[at]) if not cells[at] else 0)
                seen |= {(s, int(cells[near]), 0)} | ({(s, int(cells[near]), side)} if side else set())
        counts.update(seen)
    pairs = {(s, c) for s, c, _ in counts}
    return {(s, c): tuple(counts[s, c, k] for k in range(3)) for s, c in pairs}


def faces_by_loops(labels: Any, mask: Any, sides: Any) -> dict[tuple[int, int], tuple[int, ...]]:
    counts: dict[tuple[int, int], list[int]] = {}
    for at in product(*map(range, labels.shape)):
        for axis in range(3):
            near = tuple(n + (i == axis) for i, n in enumerate(at))
            if near[axis] == labels.shape[axis] or not (mask[at] or mask[near]):
                continue
            (a, s), (b, t) = sorted([(int(labels[at]), int(sides[at])), (int(labels[near]), int(sides[near]))])
            if a and a != b:
                n = counts.setdefault((a, b), [0, 0, 0])
                n[0] += 1
                n[1] += (s, t) == (1, 2)
                n[2] += (s, t) == (2, 1)
    return {pair: tuple(n) for pair, n in counts.items()}


def blocks(shape: tuple[int, ...], size: int) -> Any:
    for begin in product(*(range(0, n, size) for n in shape)):
        yield tuple(slice(b, min(b + size, n)) for b, n in zip(begin, shape, strict=True))


@pytest.mark.parametrize("size", [3, 4, 9], ids=lambda n: f"blocks-of-{n}")
@pytest.mark.parametrize("seed", [0, 1])
def test_voxels_count_once_for_each_cell_they_touch(seed: int, size: int) -> None:
    objects, cells, sides = volumes(seed)
    around, around_sides = np.pad(cells, 1), np.pad(sides, 1)
    parts = []
    for block in blocks(objects.shape, size):
        wider = tuple(slice(s.start, s.stop + 2) for s in block)
        parts.append(touches(objects[block], around[wider], around_sides[wider]))
    assert as_counts(merged_touches(parts)) == touched_by_loops(objects, cells, sides)


@pytest.mark.parametrize("size", [3, 4, 9], ids=lambda n: f"blocks-of-{n}")
def test_faces_are_counted_once(size: int) -> None:
    mask, labels, sides = volumes(3)
    padded = [np.pad(v, (0, 1)) for v in (labels, mask, sides)]
    parts = []
    for block in blocks(labels.shape, size):
        wider = tuple(slice(s.start, s.stop + 1) for s in block)
        parts.append(shared_faces(*(v[wider] for v in padded)))
    assert as_counts(merged_touches(parts)) == faces_by_loops(labels, mask, sides)


def test_nothing_touches_nothing() -> None:
    found = touches(np.zeros((2, 2, 2), np.uint8), np.ones((4, 4, 4), np.uint8))
    assert as_counts(found) == as_counts(no_touches()) == as_counts(merged_touches([])) == {}
