"""Volumes made up on the spot: `synthetic://em`, `synthetic://cells`, `synthetic://cube`.

They need no data and no room: any box of any level is made from its place alone, so that a volume of 4096 voxels a
side opens at once and a far corner of it costs as much as a near one. The tissue is the same at every shape, voxel
size and corner; only the seed makes other tissue.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from chunkloom.engine.sources import micrograph, overview, seeds, tissue
from chunkloom.engine.sources.lattice import subkey
from chunkloom.engine.volume import SPATIAL, Array, Kind, Level, Volume, make_digest
from chunkloom.errors import ParameterError, nearest
from chunkloom.geometry import Box, Grid

if TYPE_CHECKING:
    from chunkloom.engine.demand import Work

SCHEME = "synthetic://"
CHUNK = (64, 64, 64)
VERSION = 1
"""To be raised with every change to the voxels: part of the digest."""
LONGEST = 1 << 19
"""Voxels along an axis, at most: positions are exact up to there."""

Check = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a path asks for. Axes are z, y, x; `levels` of None are as many as it takes to fit in one chunk."""

    name: str
    shape: tuple[int, int, int]
    voxel_size_nm: tuple[float, float, float] = (10.0, 10.0, 10.0)
    corner_nm: tuple[float, float, float] = (0.0, 0.0, 0.0)
    seed: int = 1
    levels: int | None = None


@dataclass(frozen=True, slots=True)
class Generator:
    """One kind of synthetic volume. `paint(seed, level, box, check)` makes the voxels of a box of up to a chunk."""

    kind: Kind
    dtype: str
    shape: tuple[int, int, int]
    parameters: tuple[str, ...]
    paint: Callable[[int, int, Box, Check], Array]


def _paint_em(seed: int, level: int, box: Box, check: Check) -> Array:
    key = subkey(seed, 0)
    if level < micrograph.SHARP_LEVELS:
        grey = micrograph.cells_close(key, level, box, check)
    else:
        grey = overview.cells_from_afar(key, 1 << level, box)
    check()
    return micrograph.to_uint8(grey + micrograph.texture(key, level, box))


def _paint_cells(seed: int, level: int, box: Box, check: Check) -> Array:
    key = subkey(seed, 0)
    if level < micrograph.SHARP_LEVELS:
        return micrograph.ids_close(key, level, box)
    at = micrograph.centres(box, 1 << level)
    if 1 << level > seeds.SPACING:
        return seeds.far_ids(key, at)
    traced = tissue.trace_cells(key, at)
    return np.asarray(traced.seeds.ids[traced.owner])


CUBE = Box((40, 48, 56), (80, 96, 88))
CUBE_GREY, GROUND_GREY = 220, 30


def _paint_cube(seed: int, level: int, box: Box, check: Check) -> Array:
    """The mean of the finest voxels in each voxel: the part of it that is in the cube, axis by axis."""
    size = 1 << level
    parts = []
    for b, h, lo, hi in zip(box.lo, box.hi, CUBE.lo, CUBE.hi, strict=True):
        begin = np.arange(b, h) * size
        parts.append(np.clip(np.minimum(begin + size, hi) - np.maximum(begin, lo), 0, size) / size)
    z, y, x = parts
    part = z[:, None, None] * y[:, None] * x
    return np.asarray(np.rint(GROUND_GREY + (CUBE_GREY - GROUND_GREY) * part).astype(np.uint8))


_PLACING = ("shape", "voxel", "corner", "levels")
GENERATORS = {
    "em": Generator("image", "uint8", (512, 512, 512), (*_PLACING, "seed"), _paint_em),
    "cells": Generator("labels", "uint64", (512, 512, 512), (*_PLACING, "seed"), _paint_cells),
    "cube": Generator("image", "uint8", (128, 128, 128), _PLACING, _paint_cube),
}


class SyntheticVolume(Volume):
    """A made-up volume. Made with `open_synthetic`."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._generator = GENERATORS[recipe.name]
        self.kind = self._generator.kind
        grid = Grid(recipe.voxel_size_nm, recipe.corner_nm)
        count = (
            recipe.levels or max((-(-n // c) - 1).bit_length() for n, c in zip(recipe.shape, CHUNK, strict=True)) + 1
        )
        self.levels = tuple(
            Level(
                shape=tuple(-(-n // 2**k) for n in recipe.shape),
                dtype=np.dtype(self._generator.dtype),
                chunk_shape=CHUNK,
                axes=SPATIAL,
                grid=grid.downsampled((2**k,) * 3),
            )
            for k in range(count)
        )

    @cached_property
    def stage_digest(self) -> str:
        return make_digest(["synthetic", VERSION, dataclasses.asdict(self.recipe), len(self.levels)])

    def read_box(self, level: int, box: Box, work: Work) -> Array:
        out = np.empty(box.shape, self.levels[level].dtype)
        # Chunk by chunk, so that a large box takes no more memory than its own voxels.
        for index in box.chunk_range(CHUNK).indices():
            work.check()
            part = Box.of_chunk(index, CHUNK).intersect(box)
            out[part.slices(box.lo)] = self._generator.paint(self.recipe.seed, level, part, work.check)
        return out


def open_synthetic(path: str) -> Volume:
    """A made-up volume.

    Parameters
    ----------
    path
        `synthetic://NAME`, or `synthetic://NAME?PARAMETER=VALUE&...`. Names:

        ``em``
            Tissue as in an isotropic electron microscope, uint8: cells of about 40 voxels, dark membranes.
        ``cells``
            The same cells as uint64 labels; no voxel is 0.
        ``cube``
            A cube of grey 220 on 30, from voxel 40, 48, 56 up to 80, 96, 88 (z, y, x), uint8.

        Parameters, each with the axes z, y, x: ``shape`` (voxels; default 512,512,512, of the cube 128,128,128),
        ``voxel`` (nm; 10,10,10), ``corner`` (of voxel 0, nm; 0,0,0), ``levels`` (as many as it takes to fit in one
        chunk) and, but for the cube, ``seed`` (1). Each level halves all three axes. Level k is made at its own
        voxels: voxel i covers the finest voxels from i * 2**k up to (i + 1) * 2**k.

    Raises
    ------
    ParameterError
        A name, parameter or value that there is not.
    """
    return SyntheticVolume(parse_recipe(path))


def parse_recipe(path: str) -> Recipe:
    """The `Recipe` that `path` names."""
    name, _, query = path.removeprefix(SCHEME).partition("?")
    if not path.startswith(SCHEME) or name not in GENERATORS:
        raise ParameterError(f"no synthetic volume {name!r} in {path}: {nearest(name, list(GENERATORS))}")
    generator = GENERATORS[name]
    given: dict[str, str] = {}
    for member in query.split("&") if query else ():
        key, equals, value = member.partition("=")
        if key not in generator.parameters:
            raise ParameterError(
                f"synthetic volume {name!r} has no parameter {key!r}, in {path}: {nearest(key, generator.parameters)}"
            )
        if not equals or key in given:
            raise ParameterError(f"parameter {key!r} has to be given once, as {key}=value, in {path}")
        given[key] = value
    recipe = Recipe(name, generator.shape)
    if "shape" in given:
        z, y, x = (_whole("shape", n, path, 1, LONGEST) for n in _three("shape", given["shape"], path))
        recipe = dataclasses.replace(recipe, shape=(z, y, x))
    if "voxel" in given:
        recipe = dataclasses.replace(recipe, voxel_size_nm=_lengths("voxel", given["voxel"], path))
        if min(recipe.voxel_size_nm) <= 0:
            raise ParameterError(f"voxel={given['voxel']} in {path}: expected three numbers of nm above 0, z,y,x")
    if "corner" in given:
        recipe = dataclasses.replace(recipe, corner_nm=_lengths("corner", given["corner"], path))
    if "seed" in given:
        recipe = dataclasses.replace(recipe, seed=_whole("seed", given["seed"], path, 0, 2**32 - 1))
    if "levels" in given:
        most = (max(recipe.shape) - 1).bit_length() + 1
        recipe = dataclasses.replace(recipe, levels=_whole("levels", given["levels"], path, 1, most))
    return recipe


def _three(name: str, text: str, path: str) -> list[str]:
    words = text.split(",")
    if len(words) != 3:
        raise ParameterError(f"{name}={text} in {path}: expected three numbers, z,y,x")
    return words


def _whole(name: str, text: str, path: str, least: int, most: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        raise ParameterError(f"{name} {text!r} in {path}: expected a whole number from {least} to {most}")
    return value


def _lengths(name: str, text: str, path: str) -> tuple[float, float, float]:
    try:
        z, y, x = (float(word) for word in _three(name, text, path))
    except ValueError as error:
        if isinstance(error, ParameterError):
            raise
        raise ParameterError(f"{name}={text} in {path}: expected three numbers of nm, z,y,x") from None
    if not all(math.isfinite(v) for v in (z, y, x)):
        raise ParameterError(f"{name}={text} in {path}: expected finite numbers of nm, z,y,x")
    return (z, y, x)
