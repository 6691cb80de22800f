"""Networks for other programs: SONATA as libsonata reads it, Parquet as pyarrow does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import libsonata
import numpy as np
import pyarrow.parquet
import pytest

from chunkloom.bridge import sonata, tables
from chunkloom.bridge.sonata import edge_index
from chunkloom.errors import ConflictError, WriteError
from chunkloom.network import Chunk, NetworkFile

SIZE = (40.0, 30.0, 20.0)


@pytest.fixture
def network(tmp_path: Path) -> NetworkFile:
    rng = np.random.default_rng(4)
    network = NetworkFile.create(tmp_path / "net.hdf5", chunk_size=SIZE)
    granule, golgi = (network.require_placement(name) for name in ("granule", "golgi"))
    for x in (-1, 0, 1):
        chunk = Chunk((x, 0, 2), SIZE)
        granule.append_data(
            chunk, rng.random((20, 3)) * 50, morphologies=["a", "b"] * 10, rotations=rng.random((20, 3)) * 90,
            additional={
                "label_id": np.arange(20, dtype=np.uint64) + np.uint64(2**60 + 100 * (x + 1)), "x": rng.random(20),
                "pair": rng.random((20, 2)), "flag": rng.random(20) < 0.5,
            },
        )  # fmt: skip
        golgi.append_entities(chunk, 3)
    granule.label(["deep", "left"], [3, 50])
    granule.label(["deep"], [7])
    links = network.require_connectivity("granule", "golgi", "fibers")
    pre = np.column_stack((rng.integers(0, 60, 500), rng.integers(0, 3, (500, 2))))
    links.connect(granule, golgi, pre, rng.integers(0, 9, 500))
    network.require_connectivity("golgi", "granule", "none")
    return network


def connections(network: NetworkFile) -> Any:
    """The connections as rows: pre cell, branch, point, post cell, branch, point; sorted."""
    rows = np.hstack(network.connectivity("fibers").load_connections())
    return rows[np.lexsort(rows.T)]


def test_sonata_nodes_are_the_cells(network: NetworkFile, tmp_path: Path) -> None:
    sonata.export(network, tmp_path / "out")
    storage = libsonata.NodeStorage(str(tmp_path / "out" / "nodes.h5"))
    assert storage.population_names == {"granule", "golgi"}
    nodes, cells = storage.open_population("granule"), network.placement("granule")
    every = nodes.select_all()
    assert nodes.size == 60
    for i, axis in enumerate("xyz"):
        assert nodes.get_attribute(axis, every).tolist() == cells.load_positions()[:, i].tolist()
        turned = nodes.get_attribute(f"rotation_angle_{axis}axis", every)
        np.testing.assert_allclose(np.degrees(turned), cells.load_rotations()[:, i])
    ids = nodes.get_attribute("label_id", every)
    assert (ids.dtype, ids.tolist()) == (np.uint64, cells.load_additional("label_id").tolist())
    assert list(nodes.get_attribute("morphology", every)) == ["a", "b"] * 30
    assert nodes.get_attribute("additional_x", every).tolist() == cells.load_additional("x").tolist()
    assert nodes.get_attribute("pair_1", every).tolist() == cells.load_additional("pair")[:, 1].tolist()
    assert nodes.get_attribute("flag", every).tolist() == cells.load_additional("flag").tolist()
    golgi = storage.open_population("golgi")
    assert (golgi.size, golgi.attribute_names) == (9, set())


def test_sonata_edges_are_the_connections(network: NetworkFile, tmp_path: Path) -> None:
    sonata.export(network, tmp_path / "out")
    storage = libsonata.EdgeStorage(str(tmp_path / "out" / "edges.h5"))
    assert storage.population_names == {"fibers", "none"}
    edges = storage.open_population("fibers")
    assert (edges.source, edges.target, edges.size) == ("granule", "golgi", 500)
    every = edges.select_all()
    own = [
        edges.get_attribute(f"{way}_{of}_id", every)
        for way in ("efferent", "afferent")
        for of in ("section", "segment")
    ]
    rows = np.column_stack((edges.source_nodes(every), *own[:2], edges.target_nodes(every), *own[2:])).astype(np.int64)
    expected = connections(network)
    assert rows[np.lexsort(rows.T)].tolist() == expected.tolist()
    for cell in range(9):
        sources = edges.source_nodes(edges.afferent_edges([cell]))
        assert sorted(sources) == sorted(expected[expected[:, 3] == cell, 0])
    for cell in range(60):
        targets = edges.target_nodes(edges.efferent_edges([cell]))
        assert sorted(targets) == sorted(expected[expected[:, 0] == cell, 3])
    assert storage.open_population("none").size == 0


def test_labels_are_node_sets_of_the_circuit(network: NetworkFile, tmp_path: Path) -> None:
    sonata.export(network, tmp_path / "out")
    circuit = libsonata.CircuitConfig.from_file(tmp_path / "out" / "circuit_config.json")
    assert (circuit.node_populations, circuit.edge_populations) == ({"granule", "golgi"}, {"fibers", "none"})
    sets = libsonata.NodeSets.from_file(circuit.node_sets_path)
    nodes = circuit.node_population("granule")
    found = {name: sets.materialize(name, nodes).flatten().tolist() for name in sets.names}
    assert found == {"granule.deep": [3, 7, 50], "granule.left": [3, 50]}


def test_an_index_holds_runs_of_edges() -> None:
    of_nodes, ranges = edge_index(np.array([2, 2, 0, 2, 3]), 5)
    assert ranges[int(of_nodes[2, 0]) : int(of_nodes[2, 1])].tolist() == [[0, 2], [3, 4]]
    assert [int(b - a) for a, b in of_nodes] == [1, 0, 2, 1, 0]


def test_parquet_tables_hold_everything(network: NetworkFile, tmp_path: Path) -> None:
    made = tables.export(network, tmp_path / "out")
    assert [Path(path).name for path in made] == [
        "cells-granule.parquet", "cells-golgi.parquet", "connections-fibers.parquet", "connections-none.parquet",
    ]  # fmt: skip
    cells, table = network.placement("granule"), pyarrow.parquet.read_table(made[0])
    assert table.column_names == [
        "id", "x_um", "y_um", "z_um", "rotation_x_deg", "rotation_y_deg", "rotation_z_deg", "morphology", "labels",
        "label_id", "x", "pair_0", "pair_1", "flag",
    ]  # fmt: skip
    assert table["id"].to_pylist() == list(range(60))
    assert table["y_um"].to_pylist() == cells.load_positions()[:, 1].tolist()
    assert table["label_id"].type == "uint64"
    assert table["label_id"].to_pylist() == cells.load_additional("label_id").tolist()
    assert {i: found for i, found in enumerate(table["labels"].to_pylist()) if found} == {
        3: ["deep", "left"], 7: ["deep"], 50: ["deep", "left"],
    }  # fmt: skip
    assert pyarrow.parquet.read_table(made[1]).to_pydict() == {"id": list(range(9))}
    links = pyarrow.parquet.read_table(made[2])
    rows = np.column_stack([links[name].to_numpy() for name in links.column_names])
    assert links.column_names == ["pre_id", "pre_branch", "pre_point", "post_id", "post_branch", "post_point"]
    assert rows[np.lexsort(rows.T)].tolist() == connections(network).tolist()
    assert len(pyarrow.parquet.read_table(made[3])) == 0


@pytest.mark.parametrize("export", [sonata.export, tables.export], ids=["sonata", "parquet"])
def test_files_that_are_there_stay_unless_told_otherwise(network: NetworkFile, tmp_path: Path, export: Any) -> None:
    made = export(network, tmp_path / "out")
    Path(made[0]).write_text("mine")
    with pytest.raises(ConflictError, match="--overwrite"):
        export(network, tmp_path / "out")
    assert Path(made[0]).read_text() == "mine"
    assert export(network, tmp_path / "out", overwrite=True) == made
    assert Path(made[0]).read_bytes() != b"mine"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(Path(path).name for path in made)


def test_a_folder_that_cannot_be_made_is_an_error(network: NetworkFile, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="cannot be written"):
        sonata.export(network, tmp_path / "file" / "out")
