"""Cells and connections of a network as Neuroglancer annotations: the files of the precomputed annotation format.

Cells are points, connections lines from cell to cell. A collection is read from the network once and kept; its files
are made as they are asked for. Knows networks and the format, not HTTP. Source of the format: Neuroglancer,
src/datasource/precomputed/annotation.rst.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chunkloom.bridge.spatial import IndexLevel, spatial_index
from chunkloom.engine.formats.base import canonical_json
from chunkloom.engine.volume import make_digest
from chunkloom.network import NetworkFile
from chunkloom.network.errors import MissingDataError

Array = NDArray[Any]

_TYPES = {"f": "float32", "b": "uint8", "i": "int32", "u": "uint32"}


class Annotations:
    """A collection of points or lines, x, y, z in µm.

    Parameters
    ----------
    name
        What a layer of them is called.
    digest
        Stands for what they were read from.
    geometry
        (N, 3) positions, or (N, 6) of both ends. Annotation i has the id i.
    relations
        For each relation, the object (a uint64 id; 0 is none) that annotation i stands for there.
    properties
        Numbers of 32 bits and less, by name.
    """

    def __init__(
        self,
        name: str,
        digest: str,
        geometry: Array,
        relations: dict[str, NDArray[np.uint64]],
        properties: dict[str, Array],
    ) -> None:
        self.name = name
        self.digest = digest
        self.kind = "point" if geometry.shape[1] == 3 else "line"
        self._relations = relations
        # The format has values in the order of their sizes.
        self._properties = dict(sorted(properties.items(), key=lambda item: -item[1].dtype.itemsize))
        self._geometry = geometry.astype("<f4")
        self._by_object: dict[str, tuple[NDArray[np.int64], NDArray[np.uint64]]] = {}

    def __len__(self) -> int:
        return len(self._geometry)

    def file(self, path: str) -> bytes | None:
        """The file at a path of the format, or None where there is none."""
        if path == "info":
            return canonical_json(self.info())
        folder, _, name = path.partition("/")
        if folder == "by_id" and re.fullmatch(r"\d{1,20}", name):
            return self._single(int(name)) if int(name) < len(self) else None
        found = re.fullmatch(r"spatial(\d{1,2})", folder)
        if found and re.fullmatch(r"\d{1,9}(_\d{1,9}){2}", name) and int(found[1]) < len(self.levels):
            members = self.levels[int(found[1])].cell(tuple(int(n) for n in name.split("_")))
            return None if members is None else self._several(members)
        if folder.startswith("by_") and folder[3:] in self._relations and re.fullmatch(r"\d{1,20}", name):
            return self._several(self._of_object(folder[3:], int(name)))
        return None

    def info(self) -> dict[str, Any]:
        """The metadata, as JSON data."""
        lower, upper = self.bounds
        return {
            "@type": "neuroglancer_annotations_v1",
            "dimensions": {axis: [1e-6, "m"] for axis in "xyz"},
            "lower_bound": lower.tolist(),
            "upper_bound": upper.tolist(),
            "annotation_type": self.kind,
            "properties": [{"id": name, "type": values.dtype.name} for name, values in self._properties.items()],
            "relationships": [{"id": name, "key": f"by_{name}"} for name in self._relations],
            "by_id": {"key": "by_id"},
            "spatial": [
                {
                    "key": f"spatial{i}",
                    "grid_shape": list(level.shape),
                    "chunk_size": list(level.size),
                    "limit": level.limit,
                }
                for i, level in enumerate(self.levels)
            ],
        }

    @cached_property
    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lower and upper bound of all, x, y, z; never equal on an axis."""
        points = self._geometry.astype(np.float64).reshape(-1, 3)
        if not len(points):
            return np.zeros(3), np.ones(3)
        lower, upper = points.min(axis=0), points.max(axis=0)
        least = max(1e-3, 1e-3 * float((upper - lower).max()))
        return lower, np.maximum(upper, lower + least)

    @cached_property
    def levels(self) -> list[IndexLevel]:
        """The spatial index."""
        places = self._geometry.astype(np.float64)
        end = None if self.kind == "point" else places[:, 3:]
        return spatial_index(places[:, :3], end, *self.bounds)

    @cached_property
    def _encoded(self) -> Array:
        fields: list[Any] = [("geometry", "<f4", self._geometry.shape[1:])]
        fields += [(f"p{i}", v.dtype.newbyteorder("<")) for i, v in enumerate(self._properties.values())]
        gap = -np.dtype(fields).itemsize % 4
        if gap:
            fields.append(("padding", "u1", (gap,)))
        encoded = np.zeros(len(self), np.dtype(fields))
        encoded["geometry"] = self._geometry
        for i, values in enumerate(self._properties.values()):
            encoded[f"p{i}"] = values
        return encoded

    def _single(self, id: int) -> bytes:
        related = b""
        for objects in self._relations.values():
            own = objects[id : id + 1]
            own = own[own != 0]
            related += np.uint32(len(own)).tobytes() + own.astype("<u8").tobytes()
        return bytes(self._encoded[id : id + 1].tobytes() + related)

    def _several(self, members: NDArray[np.int64]) -> bytes:
        count = np.array(len(members), "<u8").tobytes()
        return bytes(count + self._encoded[members].tobytes() + members.astype("<u8").tobytes())

    def _of_object(self, relation: str, id: int) -> NDArray[np.int64]:
        if relation not in self._by_object:
            order = np.argsort(self._relations[relation], kind="stable")
            self._by_object[relation] = order, self._relations[relation][order]
        order, objects = self._by_object[relation]
        if not 0 < id < 2**64:
            return order[:0]
        first, last = (np.searchsorted(objects, np.uint64(id), side) for side in ("left", "right"))
        return order[first:last]


def cell_annotations(network: NetworkFile, cell_type: str) -> Annotations:
    """The cells of a type as points. Where they have `label_id`, the relation `object` names those objects."""
    with network.read_scope():
        cells = network.placement(cell_type)
        positions, more = cells.load_positions(), _numbers(network, cell_type)
        digest = _digest(network, "cells", cell_type)
    placed = len(positions) == len(cells)  # entities have no place
    keep = np.isfinite(positions).all(axis=1)
    more = {name: values[keep] for name, values in more.items()} if placed else {}
    relations = {"object": _objects(more.pop("label_id"))} if "label_id" in more else {}
    properties = {name: kept for name, values in more.items() if (kept := _property(name, values)) is not None}
    return Annotations(f"cells-{cell_type}", digest, positions[keep], relations, properties)


def connection_annotations(network: NetworkFile, tag: str) -> Annotations:
    """The connections of a tag as lines from the presynaptic to the postsynaptic cell.

    The relations `pre` and `post` name the objects of cells that have `label_id`.
    """
    with network.read_scope():
        links = network.connectivity(tag)
        ends = links.load_connections()
        types = (links.pre, links.post)
        known = {
            name: (network.placement(name).load_positions(), _numbers(network, name))
            for name in set(types)
            if name in network.placement_names()
        }
        digest = _digest(network, "connections", tag)
    places, relations = [], {}
    for side, name, rows in zip(("pre", "post"), types, ends, strict=True):
        positions, more = known.get(name, (np.empty((0, 3)), {}))
        at = rows[:, 0]
        there = at < len(positions)
        place = np.full((len(at), 3), np.nan)
        place[there] = positions[at[there]]
        places.append(place)
        if "label_id" in more and there.all():
            relations[side] = _objects(more["label_id"][at])
    geometry = np.concatenate(places, axis=1)
    keep = np.isfinite(geometry).all(axis=1)
    relations = {side: objects[keep] for side, objects in relations.items()}
    return Annotations(f"connections-{tag}", digest, geometry[keep], relations, {})


def network_annotations(network: NetworkFile) -> Iterator[Annotations]:
    """Everything a network shows: the cells of every type, then the connections of every tag."""
    for name in network.placement_names():
        yield cell_annotations(network, name)
    for tag in network.connectivity_tags():
        yield connection_annotations(network, tag)


def _numbers(network: NetworkFile, cell_type: str) -> dict[str, Array]:
    """Additional data that every cell has one number of."""
    cells, found = network.placement(cell_type), {}
    for name in cells.additional_keys():
        with contextlib.suppress(MissingDataError):
            values = cells.load_additional(name)
            if values.ndim == 1:
                found[name] = values
    return found


def _objects(ids: Array) -> NDArray[np.uint64]:
    return np.asarray(ids).astype(np.uint64)


def _property(name: str, values: Array) -> Array | None:
    """Values as a property of annotations; None where the format has no room for them, and for boxes."""
    if not re.fullmatch("[a-z][a-zA-Z0-9_]*", name) or name.startswith("bbox_"):
        return None
    kind = np.dtype(_TYPES[values.dtype.kind])
    if kind.kind in "iu" and len(values) and values.dtype.kind in "iu":
        limits = np.iinfo(kind)
        if values.min() < limits.min or values.max() > limits.max:
            return None
    return values.astype(kind)


def _digest(network: NetworkFile, what: str, name: str) -> str:
    provenance = network.provenance
    return make_digest([str(provenance.get("storage_id")), provenance.get("state_id"), what, name])
