"""Network files as files: created, opened, copied, moved, removed, checked, compacted; and what is in them."""

from __future__ import annotations

import getpass
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from chunkloom.network import NetworkFile, check, compact
from chunkloom.network.errors import (
    FormatError,
    LockedError,
    NetworkExistsError,
    NetworkNotFoundError,
    ParameterError,
)


def fill(network: NetworkFile) -> None:
    cells = network.require_placement("cell")
    for i in range(5):
        cells.append_data((i, 0, 0), np.full((3, 3), i), morphologies=["m"] * 3, additional={"w": [i, i, i]})
    cells.label(["x"], [1, 4])
    links = network.require_connectivity("cell", "cell", "links")
    links.connect(cells, cells, [0, 3, 6], [1, 2, 3])
    network.files.store("text", "note")


def test_a_file_is_created_once(tmp_path: Path) -> None:
    path = tmp_path / "net.hdf5"
    with NetworkFile.create(path) as network:
        fill(network)
    with pytest.raises(NetworkExistsError, match="overwrite=True"):
        NetworkFile.create(path)
    assert len(NetworkFile.open(path).placement("cell")) == 15
    assert NetworkFile.create(path, overwrite=True).placement_names() == []


def test_only_network_files_are_opened(tmp_path: Path) -> None:
    with pytest.raises(NetworkNotFoundError, match="no network file"):
        NetworkFile.open(tmp_path / "net.hdf5")
    (tmp_path / "text.hdf5").write_text("no HDF5")
    with pytest.raises(FormatError, match="not an HDF5 file"):
        NetworkFile.open(tmp_path / "text.hdf5")
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file["x"] = 1
    with pytest.raises(FormatError, match="not a network file"):
        NetworkFile.open(tmp_path / "other.hdf5")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other.hdf5", "text.hdf5"]


def test_a_file_opened_for_reading_refuses_to_write(network: NetworkFile) -> None:
    fill(network)
    reader = NetworkFile.open(network.path, "r")
    for write in (
        lambda: reader.require_placement("new"),
        lambda: reader.placement("cell").clear(),
        lambda: reader.files.remove("note"),
        lambda: reader.write_scope(),
        lambda: reader.remove(),
    ):
        with pytest.raises(ParameterError, match="opened for reading"):
            write()
    assert len(reader.placement("cell")) == 15


def test_a_read_only_folder_can_be_read(network: NetworkFile, tmp_path: Path) -> None:
    fill(network)
    network.close()
    os.chmod(network.path, 0o444)
    os.chmod(tmp_path, 0o555)
    try:
        assert len(NetworkFile.open(network.path, "r").placement("cell").load_positions()) == 15
    finally:
        os.chmod(tmp_path, 0o755)


def test_copies_and_moves_take_everything_along(network: NetworkFile, tmp_path: Path) -> None:
    fill(network)
    copy = network.copy(tmp_path / "copy.hdf5")
    network.placement("cell").clear()
    assert len(copy.placement("cell")) == 15
    copy.move(tmp_path / "moved.hdf5")
    copy.placement("cell").append_data((9, 9, 9), np.ones((1, 3)), morphologies=["m"])
    assert len(NetworkFile.open(tmp_path / "moved.hdf5").placement("cell")) == 16
    assert not NetworkFile.exists(tmp_path / "copy.hdf5")
    for method in (network.copy, network.move):
        with pytest.raises(NetworkExistsError):
            method(tmp_path / "moved.hdf5")
    network.remove()
    copy.remove()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NetworkNotFoundError):
        network.remove()


def test_a_file_is_not_moved_from_under_a_scope(network: NetworkFile, tmp_path: Path) -> None:
    with network.write_scope(), pytest.raises(LockedError, match="leave the write scope"):
        network.move(tmp_path / "moved.hdf5")


def test_permissions_and_links_survive_a_checkpoint(network: NetworkFile, tmp_path: Path) -> None:
    os.chmod(network.path, 0o640)
    link = tmp_path / "link.hdf5"
    link.symlink_to(network.path)
    with NetworkFile.open(link) as through:
        fill(through)
    assert link.is_symlink()
    assert os.stat(network.path).st_mode & 0o777 == 0o640
    assert len(network.placement("cell")) == 15


def test_provenance_says_what_and_when_but_not_who(network: NetworkFile) -> None:
    before = network.provenance
    fill(network)
    network.close()
    after = network.provenance
    assert after["storage_id"] == before["storage_id"]
    assert after["state_id"] > before["state_id"]
    assert set(network.versions) == {"bsb", "bsb_hdf5", "chunkloom"}
    data = Path(network.path).read_bytes()
    for private in (getpass.getuser(), os.getcwd(), socket.gethostname(), str(Path(network.path).parent)):
        assert json.dumps(after).find(f'"{private}"') < 0
        if len(private) > 6:
            assert private.encode() not in data


def test_the_file_is_what_its_format_says(network: NetworkFile) -> None:
    fill(network)
    network.close()
    with h5py.File(network.path) as file:
        assert set(file) == {"placement", "connectivity", "files", "morphologies"}
        assert file.attrs["chunk_size"].tolist() == [100, 100, 100]
        assert json.loads(file.attrs["chunks"])["1"] == {"placed": 3, "connections": {"inc": 1, "out": 1}}
        cells = file["placement/cell"]
        assert json.loads(cells.attrs["chunks"]) == {str(i): 3 for i in range(5)}
        assert (cells.attrs["len"], list(cells.attrs["additional_keys"])) == (15, ["w"])
        assert set(cells["1"]) == {"position", "rotation", "morphology", "labels", "additional"}
        assert list(cells["1"].attrs["morphology_loaders"]) == ["m"]
        assert (cells["1/position"].dtype, cells["1/position"].maxshape) == (np.float64, (None, 3))
        links = file["connectivity/links"]
        assert dict(links.attrs)["len"] == 3
        assert (links.attrs["pre"], links.attrs["post"], set(links)) == ("cell", "cell", {"inc", "out"})
        assert links["inc/0"].attrs["chunk_list"].dtype == np.int16


def test_a_chunk_takes_little_more_than_its_data(tmp_path: Path) -> None:
    with NetworkFile.create(tmp_path / "net.hdf5") as network, network.write_scope():
        cells = network.require_placement("cell")
        for i in range(500):
            cells.append_data((i, 0, 0), np.ones((100, 3)), rotations=np.ones((100, 3)))
    assert os.path.getsize(network.path) / 500 < 1.5 * 4800 + 2500


def test_compacting_gives_space_back_and_changes_nothing(network: NetworkFile) -> None:
    fill(network)
    cells, links = network.placement("cell"), network.connectivity("links")
    for _ in range(20):
        cells.label(["y"], [0])
        cells.remove_labels(["y"], [0])
        links.connect(cells, cells, np.zeros(500, int), np.arange(500) % 15)
        network.checkpoint()
    network.files.store(b"x" * 10, "blob\x01".replace("\x01", "1"))
    before = [cells.load_positions().tolist(), cells.get_labelled(["x"]).tolist(), len(links)]
    pairs = [part.tolist() for part in links.load_connections()]
    attributes = h5py.File(network.path).attrs.keys()
    old, new = compact(network)
    assert new < 0.7 * old
    assert os.path.getsize(network.path) == new
    assert before == [cells.load_positions().tolist(), cells.get_labelled(["x"]).tolist(), len(links)]
    assert pairs == [part.tolist() for part in links.load_connections()]
    assert network.files.load("note").content == "text"
    with h5py.File(network.path) as file:
        assert file.attrs.keys() >= set(attributes)
    assert check(network) == []


def broken(group: h5py.File, what: str) -> None:
    match what:
        case "position":
            group["placement/cell/1/position"].resize(2, 0)
        case "labels":
            group["placement/cell/0/labels"][0] = 99
        case "counted":
            group["placement/cell"].attrs["chunks"] = json.dumps({"0": 3})
        case "root":
            group.attrs["chunks"] = json.dumps({})
        case "end":
            group["connectivity/links/inc/0/local_locs"][0] = (77, -1, -1)
        case "twin":
            group["connectivity/links/out/0/global_locs"][0] = (2, -1, -1)
        case "table":
            group["connectivity/links/inc/0"].attrs["1"] = 3
        case "morphology":
            group["placement/cell/2/morphology"][0] = 5
        case "json":
            group["placement/cell"].attrs["chunks"] = "{"


@pytest.mark.parametrize(
    "what", ["position", "labels", "counted", "root", "end", "twin", "table", "morphology", "json"]
)
def test_faults_are_found(network: NetworkFile, what: str) -> None:
    fill(network)
    network.close()
    assert check(network) == []
    with h5py.File(network.path, "r+") as file:
        broken(file, what)
    if what == "json":
        with pytest.raises(FormatError, match=r"'chunks' of /placement/cell is not JSON"):
            NetworkFile.open(network.path)
        os.unlink(network.path)
    else:
        assert check(NetworkFile.open(network.path, "r"))


def test_state_is_seen_as_soon_as_it_is_written(network: NetworkFile) -> None:
    other: Any = NetworkFile.open(network.path)
    fill(network)
    assert len(other.placement("cell")) == 15
    assert [c.id for c in other.get_all_chunks()] == [0, 1, 2, 3, 4]
    assert other.connectivity_tags() == ["links"]


@pytest.mark.parametrize("sets", [1, 2, 3])
def test_a_scope_adds_what_it_wrote_not_all_counts_again(tmp_path: Path, sets: int) -> None:
    network = NetworkFile.create(tmp_path / "net.hdf5")
    cells = [network.require_placement(f"cell{k}") for k in range(sets)]
    for i in range(3000):
        cells[i % sets].append_data((i % 100, i // 100, 0), np.ones((1, 3)))
    network.close()
    before = os.path.getsize(network.path)
    for i in range(10):
        with network.write_scope():
            for placed in cells:
                placed.append_data((i, 0, 5), np.ones((1, 3)))
    counts = 3000 * 70  # bytes of JSON that say how many cells each chunk has
    assert os.path.getsize(network.path) - before < counts / 2


LAYOUT = """
import sys, h5py, numpy as np
from chunkloom.network import NetworkFile
with NetworkFile.create(sys.argv[1], chunk_size=(10, 10, 10)) as network:
    sets = [network.require_placement(name) for name in ("granule", "golgi", "stellate")]
    for scope in range(6):
        placed = sets[scope % 3]
        with network.write_scope():
            for x in range(150):
                names = ("zeta", "alpha", "label_id", "mass")
                placed.append_data((x, scope, 0), np.ones((2, 3)), rotations=np.ones((2, 3)),
                                   additional={n: np.arange(2) for n in names})
        placed.label(["b", "a", f"s{scope}"], np.arange(0, 300, 7))
    network.require_connectivity("granule", "golgi", "links").connect(*sets[:2], np.arange(300), np.arange(300))
with h5py.File(sys.argv[1], "r") as file:
    print(file.id.get_filesize())
    file.visit(lambda name: print(name, h5py.h5o.get_info(file[name].id).addr, sorted(
        (k, str(v)) for k, v in file[name].attrs.items() if k != "created_at")))
"""


def test_the_layout_of_a_file_does_not_depend_on_the_order_of_sets_of_strings(tmp_path: Path) -> None:
    found = set()
    for seed in range(3):
        words = [sys.executable, "-c", LAYOUT, str(tmp_path / f"{seed}.hdf5")]
        ran = subprocess.run(words, env=os.environ | {"PYTHONHASHSEED": str(seed)}, capture_output=True, check=True)
        found.add(ran.stdout)
    assert len(found) == 1


def test_a_file_without_provenance_is_read_as_it_is(network: NetworkFile) -> None:
    fill(network)
    network.close()
    with h5py.File(network.path, "r+") as file:
        for name in ("bsb_provenance", "chunkloom_generation", "chunkloom_previous"):
            del file.attrs[name]
    before = Path(network.path).read_bytes()
    with NetworkFile.open(network.path) as again:
        assert len(again.placement("cell").load_positions()) == 15
    assert Path(network.path).read_bytes() == before
    with NetworkFile.open(network.path) as again:
        again.placement("cell").append_entities((9, 9, 9), 2)
    assert (len(again.placement("cell")), set(again.provenance) >= {"storage_id", "state_id"}) == (17, True)
