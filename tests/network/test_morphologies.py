"""Morphologies, their repository, and SWC."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chunkloom.network import Morphology, NetworkFile
from chunkloom.network.errors import (
    FormatError,
    NetworkExistsError,
    NetworkNotFoundError,
    ParameterError,
)
from chunkloom.network.swc import format_swc, parse_swc

SWC = """# a soma, a forked dendrite, an axon
1 1 0 0 0 5 -1
2 3 0 10 0 1 1
3 3 0 20 0 1 2
4 3 10 30 0 0.5 3
5 3 20 40 0 0.5 4
6 3 -10 30 5 0.5 3
7 2 0 -15 0 0.3 1
8 2 0 -30 0.125 0.3 7
"""


def test_swc_becomes_branches_that_begin_where_they_leave() -> None:
    found = parse_swc(SWC)
    assert found.parents.tolist() == [-1, 0, 1, 1, 0]
    assert found.ends.tolist() == [1, 4, 7, 9, 12]
    assert found.points[found.branch(2)].tolist() == [[0, 20, 0], [10, 30, 0], [20, 40, 0]]
    assert found.radii.tolist() == [5, 5, 1, 1, 1, 0.5, 0.5, 1, 0.5, 5, 0.3, 0.3]
    labels = [sorted(s)[0] for s in found.point_labels()]
    assert labels == ["soma"] + ["dendrites"] * 8 + ["axon"] * 3


def test_swc_round_trips() -> None:
    found = parse_swc(SWC)
    again = parse_swc(format_swc(found))
    assert again == found
    numbers = [[float(f) for f in line.split()] for line in format_swc(found).splitlines()[1:]]
    given = [[float(f) for f in line.split()] for line in SWC.splitlines()[1:]]
    assert numbers == given


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1 0 0 0 5", "line 1"),
        ("1 1 0 0 zero 5 -1", "line 1"),
        ("1 1 0 0 0 5 -1\n1 1 0 0 0 5 -1", "comes twice"),
        ("1 1 0 0 0 5 7", "parent 7"),
        ("1 1 0 0 0 5 2\n2 1 0 0 0 5 1", "circle"),
    ],
)
def test_wrong_swc_is_refused_by_line(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        parse_swc(text)


def test_a_morphology_is_stored_and_loaded(network: NetworkFile) -> None:
    given = parse_swc(SWC)
    network.morphologies.save("cell", given, meta={"area": 3.5, "tags": [], "axis": np.array([1.0, 2.0])})
    network.close()
    assert network.morphologies.load("cell") == given
    meta = network.morphologies.get_meta("cell")
    assert (meta["area"], meta["tags"], meta["axis"].tolist()) == (3.5, [], [1.0, 2.0])
    assert (meta["ldc"].tolist(), meta["mdc"].tolist()) == ([-10, -30, 0], [20, 40, 5])
    assert network.morphologies.get_all_meta().keys() == {"cell"}


def test_morphologies_are_loaded_when_asked_for(network: NetworkFile, tmp_path: Path) -> None:
    (tmp_path / "neuron.swc").write_text(SWC)
    network.morphologies.import_swc(tmp_path / "neuron.swc")
    (stored,) = network.morphologies.all()
    assert (stored.name, stored._loaded) == ("neuron", None)
    assert stored.load() == parse_swc(SWC)
    network.morphologies.export_swc("neuron", tmp_path / "out.swc")
    assert parse_swc((tmp_path / "out.swc").read_text()) == parse_swc(SWC)


def test_names_are_kept_apart(network: NetworkFile) -> None:
    morphologies = network.morphologies
    morphologies.save("a", parse_swc(SWC))
    with pytest.raises(NetworkExistsError):
        morphologies.save("a", parse_swc(SWC))
    morphologies.save("a", parse_swc(SWC), overwrite=True)
    morphologies.save("b", parse_swc(SWC))
    morphologies.remove("a")
    assert (morphologies.list(), set(morphologies.get_all_meta()), "a" in morphologies) == (["b"], {"b"}, False)
    for method in (morphologies.load, morphologies.remove, morphologies.get_meta):
        with pytest.raises(NetworkNotFoundError, match="there are: b"):
            method("a")
    assert not morphologies.has("placement")


def test_metadata_can_be_changed(network: NetworkFile) -> None:
    network.morphologies.save("a", parse_swc(SWC))
    network.morphologies.update_all_meta({"a": {"x": 1}})
    assert network.morphologies.get_meta("a")["x"] == 1
    network.morphologies.set_all_meta({"a": {"name": "a", "y": [1, 2]}})
    assert network.morphologies.get_meta("a") == {"name": "a", "y": [1, 2]}


@pytest.mark.parametrize(
    "change",
    [{"radii": np.ones(3)}, {"ends": np.array([1, 1])}, {"ends": np.array([2])}, {"parents": np.array([-1, 1])}],
    ids=str,
)
def test_what_is_no_tree_is_refused(change: Any) -> None:
    fields: dict[str, Any] = {
        "points": np.zeros((4, 3)), "radii": np.ones(4), "ends": np.array([2, 4]), "parents": np.array([-1, 0]),
        "labels": np.zeros(4, int),
    }  # fmt: skip
    Morphology(**fields)
    with pytest.raises(ParameterError):
        Morphology(**fields | change)
