# ruff: noqa: C408  (configurations read best as calls)
"""BSB's own suite of tests for storage engines, on ours; and files that go to and fro between BSB's engine and ours.

Needs the packages of the extra `bsb` (and bsb-test, bsb-hdf5), and chunkloom installed so that BSB finds its entry
point.
"""

from __future__ import annotations

import os
import unittest
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("bsb", reason="the Brain Scaffold Builder (bsb-core, extra bsb) is not installed")
suite = pytest.importorskip("bsb_test.engines", reason="BSB's suite for engines (bsb-test) is not installed")
if "chunkloom" not in {e.name for e in entry_points(group="bsb.storage.engines")}:
    pytest.skip("chunkloom is not installed with its entry point bsb.storage.engines", allow_module_level=True)

os.environ.setdefault("BSB_IGNORE_PARALLEL", "1")

from bsb import CellType, Chunk, Configuration, MorphologySet, Scaffold, Storage, parse_morphology_content  # noqa: E402

from chunkloom.network import NetworkFile, check  # noqa: E402

ENGINES = ("hdf5", "chunkloom")


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class TestStorage(suite.TestStorage, unittest.TestCase, engine_name="chunkloom"):
    pass


class TestPlacementSet(suite.TestPlacementSet, unittest.TestCase, engine_name="chunkloom"):
    pass


class TestMorphologyRepository(suite.TestMorphologyRepository, unittest.TestCase, engine_name="chunkloom"):
    pass


class TestConnectivitySet(suite.TestConnectivitySet, unittest.TestCase, engine_name="chunkloom"):
    pass


def cell_type(name: str) -> Any:
    return CellType(name=name, spatial=dict(radius=1, count=1))


def fill(storage: Any) -> None:
    """Some of everything, through BSB's interfaces."""
    rng = np.random.default_rng(5)
    swc = "1 1 0 0 0 5 -1\n2 3 0 10 0 1 1\n3 3 5 20 0 1 2\n4 3 -5 20 0 1 2\n5 2 0 -9 0 1 1"
    morphologies = [storage.morphologies.save(n, parse_morphology_content(swc)) for n in "AB"]
    cells = storage.require_placement_set(cell_type("cell"))
    others = storage.require_placement_set(cell_type("other"))
    for c in [(10, 0, 0), (2, 0, 0), (-1, 0, 0)]:
        cells.append_data(
            Chunk(c, (50, 40, 30)), positions=rng.random((6, 3)), rotations=rng.random((6, 3)) * 90,
            morphologies=MorphologySet(morphologies, rng.integers(0, 2, 6)), additional={"w": rng.random(6)},
        )  # fmt: skip
        others.append_data(Chunk(c, (50, 40, 30)), positions=rng.random((4, 3)))
    cells.label(["x", "y"], [1, 7, 16])
    cells.label(["z"], [7])
    storage.require_placement_set(cell_type("counted")).append_entities(Chunk((1, 2, 3), (50, 40, 30)), 5)
    links = storage._ConnectivitySet.require(storage._engine, cell_type("cell"), cell_type("other"), "links")
    for _ in range(2):
        src = np.column_stack((rng.integers(0, 18, 50), rng.integers(0, 3, 50), rng.integers(0, 2, 50)))
        links.connect(cells, others, src, np.column_stack((rng.integers(0, 12, 50), -np.ones((50, 2), int))))
    storage.files.store("text \u00e9", id="note", meta={"a": 1})
    storage.store_active_config(Configuration.default(regions=dict(a=dict(children=[]))))


def contents(storage: Any) -> dict[str, Any]:
    """Everything `fill` wrote, as BSB loads it."""
    found: dict[str, Any] = {}
    for name in ("cell", "other", "counted"):
        ps = storage.get_placement_set(cell_type(name))
        found[name] = [
            len(ps), ps.load_ids().tolist(), ps.load_positions().tolist(), [c.id for c in ps.get_all_chunks()],
            {int(c): n for c, n in ps.get_chunk_stats().items()},
        ]  # fmt: skip
    ps = storage.get_placement_set(cell_type("cell"))
    index = ps.load_morphologies()
    found["more"] = [
        np.asarray(ps.load_rotations()).tolist(), [index.names[i] for i in index.get_indices()],
        ps.load_additional("w").tolist(), [list(c.dimensions) for c in ps.get_all_chunks()],
        ps.get_labelled(["x"]).tolist(), ps.get_labelled(["z"]).tolist(), ps.get_labelled([]).tolist(),
        sorted(map(sorted, ps.get_unique_labels())),
    ]  # fmt: skip
    ps.set_chunk_filter([(10, 0, 0)])
    ps.set_label_filter(["y"])
    found["filtered"] = [ps.load_ids().tolist(), ps.load_positions().tolist(), len(ps)]
    links = storage.get_connectivity_set("links")
    found["links"] = [
        len(links), links.pre_type_name, links.post_type_name,
        [
            (d, a.id, b.id, sorted(np.hstack(data).tolist()))
            for d, a, b, data in links.flat_iter_connections()
        ],
    ]  # fmt: skip
    for name in "AB":
        m = storage.morphologies.load(name)
        found[name] = [m.points.tolist(), m.radii.tolist(), [sorted(s) for s in m.labels.walk()], len(m.branches)]
        found[name].append({k: np.asarray(m.meta[k]).tolist() for k in ("name", "ldc", "mdc")})
    found["note"] = str(storage.files.load("note")[0]), storage.files.get_meta("note")["a"]
    found["config"] = list(storage.load_active_config().regions)
    found["stats"] = {int(c): n for c, n in storage._engine.get_chunk_stats().items()}
    return found


@pytest.mark.parametrize("writer", ENGINES)
def test_files_go_both_ways(writer: str, tmp_path: Path) -> None:
    path = str(tmp_path / "net.hdf5")
    fill(Storage(writer, path))
    NetworkFile.open(path).close()
    ours, theirs = (contents(Storage(engine, path)) for engine in ("chunkloom", "hdf5"))
    assert ours == theirs
    assert check(NetworkFile.open(path)) == []


def test_each_engine_continues_what_the_other_wrote(tmp_path: Path) -> None:
    path, expected = str(tmp_path / "net.hdf5"), []
    for turn in range(6):
        storage = Storage(ENGINES[turn % 2], path)
        cells = storage.require_placement_set(cell_type("cell"))
        for c in (0, 1):
            rows = np.full((3, 3), turn * 10.0 + c)
            cells.append_data(Chunk((c, 0, 0), (9, 9, 9)), positions=rows, rotations=rows)
            expected.extend(rows[:, 0].tolist())
        cells.label([f"turn{turn}"], [turn])
        NetworkFile.open(path).close()
    for engine in ENGINES:
        cells = Storage(engine, path).get_placement_set(cell_type("cell"))
        assert sorted(cells.load_positions()[:, 0].tolist()) == sorted(expected)
        assert [cells.get_labelled([f"turn{t}"]).tolist() for t in range(6)] == [[t] for t in range(6)]
    assert check(NetworkFile.open(path)) == []


def test_opening_a_file_of_ours_in_bsb_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "net.hdf5"
    with NetworkFile.create(path, chunk_size=(9, 9, 9)) as network:
        network.require_placement("cell").append_data((0, 0, 0), np.ones((2, 3)))
    before = path.read_bytes()
    assert len(Storage("hdf5", str(path)).get_placement_set(cell_type("cell")).load_positions()) == 2
    assert path.read_bytes() == before


def compiled(engine: str, path: str) -> dict[str, Any]:
    config = Configuration.default(
        storage=dict(engine=engine, root=path),
        network=dict(x=200, y=200, z=200, chunk_size=[100, 100, 100]),
        regions=dict(r=dict(type="stack", children=["l"])),
        partitions=dict(l=dict(type="layer", thickness=200)),
        cell_types=dict(a=dict(spatial=dict(radius=4, density=2e-5)), b=dict(spatial=dict(radius=5, count=40))),
        placement=dict(
            p=dict(strategy="bsb.placement.RandomPlacement", partitions=["l"], cell_types=["a", "b"]),
        ),
        connectivity=dict(
            a_to_b=dict(
                strategy="bsb.connectivity.AllToAll",
                presynaptic=dict(cell_types=["a"]),
                postsynaptic=dict(cell_types=["b"]),
            )
        ),
        rng=dict(seed=11),
    )
    network = Scaffold(config)
    network.compile(clear=True)
    found: dict[str, Any] = {}
    for name in ("a", "b"):
        found[name] = network.get_placement_set(name).load_positions().tolist()
    pre, post = network.get_connectivity_set("a_to_b").load_connections().all()
    found["links"] = sorted(np.hstack((pre, post)).tolist())
    return found


def test_a_network_compiles_to_the_same_as_with_bsbs_engine(tmp_path: Path) -> None:
    theirs, ours = (compiled(engine, str(tmp_path / f"{engine}.hdf5")) for engine in ENGINES)
    assert len(ours["a"]) > 100
    assert len(ours["links"]) == len(ours["a"]) * len(ours["b"])
    assert ours == theirs
    assert check(NetworkFile.open(tmp_path / "chunkloom.hdf5")) == []


def test_storage_requires_connectivity_sets_in_either_order(tmp_path: Path) -> None:
    storage = Storage("chunkloom", str(tmp_path / "net.hdf5"))
    links = storage.require_connectivity_set("links", cell_type("a"), cell_type("b"))
    assert (links.tag, links.pre_type_name, links.post_type_name) == ("links", "a", "b")


def test_writing_in_read_only_mode_is_refused(tmp_path: Path) -> None:
    storage = Storage("chunkloom", str(tmp_path / "net.hdf5"))
    cells = storage.require_placement_set(cell_type("cell"))
    with storage.read_only(), pytest.raises(ValueError, match="opened for reading"):
        storage.require_placement_set(cell_type("other"))
    with storage.read_scope():
        cells.append_data((0, 0, 0), [[1, 2, 3]])
    assert (len(cells), storage._engine.versions["engine"]) == (1, "chunkloom")
    assert isinstance(storage._engine.state_id, int)


@pytest.fixture(scope="module")
def vnc_network(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Mitochondria and synapses of the VNC as cells, and mitochondria connected by the synapses beside them."""
    from chunkloom import Pipeline, open_volume, ops
    from chunkloom.bridge.connect import Ends, connect_synapses
    from chunkloom.bridge.extract import extract

    path = tmp_path_factory.mktemp("vnc") / "net.hdf5"
    mitochondria, mask = (open_volume(shared / "data" / "vnc.zarr" / name) for name in ("mitochondria", "synapses"))
    synapses = Pipeline(mask, [ops.ConnectedComponents()])
    extract(mitochondria, path, "mitochondrion", chunk_size_nm=(500, 1000, 1000))
    extract(synapses, path, "synapse")
    with NetworkFile.open(path) as network:
        near = Pipeline(mitochondria, [ops.Dilate((1, 81, 81))])
        connect_synapses(synapses, near, network, Ends("near", "mitochondrion", "mitochondrion"))
    return path


@pytest.mark.parametrize("engine", ENGINES)
def test_a_network_out_of_volumes_opens_in_bsb(engine: str, vnc_network: Path, shared: Path) -> None:
    from chunkloom import open_volume

    volume = open_volume(shared / "data" / "vnc.zarr" / "mitochondria")
    labels, grid = volume.read(), volume.levels[0].grid
    storage = Storage(engine, str(vnc_network))
    cells = storage.get_placement_set(cell_type("mitochondrion"))
    ids, positions = cells.load_additional("label_id"), cells.load_positions()
    assert sorted(int(id) for id in ids) == np.unique(labels)[1:].tolist()
    for id, position in zip(ids, positions, strict=True):
        centre = np.argwhere(labels == id).mean(axis=0) + 0.5
        nm = centre * grid.voxel_size_nm + grid.corner_nm
        np.testing.assert_allclose(position, nm[::-1] / 1000, rtol=0, atol=1e-9)
    chunks = cells.get_all_chunks()
    assert [tuple(chunk.dimensions) for chunk in chunks] == [(1.0, 1.0, 0.5)] * len(chunks)
    for chunk in chunks:
        cells.set_chunk_filter([chunk])
        assert (np.floor(cells.load_positions() / [1.0, 1.0, 0.5]) == np.array(chunk)).all()
    assert len(storage.get_placement_set(cell_type("synapse"))) == 28
    links = storage.get_connectivity_set("near")
    pairs = [
        tuple(np.hstack((a, b)))
        for _, _, _, data in links.flat_iter_connections("out")
        for a, b in zip(*data, strict=True)
    ]
    assert len(pairs) == len(links) == 16
