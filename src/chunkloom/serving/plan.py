"""Which chunks a box of a volume takes to make, stage by stage, told without making any.

Counts as if nothing were kept yet, each voxel once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from chunkloom.engine.pipeline import Pipeline, Pyramid, Stage
from chunkloom.engine.sources import LevelView, Stack
from chunkloom.engine.volume import Volume
from chunkloom.geometry import Box


@dataclass(frozen=True)
class PlannedStage:
    """What one stage makes, or reads, at one level.

    Attributes
    ----------
    stage
        An op's name, "pyramid" (a coarser level of what is below), or "source".
    level
        0 is the finest level of that stage.
    chunks
        The chunks made, as indices z, y, x. Of a stage that keeps none, those that the box touches.
    box
        The voxels of these chunks or, of a stage that keeps none, just those needed.
    nbytes
        Of these voxels, decoded.
    kept
        Whether they stay in the cache.
    """

    stage: str
    level: int
    chunks: Box
    box: Box
    nbytes: int
    kept: bool


def plan(volume: Volume, level: int, box: Box) -> list[PlannedStage]:
    """The stages behind `box` (voxels of `level`), from the volume itself down to its source."""
    if box.is_empty:
        return []
    if isinstance(volume, Pipeline):
        return plan(volume.stages[-1] if volume.stages else volume.source, level, box)
    if isinstance(volume, LevelView):
        return plan(volume.source, level + volume.first, box)
    if isinstance(volume, Stack):
        return [entry for part in volume.volumes for entry in plan(part, level, box)]
    if isinstance(volume, Stage):
        return _stage(volume, level, box)
    if isinstance(volume, Pyramid):
        return _pyramid(volume, level, box)
    return [_entry("source", volume, level, box, kept=False)]


def _stage(stage: Stage, level: int, box: Box) -> list[PlannedStage]:
    size, finest = (stage.source.levels[i].grid.voxel_size_nm for i in (level, 0))
    op = stage.op if level == 0 else stage.op.at_level([a / b for a, b in zip(size, finest, strict=True)])
    made = _entry(stage.op.describe()["op"], stage, level, box, kept=stage.keeps(level))
    if op.block is None:
        needed = op.needs(made.box)
    else:
        # Whole tiles are computed, also where the data ends inside one.
        tiles = made.chunks
        first = op.needs(Box.of_chunk(tiles.lo, op.block))
        last = op.needs(Box.of_chunk(tuple(n - 1 for n in tiles.hi), op.block))
        needed = Box(first.lo, last.hi)
    return [made, *plan(stage.source, level, needed.intersect(stage.source.levels[level].box))]


def _pyramid(pyramid: Pyramid, level: int, box: Box) -> list[PlannedStage]:
    if level == 0:
        return plan(pyramid.source, 0, box)
    made = _entry("pyramid", pyramid, level, box, kept=pyramid.keeps(level))
    fine, coarse = pyramid.levels[level - 1], pyramid.levels[level]
    factor = [round(a / b) for a, b in zip(coarse.voxel_size_nm, fine.voxel_size_nm, strict=True)]
    lo = tuple(n * f for n, f in zip(made.box.lo, factor, strict=True))
    hi = tuple(n * f for n, f in zip(made.box.hi, factor, strict=True))
    return [made, *plan(pyramid, level - 1, Box(lo, hi).intersect(fine.box))]


def _entry(stage: str, volume: Volume, level: int, box: Box, *, kept: bool) -> PlannedStage:
    described = volume.levels[level]
    chunk = described.spatial_chunk
    chunks = box.chunk_range(chunk)
    if kept:
        lo = tuple(n * c for n, c in zip(chunks.lo, chunk, strict=True))
        hi = tuple(n * c for n, c in zip(chunks.hi, chunk, strict=True))
        box = Box(lo, hi).intersect(described.box)
    nbytes = box.size * math.prod(described.channels) * described.dtype.itemsize
    return PlannedStage(stage, level, chunks, box, nbytes, kept)
