"""Which level of a pyramid to read for a voxel size, and reading it as if it had that size."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Protocol

from chunkloom.errors import ChunkloomError, ParameterError
from chunkloom.geometry import same_voxel_size
from chunkloom.io.metadata import ArrayMeta, list_levels

_log = logging.getLogger(__name__)

Match = Literal["floor", "exact", "nearest"]


class WithVoxelSize(Protocol):
    """Anything with a voxel size in nm: stored arrays, and the levels of volumes."""

    @property
    def voxel_size_nm(self) -> tuple[float, ...]: ...


def choose_level(levels: Sequence[WithVoxelSize], voxel_size_nm: Sequence[float], match: Match = "floor") -> int:
    """The number of the level to read for `voxel_size_nm` (nm; z, y, x).

    Parameters
    ----------
    levels : finest first.
    match :
        `"floor"`: an equal one, else the last before the first that is coarser on any axis (the first level if that
        is the first). `"exact"`: an equal one. `"nearest"`: least sum over axes of |log ratio|.

    Raises
    ------
    ParameterError
        With `"exact"`, when no level has this size; for another `match`, no levels, or a size that is none.
    """
    if match not in ("floor", "exact", "nearest"):
        raise ParameterError(f"unknown match {match!r}: expected floor, exact or nearest")
    if not levels:
        raise ParameterError("there are no levels to choose from")
    wanted = tuple(float(v) for v in voxel_size_nm)
    if len(wanted) != 3 or not all(math.isfinite(v) and v > 0 for v in wanted):
        raise ParameterError(f"voxel size {tuple(voxel_size_nm)}: expected three positive numbers of nm (z, y, x)")
    for number, level in enumerate(levels):
        if same_voxel_size(level.voxel_size_nm, wanted):
            return number
    if match == "exact":
        sizes = "; ".join(_spell(level.voxel_size_nm) for level in levels)
        raise ParameterError(
            f"no level has voxels of {_spell(wanted)} nm: found {sizes}. "
            "Name one of these, or match='floor' or 'nearest'"
        )
    if match == "nearest":
        distances = [
            sum(abs(math.log(a / b)) for a, b in zip(level.voxel_size_nm, wanted, strict=True)) for level in levels
        ]
        return distances.index(min(distances))
    for number, level in enumerate(levels):
        if any(a > b * (1 + 1e-6) for a, b in zip(level.voxel_size_nm, wanted, strict=True)):
            return max(0, number - 1)
    return len(levels) - 1


def closest_raw_scale(
    dataset_path: str | os.PathLike[str], voxel_size_nm: Sequence[float]
) -> tuple[float, float, float] | None:
    """The voxel size (nm) of the level that is read for `voxel_size_nm`; `dataset_path` is a pyramid or one level.

    None, with a warning in the log, where that cannot be told.
    """
    try:
        levels = list_levels(dataset_path)
        return levels[choose_level(levels, voxel_size_nm)].voxel_size_nm
    except ChunkloomError as error:
        _log.warning("no scale of %s for %s: %s", dataset_path, tuple(voxel_size_nm), error)
        return None


def relabel(meta: ArrayMeta, voxel_size_nm: Sequence[float]) -> ArrayMeta:
    """`meta` read as if its voxels had `voxel_size_nm`, voxel for voxel, its corner rescaled with it.

    A warning is added when that changes the size.
    """
    z, y, x = (float(v) for v in voxel_size_nm)
    if same_voxel_size(meta.voxel_size_nm, (z, y, x)):
        return meta
    cz, cy, cx = (c / own * new for c, own, new in zip(meta.corner_nm, meta.voxel_size_nm, (z, y, x), strict=True))
    warning = f"{meta.path} has voxels of {_spell(meta.voxel_size_nm)} nm and is read as if of {_spell((z, y, x))} nm"
    return replace(meta, voxel_size_nm=(z, y, x), corner_nm=(cz, cy, cx), warnings=(*meta.warnings, warning))


def _spell(voxel_size_nm: Sequence[float]) -> str:
    return " x ".join(f"{v:.12g}" for v in voxel_size_nm)
