"""A network's cells and connections in the SONATA format: nodes and edges in HDF5, a circuit configuration, node sets.

A cell type is a population of nodes, a tag one of edges. Positions stay in µm; rotations, degrees in networks, are
radians here. Source of the format: the SONATA guide (Allen Institute, Blue Brain Project).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from chunkloom.bridge.columns import Cells, Connections, cells_of, connections_of, free_names, write_files
from chunkloom.network import NetworkFile

MAGIC, VERSION = 0x0A7A, (0, 1)
FIRST_TYPE = 100

Ints = NDArray[np.int64]


def export(network: NetworkFile, folder: str | os.PathLike[str], *, overwrite: bool = False) -> list[str]:
    """Write `nodes.h5`, `edges.h5`, their type tables, `node_sets.json` and `circuit_config.json`; the paths of all.

    Nodes have `x`, `y`, `z` (µm), `rotation_angle_xaxis` … (radians), `morphology` and the additional data in their own
    dtypes. Edges have the branches and points of both ends as `efferent_section_id`, `efferent_segment_id` (of the
    source) and `afferent_…` (of the target), -1 for the whole cell, and an index both ways. Each label is a node set,
    `TYPE.LABEL`.

    Raises
    ------
    ConflictError, WriteError
        As for `chunkloom.bridge.columns.write_files`.
    """
    with network.read_scope():
        cells = {name: cells_of(network, name) for name in network.placement_names()}
        links = {tag: connections_of(network, tag) for tag in network.connectivity_tags()}
    counts = {name: of.count for name, of in cells.items()}
    writers = {
        "nodes.h5": partial(_write_nodes, cells),
        "node_types.csv": partial(_write_text, _types("node", list(cells))),
        "edges.h5": partial(_write_edges, links, counts),
        "edge_types.csv": partial(_write_text, _types("edge", list(links))),
        "node_sets.json": partial(_write_text, _json(_node_sets(cells))),
        "circuit_config.json": partial(_write_text, _json(_circuit(list(cells), list(links)))),
    }
    return write_files(folder, writers, overwrite=overwrite)


def _write_nodes(populations: dict[str, Cells], path: Path) -> None:
    with _written(path) as file:
        root = _begin(file, "nodes")
        for number, (name, cells) in enumerate(populations.items()):
            group = root.create_group(name)
            _grouped(group, "node", cells.count, FIRST_TYPE + number)
            own = group.create_group("0")
            if cells.positions is not None:
                for axis, values in zip("xyz", cells.positions.T, strict=True):
                    own[axis] = values
            if cells.rotations is not None:
                for axis, values in zip("xyz", np.radians(cells.rotations).T, strict=True):
                    own[f"rotation_angle_{axis}axis"] = values
            if cells.morphology is not None:
                own.create_dataset("morphology", data=cells.morphology, dtype=h5py.string_dtype())
            for key, values in free_names(cells.additional, set(own)).items():
                own[key] = values.astype(np.uint8) if values.dtype == bool else values


def _write_edges(populations: dict[str, Connections], counts: dict[str, int], path: Path) -> None:
    with _written(path) as file:
        root = _begin(file, "edges")
        for number, (tag, links) in enumerate(populations.items()):
            group = root.create_group(tag)
            _grouped(group, "edge", len(links.pre), FIRST_TYPE + number)
            own = group.create_group("0")
            for side, way, population, ends in (
                ("source", "efferent", links.pre_type, links.pre),
                ("target", "afferent", links.post_type, links.post),
            ):
                nodes = group.create_dataset(f"{side}_node_id", data=ends[:, 0].astype(np.uint64))
                nodes.attrs["node_population"] = population
                own[f"{way}_section_id"], own[f"{way}_segment_id"] = ends[:, 1], ends[:, 2]
            for name, population, ids in (
                ("source_to_target", links.pre_type, links.pre[:, 0]),
                ("target_to_source", links.post_type, links.post[:, 0]),
            ):
                index = group.create_group(f"indices/{name}")
                of_nodes, of_ranges = edge_index(ids, counts.get(population, 0))
                index["node_id_to_ranges"], index["range_to_edge_id"] = of_nodes, of_ranges


def edge_index(ids: Ints, nodes: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """For each node, the range of its ranges; and the ranges of edges that follow each other and are of one node."""
    if not len(ids):
        return np.zeros((nodes, 2), np.uint64), np.zeros((0, 2), np.uint64)
    begin = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    end = np.append(begin[1:], len(ids))
    owner = ids[begin]
    order = np.argsort(owner, kind="stable")
    first, last = (np.searchsorted(owner[order], np.arange(nodes), side) for side in ("left", "right"))
    of_nodes = np.stack([first, last], axis=1).astype(np.uint64)
    return of_nodes, np.stack([begin, end], axis=1)[order].astype(np.uint64)


@contextlib.contextmanager
def _written(path: Path) -> Iterator[h5py.File]:
    """A file made in memory and then written as bytes: HDF5 itself crashes where a disk fills up."""
    with h5py.File(path, "w", driver="core", backing_store=False) as file:
        yield file
        file.flush()
        image = file.id.get_file_image()
    path.write_bytes(image)


def _begin(file: h5py.File, root: str) -> h5py.Group:
    file.attrs["magic"] = np.uint32(MAGIC)
    file.attrs["version"] = np.array(VERSION, np.uint32)
    return file.create_group(root)


def _grouped(group: h5py.Group, what: str, count: int, type_id: int) -> None:
    """All rows are of one type and in one group of attributes, "0"."""
    group[f"{what}_type_id"] = np.full(count, type_id, np.int64)
    group[f"{what}_group_id"] = np.zeros(count, np.uint32)
    group[f"{what}_group_index"] = np.arange(count, dtype=np.uint64)


def _types(what: str, names: list[str]) -> str:
    rows = [f"{what}_type_id pop_name" + (" model_type" if what == "node" else "")]
    for number, name in enumerate(names):
        rows.append(f"{FIRST_TYPE + number} {json.dumps(name)}" + (" virtual" if what == "node" else ""))
    return "\n".join(rows) + "\n"


def _node_sets(populations: dict[str, Cells]) -> dict[str, Any]:
    return {
        f"{name}.{label}": {"population": name, "node_id": ids.tolist()}
        for name, cells in populations.items()
        for label, ids in cells.labels.items()
    }


def _circuit(cells: list[str], tags: list[str]) -> dict[str, Any]:
    return {
        "manifest": {"$BASE": "."},
        "node_sets_file": "$BASE/node_sets.json",
        "networks": {
            "nodes": [
                {
                    "nodes_file": "$BASE/nodes.h5",
                    "node_types_file": "$BASE/node_types.csv",
                    "populations": {name: {"type": "virtual"} for name in cells},
                }
            ],
            "edges": [
                {
                    "edges_file": "$BASE/edges.h5",
                    "edge_types_file": "$BASE/edge_types.csv",
                    "populations": {tag: {"type": "chemical"} for tag in tags},
                }
            ],
        },
    }


def _json(data: Any) -> str:
    return json.dumps(data, indent=2) + "\n"


def _write_text(text: str, path: Path) -> None:
    path.write_text(text)
