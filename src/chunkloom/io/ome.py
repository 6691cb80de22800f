"""OME-NGFF placement: centre to corner and back, and the attributes that writers write.

`ome_corner` and `ome_translation` are the only places that add or take half a voxel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_SPACE = ("z", "y", "x")


def ome_corner(translation: Sequence[float], scale: Sequence[float]) -> tuple[float, ...]:
    """The lower corner of voxel 0 whose centre is `translation`, for voxels of `scale` (same unit, same axes)."""
    return tuple(_tidy(t - s / 2, t, s) for t, s in zip(translation, scale, strict=True))


def ome_translation(corner: Sequence[float], scale: Sequence[float]) -> tuple[float, ...]:
    """The centre of voxel 0, what OME calls translation, from its lower corner."""
    return tuple(_tidy(c + s / 2, c, s) for c, s in zip(corner, scale, strict=True))


def _tidy(value: float, a: float, b: float) -> float:
    """`value`, the sum of `a` and half of `b`, without binary noise: 2.3 - 9.2 / 2 is -2.3 and not -2.2999999999999994.

    Only the last few units of the larger term's precision are touched.
    """
    size = max(abs(a), abs(b), abs(value))
    short = round(value, 12 - len(str(int(size)))) if size < 1e11 else value
    return short + 0.0 if abs(short - value) <= 1e-15 * size * 4 else value


def multiscales_attrs(
    axes: Sequence[str],
    units: Sequence[str | None],
    datasets: Sequence[tuple[str, Sequence[float], Sequence[float]]],
    name: str,
    version: str = "0.4",
) -> dict[str, Any]:
    """The attributes of a group that holds a pyramid.

    Parameters
    ----------
    axes : names in stored order; `z`, `y`, `x` are space, `t` is time, others (`c`, `c^`) channels.
    units : one per axis, None for a channel.
    datasets : per level (path, voxel size, corner), each with one number per axis; the half voxel is added on space
        axes only.
    version : `"0.4"` (zarr v2) or `"0.5"` (zarr v3; the result nests under `"ome"`).
    """
    multiscale: dict[str, Any] = {} if version == "0.5" else {"version": version}
    multiscale["name"] = name
    multiscale["axes"] = [_axis(axis, unit) for axis, unit in zip(axes, units, strict=True)]
    multiscale["coordinateTransformations"] = [{"type": "scale", "scale": [1.0] * len(axes)}]
    multiscale["datasets"] = [_dataset(axes, *dataset) for dataset in datasets]
    if version == "0.5":
        return {"ome": {"version": version, "multiscales": [multiscale]}}
    return {"multiscales": [multiscale]}


def singlescale_attrs(
    axes: Sequence[str],
    units: Sequence[str | None],
    path: str,
    voxel_size: Sequence[float],
    corner: Sequence[float],
    name: str,
    version: str = "0.4",
) -> dict[str, Any]:
    """`multiscales_attrs` of one array."""
    return multiscales_attrs(axes, units, [(path, voxel_size, corner)], name, version)


def _axis(axis: str, unit: str | None) -> dict[str, str]:
    if axis in _SPACE:
        return {"name": axis, "type": "space", **({"unit": unit} if unit else {})}
    if axis == "t":
        return {"name": axis, "type": "time", **({"unit": unit} if unit else {})}
    return {"name": axis, "type": "channel"}


def _dataset(axes: Sequence[str], path: str, voxel_size: Sequence[float], corner: Sequence[float]) -> dict[str, Any]:
    centre = ome_translation(corner, voxel_size)
    translation = [c if axis in _SPACE else float(k) for axis, c, k in zip(axes, centre, corner, strict=True)]
    return {
        "path": path,
        "coordinateTransformations": [
            {"type": "scale", "scale": [float(s) for s in voxel_size]},
            {"type": "translation", "translation": [float(t) for t in translation]},
        ],
    }
