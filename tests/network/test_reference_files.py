"""Files another engine wrote load with the values that engine's own program loads from them.

Where that program's value is one of its faults, the right value stands in `RIGHT` or beside the assertion.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chunkloom.network import Chunk, NetworkFile, check
from chunkloom.network.errors import MissingDataError

FILES = ("bsb_multichunk", "bsb_entities_nan", "bsb_connectivity")
SETS = (
    ("bsb_multichunk", "granule"),
    ("bsb_multichunk", "purkinje"),
    ("bsb_entities_nan", "ent"),
    ("bsb_entities_nan", "pts"),
    ("bsb_connectivity", "granule"),
    ("bsb_connectivity", "purkinje"),
)


@pytest.fixture(params=["as written", "after a checkpoint of ours"])
def opened(request: pytest.FixtureRequest, shared: Path, tmp_path: Path) -> Any:
    """Opens a file of the reference data; the second time after we wrote to a copy and made it part of the file."""

    def open_it(name: str) -> tuple[NetworkFile, dict[str, Any]]:
        source = shared / "data" / "network" / f"{name}.hdf5"
        expected = json.loads(source.with_suffix("").with_suffix(".expected.json").read_text())
        path = tmp_path / source.name
        if not path.exists():
            shutil.copyfile(source, path)
        if request.param == "after a checkpoint of ours":
            with NetworkFile.open(path) as network:
                network.require_placement("ours").append_data((0, 0, 0), [[1, 2, 3]])
                network.require_placement("ours").remove()
        return NetworkFile.open(path), expected

    return open_it


def loaded(expected: Any) -> Any:
    """The error class in place of an exception the data records."""
    return MissingDataError if isinstance(expected, dict) and "__raises__" in expected else expected


def assert_view(found: Any, expected: dict[str, Any], entities: bool) -> None:
    """All that one filter leaves of a placement set."""
    assert len(found) == expected["len"]
    assert found.load_ids().tolist() == expected["ids"]
    assert found.load_positions().tolist() == expected["positions"]
    if "labels" not in expected and not entities:
        assert found.get_label_mask().tolist() == expected["label_mask_all"]
        unique = sorted(sorted(s) for s in found.get_unique_labels())
        assert unique == sorted(sorted(s) for s in expected["unique_labels"])
    rotations = expected["rotations_euler_deg"]
    if loaded(rotations) is MissingDataError:
        # The other engine raises for an empty choice of cells, too; nothing is missing there.
        if expected["len"]:
            with pytest.raises(MissingDataError):
                found.load_rotations()
        else:
            assert found.load_rotations().shape == (0, 3)
    else:
        assert np.round(found.load_rotations(), 3).tolist() == rotations
    morphologies = expected["morphologies"]
    if loaded(morphologies) is MissingDataError:
        if expected["len"]:
            with pytest.raises(MissingDataError):
                found.load_morphologies()
    else:
        index = found.load_morphologies()
        names = [index.names[i] for i in index.indices]
        assert names == [morphologies["names"][i] for i in morphologies["indices"]]
    assert [list(c) for c in found.get_loaded_chunks()] == expected["loaded_chunks"]


@pytest.mark.parametrize(("file", "name"), SETS)
def test_a_placement_set_loads(opened: Any, file: str, name: str) -> None:
    network, expected = opened(file)
    of, found = expected["placement"][name], network.placement(name)
    assert [{"id": c.id, "xyz": list(c)} for c in found.get_all_chunks()] == of["all_chunks"]
    assert found.get_chunk_stats() == {int(c): n for c, n in of["chunk_stats"].items()}
    assert_view(found, of["all"], entities=name == "ent")


@pytest.mark.parametrize(("file", "name"), SETS)
def test_a_chunk_filter_narrows_it(opened: Any, file: str, name: str) -> None:
    network, expected = opened(file)
    for case in expected["placement"][name]["chunk_filter"]:
        there = {tuple(c["xyz"]) for c in expected["placement"][name]["all_chunks"]}
        if not all(tuple(c) in there for c in case["chunks"]):
            found = network.placement(name, chunks=case["chunks"])  # the other engine raises for most of these
            assert len(found) == len(found.load_ids()) == len(found.load_positions()) == 0
            assert found.get_label_mask(["even"]).tolist() == []
            continue
        assert_view(network.placement(name, chunks=case["chunks"]), case, entities=name == "ent")


@pytest.mark.parametrize(("file", "name"), SETS)
def test_labels_narrow_it(opened: Any, file: str, name: str) -> None:
    network, expected = opened(file)
    of = expected["placement"][name]
    for text, ids in of["labelled"].items():
        labels = [] if text.startswith("<unlabelled") else text.split("|")
        # The other engine counts positions for labels, so entities have none: they are unlabelled cells.
        right = list(range(of["all"]["len"])) if name == "ent" and not labels else ids
        assert network.placement(name).get_labelled(labels).tolist() == right
    for text, case in of["label_filter"].items():
        assert_view(network.placement(name, labels=text.split("|")), {**case, "labels": text}, name == "ent")
    for case in of["chunk_and_label_filter"]:
        if loaded(case["len"]) is MissingDataError:  # a chunk that is not there
            assert len(network.placement(name, case["chunks"], case["labels"])) == 0
            continue
        assert_view(network.placement(name, case["chunks"], case["labels"]), case, name == "ent")


@pytest.mark.parametrize(("file", "name"), SETS)
def test_global_ids_become_local(opened: Any, file: str, name: str) -> None:
    network, expected = opened(file)
    for case in expected["placement"][name]["convert_to_local"]:
        found = network.placement(name, chunks=case["chunks"])
        # For no cell left the other engine answers with booleans as many as the filter has cells.
        right = case["result"] if all(type(i) is int for i in case["result"]) else []
        assert found.convert_to_local(case["global_ids"]).tolist() == right


def test_additional_data_has_a_row_per_cell(opened: Any) -> None:
    network, expected = opened("bsb_multichunk")
    found, stored = network.placement("granule"), expected["placement"]["granule"]["all"]["additional"]
    assert found.load_additional("weight").tolist() == stored["weight"]
    late = found.load_additional("late")  # the other engine joins 18 values for 52 cells
    assert len(late) == 52
    assert late[~np.isnan(late)].tolist() == stored["late"]
    chunk = next(c for c in found.get_all_chunks() if not np.isnan(_in_chunk(network, c)).all())
    assert _in_chunk(network, chunk).tolist() == [0.0, 1.0, 2.0, 3.0]


def _in_chunk(network: NetworkFile, chunk: Chunk) -> Any:
    return network.placement("granule", chunks=[chunk]).load_additional("late")


def test_entities_pad_additional_data(opened: Any) -> None:
    network, _ = opened("bsb_entities_nan")
    rate = network.placement("ent").load_additional("rate")
    assert np.array_equal(rate, [np.nan] * 4 + [1.0, 2.0, 3.0], equal_nan=True)


def test_a_set_that_was_never_written_is_empty(opened: Any) -> None:
    network, expected = opened("bsb_entities_nan")
    names = set(network.placement_names()) - set(expected["placement"])
    assert len(names) == 1
    found = network.placement(names.pop())
    assert (len(found), found.get_chunk_stats(), found.load_ids().tolist()) == (0, {}, [])
    assert found.load_positions().shape == found.load_rotations().shape == (0, 3)


@pytest.mark.parametrize(("file", "tag"), [("bsb_connectivity", "gr_to_pc"), ("bsb_entities_nan", "ent_to_pts")])
def test_connections_load(opened: Any, file: str, tag: str) -> None:
    network, everything = opened(file)
    expected, found = everything["connectivity"][tag], network.connectivity(tag)
    assert (found.tag, found.pre, found.post, len(found)) == tuple(expected[k] for k in ("tag", "pre", "post", "len"))
    assert found.get_chunk_stats() == {int(c): n for c, n in expected["chunk_stats"].items()}
    for direction in ("inc", "out"):
        assert [list(c) for c in found.get_local_chunks(direction)] == expected["local_chunks"][direction]
        for case in expected["global_chunks"][direction]:
            assert [list(c) for c in found.get_global_chunks(direction, case["local"])] == case["global"]
    blocks = [
        {"dir": d, "local": list(a), "global": list(b), "local_locs": x.tolist(), "global_locs": y.tolist()}
        for d, a, b, (x, y) in found.flat_iter_connections()
    ]
    assert blocks == expected["flat_iter"]
    for case in expected["load_local"]:
        result = [part.tolist() for part in found.load_local_connections(case["dir"], case["local"])]
        assert result == case["result"]
    assert [part.tolist() for part in found.load_block_connections("inc", (9, 9, 9), (9, 9, 9))] == [[], []]
    for direction in ("out", "inc"):
        pre, post = found.load_connections(direction)
        assert {"pre": pre.tolist(), "post": post.tolist()} == expected[f"iter_all_{direction}"]
    pre, post = found.load_connections("out", pre_chunks=expected["iter_from"]["from"])
    assert {"pre": pre.tolist(), "post": post.tolist()} == expected["iter_from"]["globals"]


def test_morphologies_load(opened: Any) -> None:
    network, everything = opened("bsb_multichunk")
    assert network.morphologies.list() == sorted(everything["engine"]["morphologies"])
    for name, expected in everything["engine"]["morphologies"].items():
        found = network.morphologies.load(name)
        assert found.points.tolist() == expected["points"]
        assert found.radii.tolist() == expected["radii"]
        sizes = [found.points[found.branch(i)].shape[0] for i in range(len(found.ends))]
        branches = [{"n": n, "parent": p} for n, p in zip(sizes, found.parents.tolist(), strict=True)]
        assert branches == expected["branches"]
        assert [sorted(s) for s in found.point_labels()] == expected["labels"]
        assert list(found.properties) == expected["properties"]
        meta = network.morphologies.get_meta(name)
        assert {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in meta.items()} == expected["meta"]


@pytest.mark.parametrize("file", FILES)
def test_stored_files_load(opened: Any, file: str) -> None:
    network, everything = opened(file)
    assert network.files.all().keys() == everything["engine"]["files"].keys()
    for id, expected in everything["engine"]["files"].items():
        found = network.files.load(id)
        content = expected["content"]
        right = bytes.fromhex(content["__bytes_hex__"]) if isinstance(content, dict) else content
        assert (found.content, found.encoding, found.meta, found.mtime) == (
            right, expected["encoding"], expected["meta"], expected["mtime"],
        )  # fmt: skip
        assert network.files.has(id)
    assert network.files.active_id() == everything["engine"]["active_config_id"]


@pytest.mark.parametrize("file", FILES)
def test_statistics_of_the_file_load(opened: Any, file: str) -> None:
    network, everything = opened(file)
    stats = {int(c): n for c, n in everything["engine"]["chunk_stats"].items()}
    assert {c: n for c, n in network.get_chunk_stats().items() if c in stats} == stats
    size = everything["chunk_size"]
    assert network.chunk_size == (None if size is None else tuple(size))


@pytest.mark.parametrize("file", FILES)
def test_the_files_are_sound(opened: Any, file: str) -> None:
    assert check(opened(file)[0]) == []


def test_opening_changes_nothing(shared: Path, tmp_path: Path) -> None:
    source = shared / "data" / "network" / "bsb_multichunk.hdf5"
    path = tmp_path / "net.hdf5"
    shutil.copyfile(source, path)
    with NetworkFile.open(path) as network:
        network.placement("granule").load_positions()
    assert path.read_bytes() == source.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.hdf5"]


def test_chunks_are_in_integer_order(shared: Path) -> None:
    case = shared / "cases" / "bsb-chunk-order"
    expected = json.loads((case / "expected.json").read_text())
    network = NetworkFile.open(case / "net.hdf5", "r")
    granule = network.placement(expected["cell_type"])
    assert [str(c.id) for c in granule.get_all_chunks()] == expected["order"]
    positions = granule.load_positions()
    digest = hashlib.sha256(np.ascontiguousarray(positions, "<f8").tobytes()).hexdigest()
    assert (positions.shape, digest) == (tuple(expected["array"]["shape"]), expected["array"]["sha256_c_le"])
    assert len(granule) == expected["count"]
    assert granule.get_labelled(["deep"]).tolist() == expected["label_deep"]
    filtered = network.placement(expected["cell_type"], chunks=expected["chunk_filter"]["chunks"])
    assert filtered.load_positions().tolist() == expected["chunk_filter"]["positions"]
    assert len(network.placement(expected["cell_type"], chunks=[])) == 0
