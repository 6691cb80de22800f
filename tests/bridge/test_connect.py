"""Connections out of volumes: pairs known by construction, on real and on small segmentations."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from chunkloom import Pipeline, array_volume, open_volume, ops
from chunkloom.bridge.connect import Connected, Ends, connect_contacts, connect_synapses
from chunkloom.bridge.extract import extract
from chunkloom.engine.sweep import in_threads
from chunkloom.errors import CancelledWorkError, ConflictError, ParameterError
from chunkloom.network import NetworkFile, check

Pairs = Counter[tuple[int, int]]


class Painted(NamedTuple):
    """Synapses painted onto faces of a segmentation: ids, sides, and (voxels, pre, post) of each."""

    synapses: Any
    sides: Any
    made: dict[int, tuple[int, int, int]]


def painted(cells: Any, count: int, seed: int) -> Painted:
    """Synapses at random faces between two cells, whose voxels have no third cell beside them, nor another synapse."""
    rng = np.random.default_rng(seed)
    synapses, sides = np.zeros(cells.shape, np.uint64), np.zeros(cells.shape, np.uint8)
    around = np.pad(cells, 1)
    made: dict[int, tuple[int, int, int]] = {}
    faces = []
    for axis in range(3):
        step = np.eye(3, dtype=int)[axis]
        one, next_ = cells[tuple(slice(None, -n or None) for n in step)], cells[tuple(slice(n, None) for n in step)]
        faces.append((axis, np.argwhere((one != next_) & (one != 0) & (next_ != 0))))
    picks = [(a, at) for a, found in faces for at in rng.permutation(found)[: 10 * count]]
    for a, place in (picks[i] for i in rng.permutation(len(picks))):
        if (place > np.array(cells.shape) - 4).any():
            continue
        # A patch of 1 to 3 faces in a row, across the axis.
        length, along = int(rng.integers(1, 4)), (a + 1) % 3
        lower = [tuple(place + np.eye(3, dtype=int)[along] * i) for i in range(length)]
        upper = [tuple(np.array(at) + np.eye(3, dtype=int)[a]) for at in lower]
        here, there = ({int(cells[at]) for at in side} for side in (lower, upper))
        if len(here) != 1 or len(there) != 1 or here == there or 0 in here | there:
            continue
        p, q = here.pop(), there.pop()
        near = [around[z : z + 3, y : y + 3, x : x + 3] for z, y, x in lower + upper]
        if any(set(np.unique(block).tolist()) - {p, q, 0} for block in near):
            continue
        if any(synapses[at] for at in lower + upper):
            continue
        id = 2**40 + len(made) * 3 + 1
        pre_below = bool(rng.integers(0, 2))
        for at, own in ((at, own) for own, group in ((0, lower), (1, upper)) for at in group):
            synapses[at] = id
            sides[at] = 1 if (own == 0) == pre_below else 2
        made[id] = (2 * length, *((p, q) if pre_below else (q, p)))
        if len(made) == count:
            return Painted(synapses, sides, made)
    raise AssertionError(f"only {len(made)} synapses found a place")


def pairs_in(path: Path, tag: str) -> Pairs:
    """Connections of a file as pairs of label ids."""
    network = NetworkFile.open(path, "r")
    links = network.connectivity(tag)
    pre, post = links.load_connections()
    assert (pre[:, 1:] == -1).all()
    assert (post[:, 1:] == -1).all()
    ids = [network.placement(name).load_additional("label_id") for name in (links.pre, links.post)]
    assert check(network) == []
    return Counter(zip(ids[0][pre[:, 0]].tolist(), ids[1][post[:, 0]].tolist(), strict=True))


@pytest.fixture(scope="module")
def real(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Painted, Path]:
    """The real segmentation, 300 synapses on its faces, and a network of its cells."""
    cells = open_volume(shared / "data" / "connectomics.zarr" / "labels")
    path = tmp_path_factory.mktemp("real") / "net.hdf5"
    extract(cells, path, "cell", chunk_size_nm=(2000, 2000, 2000))
    return cells, painted(cells.read(), 300, seed=1), path


def like(array: Any, volume: Any, chunk: tuple[int, int, int] = (50, 64, 37)) -> Any:
    """An array where `volume` is, in chunks of another shape."""
    grid = volume.levels[0].grid
    return array_volume(array, kind="labels", voxel_size_nm=grid.voxel_size_nm, corner_nm=grid.corner_nm, chunk=chunk)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("least", [1, 4])
def test_every_painted_synapse_is_one_connection(real: Any, least: int, workers: int) -> None:
    cells, (synapses, sides, made), path = real
    with NetworkFile.open(path) as network:
        done = connect_synapses(
            like(synapses, cells), cells, network, Ends("syn", "cell", "cell"), direction=like(sides, cells),
            min_voxels=least, overwrite=True, each=in_threads(workers),
        )  # fmt: skip
    expected = Counter((pre, post) for voxels, pre, post in made.values() if voxels >= least)
    assert pairs_in(path, "syn") == expected
    few = sum(voxels < least for voxels, _, _ in made.values())
    assert done == Connected("syn", expected.total(), len(made), few, 0, 0)


def test_without_a_direction_connections_go_both_ways(real: Any) -> None:
    cells, (synapses, _, made), path = real
    with NetworkFile.open(path) as network:
        connect_synapses(like(synapses, cells), cells, network, Ends("both", "cell", "cell"))
    expected = Counter(pair for _, a, b in made.values() for pair in ((a, b), (b, a)))
    assert pairs_in(path, "both") == expected


def test_real_contacts_are_the_pairs_that_share_faces(real: Any) -> None:
    cells, _, path = real
    whole = cells.read()
    faces: Pairs = Counter()
    for axis in range(3):
        a, b = (np.moveaxis(whole, axis, 0)[s] for s in (slice(None, -1), slice(1, None)))
        some = (a != b) & (a != 0) & (b != 0)
        faces.update(zip(np.minimum(a, b)[some].tolist(), np.maximum(a, b)[some].tolist(), strict=True))
    with NetworkFile.open(path) as network:
        mask = Pipeline(cells, [ops.Contacts()])
        done = connect_contacts(mask, cells, network, Ends("contacts", "cell", "cell"), min_voxels=20)
    expected = {pair for pair, n in faces.items() if n >= 20}
    assert pairs_in(path, "contacts") == Counter([*expected, *((b, a) for a, b in expected)])
    assert done.found == len(expected)


# ---- small volumes: z, y, x = 1, 1, n


def row(*values: int) -> Any:
    return np.array(values, np.uint16).reshape(1, 1, -1)


def connected(
    tmp_path: Path, synapses: Any, cells: Any, sides: Any = None, *, contacts: bool = False, **options: Any
) -> tuple[Pairs, Connected]:
    path = tmp_path / "net.hdf5"
    segmentation = array_volume(cells, kind="labels", chunk=(1, 1, 4))
    if not path.exists():
        extract(segmentation, path, "cell", chunk_size_nm=(3, 3, 3))
    side = None if sides is None else array_volume(sides, kind="labels", chunk=(1, 1, 5))
    run = connect_contacts if contacts else connect_synapses
    with NetworkFile.open(path) as network:
        done = run(
            array_volume(synapses, kind="labels", chunk=(1, 1, 3)), segmentation, network, Ends("t", "cell", "cell"),
            direction=side, **options,
        )  # fmt: skip
    return pairs_in(path, "t"), done


@pytest.mark.parametrize(
    ("synapses", "sides"),
    [
        (row(0, 0, 5, 5, 0, 0), row(0, 0, 1, 2, 0, 0)),
        (row(0, 0, 5, 5, 0, 0), row(1, 1, 1, 2, 2, 2)),
        (row(0, 5, 5, 0, 0, 0), row(0, 1, 1, 0, 0, 0)),
        (row(0, 0, 0, 5, 5, 0), row(0, 0, 0, 2, 2, 0)),
        (row(0, 0, 5, 0, 0, 0), row(0, 0, 0, 2, 0, 0)),
        (row(0, 0, 5, 5, 5, 0), row(0, 0, 1, 1, 2, 0)),
    ],
    ids=["at its voxels", "of the cells", "presynaptic only", "postsynaptic only", "beside it", "uneven"],
)
def test_the_direction_is_found_wherever_it_is_said(tmp_path: Path, synapses: Any, sides: Any) -> None:
    cells = row(7, 7, 7, 9, 9, 9)
    if sides.tolist() == [[[0, 0, 1, 1, 2, 0]]]:
        cells = row(7, 7, 7, 7, 9, 9)
    assert connected(tmp_path, synapses, cells, sides)[0] == {(7, 9): 1}


def test_the_direction_may_be_said_in_the_cleft(tmp_path: Path) -> None:
    found, _ = connected(tmp_path, row(0, 5, 5, 0), row(7, 0, 0, 9), row(0, 2, 1, 0))
    assert found == {(9, 7): 1}


@pytest.mark.parametrize("sides", [row(0, 0, 0, 0), row(1, 1, 1, 1), row(0, 3, 200, 0)], ids=["none", "one", "others"])
def test_a_synapse_without_a_direction_is_left_out_and_counted(tmp_path: Path, sides: Any) -> None:
    found, done = connected(tmp_path, row(0, 5, 5, 0), row(7, 7, 9, 9), sides)
    assert (found, done.undirected, done.found) == ({}, 1, 1)


def test_a_synapse_of_several_cells_connects_each_pre_to_each_post(tmp_path: Path) -> None:
    cells = np.array([[[1, 1, 0, 2], [3, 3, 0, 4]]], np.uint8)
    synapses = np.array([[[0, 6, 6, 0], [0, 6, 6, 0]]], np.uint8)
    sides = np.array([[[0, 1, 2, 0], [0, 1, 2, 0]]], np.uint8)
    # The cleft is on side 2 for both that lie beyond it.
    found, _ = connected(tmp_path, synapses, cells, sides)
    assert found == {(1, 2): 1, (1, 4): 1, (3, 2): 1, (3, 4): 1}


def test_two_synapses_of_a_pair_are_two_connections(tmp_path: Path) -> None:
    found, done = connected(tmp_path, row(0, 1, 0, 2, 0), row(7, 7, 9, 9, 7), row(0, 1, 2, 2, 1))
    assert (found, done.connections) == ({(7, 9): 2}, 2)


def test_synapses_of_fewer_than_two_cells_are_counted(tmp_path: Path) -> None:
    found, done = connected(tmp_path, row(1, 0, 0, 2, 2, 0, 3), row(7, 7, 7, 7, 9, 9, 0))
    assert (found, done.found, done.alone) == ({(7, 9): 1, (9, 7): 1}, 3, 2)


def test_contacts_count_once_a_pair_and_take_a_direction(tmp_path: Path) -> None:
    cells, mask = row(7, 9, 7, 0, 7, 9), row(1, 1, 1, 1, 1, 1)
    found, done = connected(tmp_path, mask, cells, contacts=True)
    assert (found, done.found) == ({(7, 9): 1, (9, 7): 1}, 1)
    found, _ = connected(tmp_path, mask, cells, row(1, 2, 1, 0, 0, 0), contacts=True, overwrite=True)
    assert found == {(7, 9): 1}
    found, done = connected(tmp_path, mask, cells, row(1, 2, 0, 0, 2, 1), contacts=True, overwrite=True)
    assert (found, done.undirected) == ({}, 1)


def test_objects_that_the_network_lacks_are_left_out_and_counted(tmp_path: Path) -> None:
    extract(array_volume(row(7, 7, 0, 9), kind="labels"), tmp_path / "net.hdf5", "cell", chunk_size_nm=(3, 3, 3))
    found, done = connected(tmp_path, row(0, 1, 0, 2), row(7, 7, 8, 9))
    # Synapse 1 touches 7 and 8, synapse 2 touches 8 and 9: both ways, and the network has no 8.
    assert (found, done.elsewhere) == ({}, 4)


def test_cells_of_two_types_are_connected_from_one_to_the_other(tmp_path: Path) -> None:
    cells = row(7, 7, 9, 9)
    path, volume = tmp_path / "net.hdf5", array_volume(cells, kind="labels")
    extract(array_volume(np.where(cells == 7, 7, 0).astype(np.uint8)), path, "a", chunk_size_nm=(3, 3, 3))
    extract(array_volume(np.where(cells == 9, 9, 0).astype(np.uint8)), path, "b")
    with NetworkFile.open(path) as network:
        connect_synapses(array_volume(row(0, 1, 0, 0)), volume, network, Ends("t", "a", "b"))
        connect_synapses(array_volume(row(0, 1, 0, 0)), volume, network, Ends("back", "b", "a"))
    assert (pairs_in(path, "t"), pairs_in(path, "back")) == ({(7, 9): 1}, {(9, 7): 1})


def test_volumes_may_begin_at_other_voxels_of_the_same_lattice(tmp_path: Path) -> None:
    path = tmp_path / "net.hdf5"
    cells = array_volume(row(7, 7, 9, 9), kind="labels", voxel_size_nm=(1, 1, 3.24), corner_nm=(0, 0, -1.62))
    extract(cells, path, "cell")
    synapses = array_volume(row(5, 0, 0, 0, 0), voxel_size_nm=(1, 1, 3.24), corner_nm=(0, 0, -1.62 + 2 * 3.24))
    with NetworkFile.open(path) as network:
        connect_synapses(synapses, cells, network, Ends("t", "cell", "cell"))
    assert pairs_in(path, "t") == {(7, 9): 1, (9, 7): 1}


@pytest.mark.parametrize(
    ("size", "corner", "said"),
    [((1, 1, 2), (0, 0, 0), "give volumes of the same voxels"), ((1, 1, 1), (0, 0.5, 0), "of a voxel apart")],
    ids=["voxel size", "half a voxel"],
)
def test_volumes_of_other_voxels_are_refused(tmp_path: Path, size: Any, corner: Any, said: str) -> None:
    cells = array_volume(row(7, 9), kind="labels")
    extract(cells, tmp_path / "net.hdf5", "cell")
    other = array_volume(row(1, 1), kind="labels", voxel_size_nm=size, corner_nm=corner)
    with NetworkFile.open(tmp_path / "net.hdf5") as network, pytest.raises(ParameterError, match=said):
        connect_synapses(other, cells, network, Ends("t", "cell", "cell"))


def test_a_mask_given_for_labels_is_found_out(tmp_path: Path) -> None:
    cells = np.arange(1, 201, dtype=np.uint8).reshape(1, 2, 100)
    with pytest.raises(ParameterError, match=r"touches 200 cells.*--contacts"):
        connected(tmp_path, np.ones_like(cells), cells)


def test_a_tag_that_has_connections_is_kept_unless_told_otherwise(tmp_path: Path) -> None:
    connected(tmp_path, row(0, 1, 1, 0), row(7, 7, 9, 9))
    with pytest.raises(ConflictError, match="has 2 connections 't' already"):
        connected(tmp_path, row(0, 1, 1, 0), row(7, 7, 9, 9))
    assert connected(tmp_path, row(0, 0, 0, 0), row(7, 7, 9, 9), overwrite=True)[0] == {}


@pytest.mark.parametrize("ends", [Ends("t", "cell", "other"), Ends("t", "bare", "bare"), Ends("t", "twice", "twice")])
def test_cells_that_cannot_be_found_by_their_object_are_an_error(tmp_path: Path, ends: Ends) -> None:
    cells = array_volume(row(7, 9), kind="labels")
    extract(cells, tmp_path / "net.hdf5", "cell")
    with NetworkFile.open(tmp_path / "net.hdf5") as network:
        network.require_placement("bare").append_data((0, 0, 0), np.zeros((2, 3)))
        network.require_placement("twice").append_data((0, 0, 0), np.zeros((2, 3)), additional={"label_id": [7, 7]})
        with pytest.raises(ParameterError, match=r"has no cells of type 'other'|found none|have label_id 7"):
            connect_synapses(cells, cells, network, ends)


def test_work_cancelled_in_the_middle_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    cells = array_volume(row(7, 7, 9, 9), kind="labels")
    path = tmp_path / "net.hdf5"
    extract(cells, path, "cell")
    before = path.read_bytes()

    def each(function: Any, items: Any) -> Any:
        yield function(next(iter(items)))
        raise CancelledWorkError("nobody waits")

    with NetworkFile.open(path) as network, pytest.raises(CancelledWorkError):
        connect_synapses(
            array_volume(row(1, 1, 1, 1), chunk=(1, 1, 2)), cells, network, Ends("t", "cell", "cell"), each=each
        )
    assert path.read_bytes() == before
