"""Pyramids in folders of keys: the ways in which zarr, N5 and precomputed groups, and their writers, make levels."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from chunkloom.errors import AccessError, FormatError, VolumeNotFoundError
from chunkloom.io import n5, placement, precomputed
from chunkloom.io.discover import Level, Pyramid, make_level, make_pyramid
from chunkloom.io.layout import ArrayLayout
from chunkloom.io.nodes import KEYS, Node, multiscale_of, own_placement, parse_layout, read_node
from chunkloom.io.paths import FormatHint, Location
from chunkloom.io.placement import Dataset, Found, Multiscale
from chunkloom.io.store import Store

# How far above an array the group that describes it is looked for, when no folder's name ends in .zarr or .n5.
_MAX_PARENTS = 8
_LEVEL = re.compile(r"^s\d+$")
# The root attribute of a store that a run of materialize has begun and not ended.
UNFINISHED = "chunkloom_unfinished"


def find(store: Store, hint: FormatHint | None, separator: str | None = None) -> Pyramid | None:
    """The volume at `store`, None where there is no node at all."""
    formats = _formats(hint)
    node = read_node(store, formats)
    if node is None and "precomputed" in formats and _LEVEL.match(store.location.name):
        # `…/s2` of a precomputed volume names a scale.
        above = read_node(store.child(".."), ("precomputed",))
        if above is not None:
            scale = int(store.location.name[1:])
            return precomputed.find(above.document, above.store, above.where, above.states, scale)
    if node is None:
        return None
    if node.format == "precomputed":
        found = precomputed.find(node.document, store, node.where, node.states, None)
        return _with_notice(found, node.document, node.where)
    if node.kind == "array":
        return make_pyramid([_single_array(node, separator)])
    return _with_notice(_of_group(node, separator, depth=0), node.attributes, node.attributes_where)


def _with_notice(found: Pyramid, attributes: Mapping[str, Any], where: str) -> Pyramid:
    """Warned of, where the store is not finished: what is not written yet reads as the fill value."""
    if UNFINISHED not in attributes:
        return found
    runs = attributes[UNFINISHED]
    boxes = ", ".join(str(box) for box in runs.values()) if isinstance(runs, dict) else ""
    warning = (
        f"{where} says that the store is unfinished ({UNFINISHED}{f': box {boxes}' if boxes else ''}): chunks that are "
        "not written yet read as the fill value. The command that began it goes on where it stopped"
    )
    return replace(found, warnings=(warning, *found.warnings))


def names_a_scale(location: Location) -> bool:
    """Whether a local path that does not exist is `…/s2` of a precomputed volume."""
    return bool(_LEVEL.match(location.name)) and os.path.isfile(os.path.join(location.parent().base, "info"))


def _formats(hint: FormatHint | None) -> tuple[str, ...]:
    if hint is None:
        return tuple(KEYS)
    return ("zarr3", "zarr2") if hint == "zarr" else (hint,)


def _level(node: Node, group: Found | None, states: Sequence[str], separator: str | None, layout: ArrayLayout) -> Level:
    return make_level(node.store, layout, own_placement(node, layout.ndim), group, (*node.states, *states))


def _single_array(node: Node, separator: str | None) -> Level:
    """One array, placed by its own attributes and by the group above that lists it."""
    layout = parse_layout(node, separator)
    if node.format == "n5":
        inherited, states = _inherited(node)
        name = node.store.location.name
        group = n5.level_placement(
            inherited, node.attributes, name, layout.ndim, node.store.where("../attributes.json")
        )
        return _level(node, group, states, separator, layout)
    listed = _listed_above(node)
    if listed is None:
        return _level(node, None, (), separator, layout)
    multiscale, dataset, states = listed
    return _level(node, placement.ome_placement(multiscale, dataset, layout.ndim), states, separator, layout)


def _inherited(node: Node) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The attributes an N5 node inherits from the groups above it, nearer ones first, and their states."""
    attributes: dict[str, Any] = {}
    states: list[str] = []
    store = node.store
    for _ in range(_MAX_PARENTS):
        here = store.location
        if here.is_root or (here.container_suffix and not here.in_container):
            break
        store = store.child("..")
        try:
            parent = read_node(store, ("n5",))
        except (FormatError, AccessError):
            # What lies above a readable array is not needed to read it.
            break
        if parent is None and not here.in_container:
            break
        if parent is not None:
            attributes = {**parent.attributes, **attributes}
            states.extend(parent.states)
    return attributes, tuple(states)


def _listed_above(node: Node) -> tuple[Multiscale, Dataset, tuple[str, ...]] | None:
    """The multiscale in a group above that lists this array, by walking up to the container."""
    relative = node.store.location.name
    store = node.store
    for _ in range(_MAX_PARENTS):
        here = store.location
        if here.is_root:
            return None
        inside = here.in_container
        store = store.child("..")
        try:
            parent = read_node(store, ("zarr3", "zarr2"))
        except AccessError:
            parent = None
        if parent is None and not inside:
            return None
        if parent is not None:
            multiscale = multiscale_of(parent)
            for dataset in multiscale.datasets if multiscale is not None else ():
                if multiscale is not None and dataset.path.strip("/") == relative:
                    return multiscale, dataset, parent.states
        if not inside and here.container_suffix:
            return None
        relative = f"{store.location.name}/{relative}"
    return None


def _of_group(node: Node, separator: str | None, depth: int) -> Pyramid:
    multiscale = multiscale_of(node)
    if multiscale is not None and multiscale.datasets:
        return _of_multiscale(node, multiscale, separator)
    nested = _layout_of_a_writer(node)
    if nested is not None and depth < 4:
        path, warnings = nested
        child = read_node(node.store.child(path), (node.format,))
        if child is None:
            raise VolumeNotFoundError(f"{node.store} says that its data is in {path!r}, and there is nothing")
        found = (
            _of_group(child, separator, depth + 1)
            if child.kind == "group"
            else make_pyramid([_single_array(child, separator)])
        )
        return Pyramid(found.format, found.levels, (*warnings, *found.warnings))
    return _of_children(node, separator)


def _of_multiscale(node: Node, multiscale: Multiscale, separator: str | None) -> Pyramid:
    def level(dataset: Dataset) -> Level | str:
        store = node.store.child(dataset.path)
        child = read_node(store, (node.format,))
        if child is None and node.format == "zarr3":
            child = read_node(store, ("zarr2",))
        if child is None or child.kind != "array":
            return f"level {dataset.path!r} is listed in {multiscale.where}, but there is no array"
        layout = parse_layout(child, separator)
        group = placement.ome_placement(multiscale, dataset, layout.ndim)
        if group.voxel_size_nm is None and node.format == "n5":
            group = n5.level_placement(node.attributes, child.attributes, dataset.path, layout.ndim, node.where)
        return _level(child, group, node.states, separator, layout)

    found = concurrently(level, multiscale.datasets, node.store)
    levels = [entry for entry in found if isinstance(entry, Level)]
    missing = [entry for entry in found if isinstance(entry, str)]
    if not levels:
        raise VolumeNotFoundError(f"{node.store}: {missing[0]}. The group describes a volume whose data is not here")
    levels = _with_sizes_by_shape(levels)
    return make_pyramid(levels, [*multiscale.warnings, *missing])


def concurrently(task: Any, items: Sequence[Any], store: Store) -> list[Any]:
    """`task` of every item, in order; at once where each is a request to somewhere else."""
    if store.location.is_local or len(items) < 2:
        return [task(item) for item in items]
    with ThreadPoolExecutor(max_workers=min(8, len(items))) as pool:
        return list(pool.map(task, items))


def _layout_of_a_writer(node: Node) -> tuple[str, list[str]] | None:
    """The folder that holds the data in layouts with a level of folders of their own, and what to say of it."""
    attributes = node.attributes
    ome = attributes.get("ome")
    v3 = ome if isinstance(ome, dict) else {}
    if "plate" in attributes or "plate" in v3:
        raise FormatError(f"{node.store} is a plate of many images: name one, as in {node.store}/A/1/0")
    if "well" in attributes or "well" in v3:
        return "0", [f"{node.store} is a well: its first field is read"]
    if "bioformats2raw.layout" in attributes or "bioformats2raw.layout" in v3:
        return "0", [f"{node.store} is a bioformats2raw container: series 0 is read; name another as {node.store}/1"]
    if node.format == "n5":
        return n5.inner_folder(attributes, node.store)
    return None


def _of_children(node: Node, separator: str | None) -> Pyramid:
    """A group without a multiscale: its levels `s0, s1, …`, else its first array."""
    names, warnings = _child_names(node)
    levels = [name for name in names if _LEVEL.match(name)]
    nodes = concurrently(lambda name: read_node(node.store.child(name), (node.format,)), levels or names, node.store)
    arrays = [child for child in nodes if child is not None and child.kind == "array"]
    if not arrays and levels:
        nodes = [read_node(node.store.child(name), (node.format,)) for name in names]
        arrays = [child for child in nodes if child is not None and child.kind == "array"]
    if not arrays:
        groups = [child.store.location.name for child in nodes if child is not None]
        inside = f"it holds the groups {', '.join(groups[:20])}" if groups else "it holds no arrays"
        example = f"; name one, as in {node.store}/{groups[0]}" if groups else ""
        raise VolumeNotFoundError(f"not a volume: {node.store} is a group without a multiscale, and {inside}{example}")
    if levels and len(arrays) > 1:
        found = [_child_level(node, child, separator) for child in arrays]
        if node.format == "n5" or len({level.meta.voxel_size_nm for level in found}) == len(found):
            return make_pyramid(_with_sizes_by_shape(found), warnings)
    others = [child.store.location.name for child in arrays[1:]]
    if others:
        first = arrays[0].store.location.name
        warnings.append(f"{node.store} is a group of arrays: {first!r} is read, not {', '.join(others[:20])}")
    return make_pyramid([_child_level(node, arrays[0], separator)], warnings)


def _child_level(group: Node, child: Node, separator: str | None) -> Level:
    layout = parse_layout(child, separator)
    if group.format != "n5":
        return _level(child, None, group.states, separator, layout)
    inherited, states = _inherited(group)
    attributes = {**inherited, **group.attributes}
    found = n5.level_placement(attributes, child.attributes, child.store.location.name, layout.ndim, group.where)
    return _level(child, found, (*group.states, *states), separator, layout)


def _child_names(node: Node) -> tuple[list[str], list[str]]:
    """Folders in a group; at a place that cannot be listed, those its consolidated metadata lists, or likely ones."""
    names = node.store.folders()
    if names is not None:
        return sorted(names, key=_natural), []
    if node.format == "zarr2":
        try:
            consolidated = node.store.read_json(".zmetadata")
        except (FormatError, AccessError):
            consolidated = None
        members = consolidated.value.get("metadata") if consolidated and isinstance(consolidated.value, dict) else None
        if isinstance(members, dict):
            listed = {key.split("/")[0] for key in members if key.count("/") == 1 and key.endswith("/.zarray")}
            if listed:
                warning = f"the arrays of {node.store} are listed by its consolidated metadata, which may be older"
                return sorted(listed, key=_natural), [warning]
    return ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "0"], []


def _natural(name: str) -> tuple[Any, ...]:
    """A sort key under which s2 comes before s10."""
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part)


def _with_sizes_by_shape(levels: list[Level]) -> list[Level]:
    """Levels for which no metadata gives a size, sized by how much smaller than the first they are."""
    from chunkloom.geometry import same_voxel_size

    if len(levels) < 2 or len({level.meta.spatial_shape for level in levels}) != len(levels):
        return levels
    first = levels[0].meta
    if not all(same_voxel_size(level.meta.voxel_size_nm, first.voxel_size_nm) for level in levels[1:]):
        return levels
    sized = [levels[0]]
    for level in levels[1:]:
        factors = [
            max(1, round(a / max(1, b))) for a, b in zip(first.spatial_shape, level.meta.spatial_shape, strict=True)
        ]
        z, y, x = (v * f for v, f in zip(first.voxel_size_nm, factors, strict=True))
        warning = (
            f"{level.meta.path}: no metadata give its voxel size; taken from its shape as {factors} times the finest"
        )
        meta = replace(
            level.meta,
            voxel_size_nm=(z, y, x),
            corner_nm=first.corner_nm,
            warnings=(*level.meta.warnings, warning),
        )
        sized.append(replace(level, meta=meta))
    return sized
