"""What lies at a path: the levels of a volume, whatever its format.

Decides by looking at metadata documents, in one round of requests per folder. Reads no voxels.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chunkloom.errors import AccessError, FormatError, VolumeNotFoundError, nearest
from chunkloom.io import placement
from chunkloom.io.layout import ArrayLayout
from chunkloom.io.metadata import ArrayMeta
from chunkloom.io.paths import Location
from chunkloom.io.placement import SPACE, Found
from chunkloom.io.store import Store


@dataclass(frozen=True)
class Level:
    """One array: its metadata, how it is stored, where, and the state of every document that was read for it."""

    meta: ArrayMeta
    layout: ArrayLayout
    store: Store
    states: tuple[str, ...]


@dataclass(frozen=True)
class Pyramid:
    """Levels of one format, finest first."""

    format: str
    levels: tuple[Level, ...]
    warnings: tuple[str, ...] = ()


def find_pyramid(location: Location, separator: str | None = None) -> Pyramid:
    """The volume at `location`.

    Parameters
    ----------
    separator : `.` or `/` for chunk keys, in place of what zarr metadata says.

    Raises
    ------
    VolumeNotFoundError
        When there is nothing, or nothing that is a volume.
    FormatError, AccessError, ChunkReadError
        When what is there is broken, refused, or does not answer.
    """
    from chunkloom.io import hierarchy

    if location.is_local and not os.path.exists(location.base) and not hierarchy.names_a_scale(location):
        raise VolumeNotFoundError(_no_such_path(location))
    kind = location.format or _kind_of_file(location)
    if kind == "hdf5":
        from chunkloom.io import hdf5

        return hdf5.find(location)
    if kind == "tiff":
        from chunkloom.io import tiff

        if location.is_local and os.path.isdir(location.base):
            stack = tiff.find_stack(location)
            if stack is None:
                raise VolumeNotFoundError(_not_a_volume(location))
            return stack
        return tiff.find(location)
    found = hierarchy.find(Store(location), location.format, separator)
    if found is None and location.is_local and location.format is None:
        from chunkloom.io import tiff

        found = tiff.find_stack(location)
    if found is None:
        raise VolumeNotFoundError(_not_a_volume(location))
    return found


def make_level(
    store: Store,
    layout: ArrayLayout,
    own: Found,
    group: Found | None,
    states: Sequence[str],
    path: str | None = None,
) -> Level:
    """One level from its layout and what its own and its group's attributes say; the array's own win.

    Raises
    ------
    FormatError
        When the axes are not z, y, x and channels.
    """
    path = path or str(store.location)
    group = group or Found()
    warnings = [*layout.warnings, *own.warnings]
    axes = _axes(layout, own, group, path, warnings)
    if own.voxel_size_nm is None:
        warnings.extend(group.warnings)
    voxel_size = own.voxel_size_nm or group.voxel_size_nm
    if voxel_size is None:
        warnings.append("the metadata give no voxel size: 1 nm assumed")
        voxel_size = (1.0, 1.0, 1.0)
    corner = own.corner_nm or (group.corner_nm if group.corner_nm is not None else None) or (0.0, 0.0, 0.0)
    try:
        meta = ArrayMeta(
            path=path,
            format=layout.format,
            shape=layout.shape,
            chunk_shape=layout.chunk_shape,
            dtype=layout.dtype,
            axes=axes,
            voxel_size_nm=voxel_size,
            corner_nm=corner,
            codec=layout.codec,
            warnings=tuple(dict.fromkeys(warnings)),
        )
        _ = meta.grid
    except ValueError as error:
        raise FormatError(f"{path}: {error}") from error
    return Level(meta, layout, store, tuple(states))


def make_pyramid(levels: Sequence[Level], warnings: Sequence[str] = ()) -> Pyramid:
    """Levels sorted finest first (by the volume of a voxel; equals keep their order)."""
    ordered = sorted(
        levels,
        key=lambda level: level.meta.voxel_size_nm[0] * level.meta.voxel_size_nm[1] * level.meta.voxel_size_nm[2],
    )
    told = [*warnings, *(warning for level in ordered for warning in level.meta.warnings)]
    return Pyramid(ordered[0].meta.format, tuple(ordered), tuple(dict.fromkeys(told)))


def _axes(layout: ArrayLayout, own: Found, group: Found, path: str, warnings: list[str]) -> tuple[str, ...]:
    named_by_format = placement.clean_axes(layout.names, layout.ndim) if layout.names else None
    candidates = (group.axes, own.axes, named_by_format)
    for axes in candidates:
        if axes is not None and len(axes) == layout.ndim and set(SPACE) <= set(axes):
            return axes
    named = next((axes for axes in candidates if axes is not None and len(axes) == layout.ndim), None)
    if layout.ndim < 3 or (named is not None and set(SPACE) & set(named)):
        listed = ", ".join(named or placement.default_axes(layout.ndim)) or "none"
        raise FormatError(
            f"{path} has {layout.ndim} dimensions with axes {listed}: expected the space axes z, y, x (and channels)"
        )
    axes = placement.default_axes(layout.ndim)
    if named is not None:
        warnings.append(f"axes {', '.join(named)} are not z, y, x: taken as {', '.join(axes)}")
    return axes


def _kind_of_file(location: Location) -> str | None:
    """The format of a local file, by its first bytes; None for a folder and for remote places.

    Raises
    ------
    VolumeNotFoundError
        For a file of no format that holds volumes.
    """
    if not location.is_local or not os.path.isfile(location.base):
        return None
    try:
        with open(location.base, "rb") as file:
            head = file.read(8)
    except OSError as error:
        raise AccessError(f"{location.base} cannot be read: {error.strerror}") from error
    if head == b"\x89HDF\r\n\x1a\n":
        return "hdf5"
    if head[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        return "tiff"
    raise VolumeNotFoundError(f"not a volume: {location.base} is a file that is neither HDF5 nor TIFF")


def _no_such_path(location: Location) -> str:
    """ "no such path"; inside a container, with what there is beside the missing part."""
    parent = location.parent()
    while not os.path.isdir(parent.base) and not parent.is_root:
        parent = parent.parent()
    names = [name for name in Store(parent).folders() or [] if not name.startswith(".")]
    if not parent.container_suffix or not 0 < len(names) <= 40:
        return f"no such path: {location.text}"
    missing = location.base[len(parent.base) + 1 :].split("/")[0]
    return f"no such path: {location.text} ({parent.base} holds no {missing!r}; {nearest(missing, names)})"


def _not_a_volume(location: Location) -> str:
    looked = "zarr (.zarray, .zgroup, zarr.json), N5 (attributes.json), precomputed (info)"
    if location.format:
        looked = f"the metadata of {location.format}"
    if not location.is_local:
        return f"no volume at {location.text}: looked for {looked} and was told that there is none. Check the address"
    names = [name for name in Store(location).folders() or [] if name.endswith((".zarr", ".n5"))]
    hint = f"; did you mean {location.base}/{names[0]}" if names else ""
    return f"not a volume: {location.text} holds no metadata of {looked}{hint}"


def refused(found: dict[str, Any]) -> AccessError | None:
    """The first refusal among the answers to a round of requests."""
    return next((answer for answer in found.values() if isinstance(answer, AccessError)), None)
