"""Where an array's voxels lie, from the attributes people's files have: OME-NGFF, funlib, N5 and their relatives.

Every function takes parsed JSON and gives numbers in nm on the space axes, in z, y, x order; none of them reads.
OME's translation is the centre of voxel 0; all older conventions (`offset`, `translate`) are its lower corner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chunkloom.errors import FormatError
from chunkloom.io import parse, units
from chunkloom.io.ome import ome_corner

SPACE = ("z", "y", "x")
Triple = tuple[float, float, float]


@dataclass(frozen=True)
class Found:
    """What one set of attributes says. None where it says nothing."""

    axes: tuple[str, ...] | None = None
    voxel_size_nm: Triple | None = None
    corner_nm: Triple | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dataset:
    """One level of an OME multiscale: scale and translation per axis, in the axes' units, all transforms applied."""

    path: str
    scale: tuple[float, ...] | None
    translation: tuple[float, ...] | None
    legacy: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Multiscale:
    """An OME multiscale: `axes` are (name, type, unit); None where the version has none."""

    axes: tuple[tuple[str, str, str | None], ...] | None
    datasets: tuple[Dataset, ...]
    where: str
    warnings: tuple[str, ...] = field(default=())


def default_axes(ndim: int) -> tuple[str, ...]:
    """Names for an array that gives none: the last three are z, y, x, then c, then t before them."""
    names = ("t", "c", "z", "y", "x")
    return names[-ndim:] if 0 < ndim <= 5 else (*(f"d{i}" for i in range(ndim - 5)), *names)


def clean_axes(names: Sequence[str | None] | None, ndim: int) -> tuple[str, ...]:
    """Axis names in lower case, without funlib's `^` mark of a channel; unnamed or repeated ones by `default_axes`."""
    if names is None or len(names) != ndim:
        return default_axes(ndim)
    cleaned = tuple((name or "").strip().lower().rstrip("^") for name in names)
    if len(set(cleaned)) != ndim or not all(cleaned):
        return default_axes(ndim)
    long = {"channel": "c", "channels": "c", "time": "t"}
    cleaned = tuple(long.get(name, name) for name in cleaned)
    return cleaned if len(set(cleaned)) == ndim else default_axes(ndim)


def parse_multiscales(value: object, where: str) -> Multiscale | None:
    """The first multiscale of a `multiscales` list; None for an empty list.

    The transforms of the multiscale itself come after those of each dataset (OME-NGFF 0.4, "multiscales").
    """
    entries = parse.sequence(value, f"{where}: multiscales")
    if not entries:
        return None
    at = f"{where}: multiscales[0]"
    entry = parse.mapping(entries[0], at)
    axes = _axes(entry.get("axes"), f"{at}.axes")
    datasets = []
    outer = entry.get("coordinateTransformations")
    for i, item in enumerate(parse.sequence(entry.get("datasets"), f"{at}.datasets")):
        member = parse.mapping(item, f"{at}.datasets[{i}]")
        path = parse.text(member.get("path"), f"{at}.datasets[{i}].path")
        transforms = member.get("coordinateTransformations")
        scale, translation = None, None
        if transforms is not None or outer is not None:
            scale, translation = _compose(transforms, None, None, f"{at}.datasets[{i}].coordinateTransformations")
            scale, translation = _compose(outer, scale, translation, f"{at}.coordinateTransformations")
        legacy = member.get("transform")
        datasets.append(Dataset(path, scale, translation, legacy if isinstance(legacy, dict) else None))
    warnings = () if len(entries) == 1 else (f"{where} holds {len(entries)} multiscales: the first is read",)
    return Multiscale(axes, tuple(datasets), where, warnings)


def ome_placement(multiscale: Multiscale, dataset: Dataset, ndim: int) -> Found:
    """Where level `dataset` of an OME multiscale lies."""
    where = f"{multiscale.where}, dataset {dataset.path!r}"
    if multiscale.axes is not None and len(multiscale.axes) != ndim:
        raise FormatError(
            f"{where}: the multiscale has {len(multiscale.axes)} axes, the array {ndim} dimensions: expected as many"
        )
    if dataset.scale is None and dataset.legacy is not None:
        found = legacy_placement({"transform": dataset.legacy}, ndim, where, x_first=False)
        if found.axes is None and multiscale.axes is not None:
            return Found(_axis_names(multiscale, ndim), found.voxel_size_nm, found.corner_nm, found.warnings)
        return found
    axes = _axis_names(multiscale, ndim)
    if dataset.scale is None and dataset.translation is None:
        return Found(axes)
    scale = dataset.scale or (1.0,) * ndim
    translation = dataset.translation or (0.0,) * ndim
    for name, entries in (("scale", scale), ("translation", translation)):
        if len(entries) != ndim:
            raise FormatError(f"{where}: {name} has {len(entries)} entries, the array {ndim} dimensions")
    warnings: list[str] = []
    sizes, centres = [], []
    for axis in SPACE:
        if axis not in axes:
            continue
        i = axes.index(axis)
        unit = multiscale.axes[i][2] if multiscale.axes is not None else None
        factor_unit = _known_unit(unit, axis, warnings)
        sizes.append(_nm(scale[i], factor_unit))
        centres.append(_nm(translation[i], factor_unit))
    if len(sizes) != 3:
        return Found(axes)
    corner = ome_corner(centres, sizes)
    return Found(axes, _triple(sizes), _triple(corner), tuple(warnings))


def legacy_placement(attributes: Mapping[str, Any], ndim: int, where: str, x_first: bool) -> Found:
    """What attributes other than OME's say: `transform`, `pixelResolution`, `resolution`, `voxel_size`, `offset`.

    Parameters
    ----------
    x_first : whether lists without axis names follow N5's dimension order.
    """
    names = _list_of_names(attributes)
    if names is not None and len(names) == ndim:
        axes = clean_axes(tuple(reversed(names)) if x_first else names, ndim)
    else:
        axes, names = clean_axes(None, ndim), None
    order = tuple(reversed(axes)) if x_first else axes
    space = tuple(axis for axis in order if axis in SPACE)
    given = axes if names is not None else None
    if isinstance(attributes.get("transform"), dict):
        found = _transform(attributes["transform"], space, order, f"{where}: transform")
        return Found(found.axes or given, found.voxel_size_nm, found.corner_nm, found.warnings)
    warnings: list[str] = []
    sizes = corner = None
    if isinstance(attributes.get("pixelResolution"), dict | list):
        value = attributes["pixelResolution"]
        unit = attributes.get("units")
        if isinstance(value, dict):
            unit = value.get("unit", unit)
            value = value.get("dimensions")
        sizes = _by_axis(value, space, order, unit, f"{where}: pixelResolution", warnings, positive=True)
    elif isinstance(attributes.get("element_size_um"), list):
        # Written by Fiji's and ilastik's HDF5 plug-ins, always z, y, x.
        value = attributes["element_size_um"]
        sizes = _by_axis(value, SPACE, SPACE, "um", f"{where}: element_size_um", warnings, positive=True)
    else:
        for name in ("resolution", "voxel_size"):
            if isinstance(attributes.get(name), list):
                unit = attributes.get("units")
                sizes = _by_axis(attributes[name], space, order, unit, f"{where}: {name}", warnings, positive=True)
                break
    if isinstance(attributes.get("offset"), list):
        unit = attributes.get("units")
        corner = _by_axis(attributes["offset"], space, order, unit, f"{where}: offset", [], positive=False)
    return Found(given, sizes, corner, tuple(warnings))


def _list_of_names(attributes: Mapping[str, Any]) -> tuple[str, ...] | None:
    for member in ("axes", "axis_names", "_ARRAY_DIMENSIONS"):
        value = attributes.get(member)
        if isinstance(value, list) and value and all(isinstance(name, str) for name in value):
            return tuple(value)
    return None


def _transform(value: dict[str, Any], space: tuple[str, ...], order: tuple[str, ...], where: str) -> Found:
    """`transform {axes, scale, translate, units}`; its lists follow its own `axes` where it has them."""
    axes = value.get("axes")
    names: tuple[str, ...] | None = None
    if isinstance(axes, list) and axes and all(isinstance(name, str) for name in axes):
        names = clean_axes(axes, len(axes))
        order = names
        space = tuple(axis for axis in names if axis in SPACE)
    if value.get("scale") is None:
        return Found()
    warnings: list[str] = []
    unit = value.get("units")
    sizes = _by_axis(value["scale"], space, order, unit, f"{where}.scale", warnings, positive=True)
    corner = None
    if value.get("translate") is not None:
        corner = _by_axis(value["translate"], space, order, unit, f"{where}.translate", [], positive=False)
    return Found(None, sizes, corner, tuple(warnings))


def _by_axis(
    value: object,
    space: tuple[str, ...],
    order: tuple[str, ...],
    unit: object,
    where: str,
    warnings: list[str],
    positive: bool,
) -> Triple | None:
    """Numbers per axis, in nm, turned to z, y, x. The list has one per space axis, or one per axis of the array."""
    entries = parse.sequence(value, where)
    if set(space) != set(SPACE):
        return None
    if len(entries) == len(order):
        axes: tuple[str, ...] = order
    elif len(entries) == 3:
        axes = space
    else:
        raise FormatError(f"{where} has {len(entries)} entries: expected {len(order)}, one per axis")
    result = {}
    for i, axis in enumerate(axes):
        if axis not in SPACE:
            continue
        entry = parse.voxel_sizes([entries[i]], where)[0] if positive else parse.number(entries[i], where)
        result[axis] = _nm(entry, _known_unit(_unit_of(unit, i, len(axes), axis, space), axis, warnings))
    return _triple([result[axis] for axis in SPACE])


def _unit_of(unit: object, i: int, count: int, axis: str, space: tuple[str, ...]) -> str | None:
    """The unit for entry `i`: one string for all, one per entry, or one per space axis."""
    if isinstance(unit, str):
        return unit
    if isinstance(unit, list):
        entry: object = None
        if len(unit) == count:
            entry = unit[i]
        elif len(unit) == len(space):
            entry = unit[space.index(axis)]
        return entry if isinstance(entry, str) else None
    # The older attributes are nm by convention, so a missing unit is nothing to warn of.
    return "nm"


def _known_unit(unit: str | None, axis: str, warnings: list[str]) -> str:
    if not unit:
        warnings.append(f"axis {axis} has no unit: nanometer assumed")
        return "nm"
    if units.nm_per(unit) is None:
        warnings.append(f"axis {axis} has the unknown unit {unit!r}: nanometer assumed")
        return "nm"
    return unit


def _nm(value: float, unit: str) -> float:
    converted = units.to_nm(value, unit)
    return value if converted is None else converted


def _triple(values: Sequence[float]) -> Triple:
    z, y, x = values
    return (z, y, x)


def _axis_names(multiscale: Multiscale, ndim: int) -> tuple[str, ...]:
    """Names of an OME array's axes; three space axes of other names count as z, y, x in their order."""
    if multiscale.axes is None:
        return default_axes(ndim)
    names = clean_axes([name for name, _, _ in multiscale.axes], ndim)
    space = [i for i, (_, kind, _) in enumerate(multiscale.axes) if kind == "space"]
    if not set(SPACE) <= set(names) and len(space) == 3:
        renamed = list(names)
        for axis, i in zip(SPACE, space, strict=True):
            renamed[i] = axis
        names = tuple(renamed)
    return names


def _axes(value: object, where: str) -> tuple[tuple[str, str, str | None], ...] | None:
    if value is None:
        return None
    axes: list[tuple[str, str, str | None]] = []
    for i, entry in enumerate(parse.sequence(value, where)):
        if isinstance(entry, str):  # OME-NGFF 0.3
            axes.append((entry, "space" if entry in SPACE else "", None))
            continue
        member = parse.mapping(entry, f"{where}[{i}]")
        name = parse.text(member.get("name"), f"{where}[{i}].name")
        unit, kind = member.get("unit"), member.get("type")
        axes.append((name, kind if isinstance(kind, str) else "", unit if isinstance(unit, str) else None))
    if len(axes) > parse.MAX_RANK:
        raise FormatError(f"{where} has {len(axes)} entries: expected at most {parse.MAX_RANK}")
    return tuple(axes)


def _compose(
    value: object, scale: tuple[float, ...] | None, translation: tuple[float, ...] | None, where: str
) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """Apply a list of transforms after `scale` and `translation`: p = s * (scale * i + translation) + t."""
    if value is None:
        return scale, translation
    for i, entry in enumerate(parse.sequence(value, where)):
        at = f"{where}[{i}]"
        member = parse.mapping(entry, at)
        kind = member.get("type")
        if kind == "identity":
            continue
        if kind == "scale":
            factor = parse.voxel_sizes(_inline(member, "scale", at), f"{at}.scale")
            scale = factor if scale is None else _each(factor, scale, at, lambda f, s: f * s)
            translation = None if translation is None else _each(factor, translation, at, lambda f, t: f * t)
        elif kind == "translation":
            shift = parse.numbers(_inline(member, "translation", at), f"{at}.translation")
            translation = shift if translation is None else _each(shift, translation, at, lambda a, b: a + b)
        else:
            raise FormatError(f"{at}.type is {parse.brief(kind)}: expected identity, scale or translation")
    return scale, translation


def _inline(member: dict[str, Any], name: str, where: str) -> object:
    if name not in member and "path" in member:
        raise FormatError(f"{where} keeps its numbers in another file ({parse.brief(member['path'])}): write them here")
    return member.get(name)


def _each(a: tuple[float, ...], b: tuple[float, ...], where: str, combine: Any) -> tuple[float, ...]:
    if len(a) != len(b):
        raise FormatError(f"{where} has {len(a)} entries, the transform before it {len(b)}")
    return tuple(parse.number(combine(x, y), where) for x, y in zip(a, b, strict=True))
