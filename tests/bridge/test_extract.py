"""Cells out of a volume of labels, against skimage on the whole array and h5py on the file."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from skimage.measure import regionprops

from chunkloom import Pipeline, array_volume, open_volume, ops
from chunkloom.bridge.extract import extract, position_um, size_um
from chunkloom.engine.demand import Work
from chunkloom.engine.objects import measure_objects, read_objects, write_objects
from chunkloom.engine.sweep import in_threads
from chunkloom.errors import CancelledWorkError, ChunkReadError, ConflictError, ParameterError
from chunkloom.network import Chunk, NetworkFile, check


def balls(shape: tuple[int, int, int] = (24, 30, 36)) -> Any:
    """A few objects of odd shapes, with ids beyond 2**53."""
    rng = np.random.default_rng(2)
    labels = np.zeros(shape, np.uint64)
    for n in range(1, 12):
        lo = [int(rng.integers(0, s - 5)) for s in shape]
        size = rng.integers(2, 6, 3)
        labels[tuple(slice(a, a + b) for a, b in zip(lo, size, strict=True))] = 2**60 + n
    return labels


@pytest.fixture(scope="module")
def regions(shared: Path) -> dict[int, Any]:
    """What skimage says of the real objects: id to centroid (voxels), voxels, box."""
    whole = open_volume(shared / "data" / "connectomics.zarr" / "labels").read()
    return {r.label: (r.centroid, r.num_pixels, list(r.bbox)) for r in regionprops(whole)}


@pytest.mark.parametrize(
    ("workers", "chunk_nm"),
    [(1, (1500.0, 1500.0, 1500.0)), (2, (1500.0, 1500.0, 1500.0)), (2, (4000.0, 2000.0, 3000.0))],
    ids=["one worker", "two workers", "other chunks"],
)
def test_real_objects_are_placed_as_regionprops_finds_them(
    shared: Path, tmp_path: Path, regions: dict[int, Any], workers: int, chunk_nm: tuple[float, float, float]
) -> None:
    volume = open_volume(shared / "data" / "connectomics.zarr" / "labels")
    path = tmp_path / "net.hdf5"
    placed = extract(volume, path, "cell", chunk_size_nm=chunk_nm, each=in_threads(workers))
    assert placed.cells == 223
    grid = volume.levels[0].grid
    with NetworkFile.open(path, "r") as network:
        cells = network.placement("cell")
        positions, more = cells.load_positions(), cells.load_all_additional()
        chunk_of = np.repeat([c.id for c in cells.get_all_chunks()], list(cells.get_chunk_stats().values()))
        assert network.chunk_size == tuple(n / 1000 for n in reversed(chunk_nm))
        assert check(network) == []
    found = {int(id): i for i, id in enumerate(more["label_id"])}
    assert found.keys() == regions.keys()
    for id, (centroid, voxels, box) in regions.items():
        i = found[id]
        nm = [(c + 0.5) * v + o for c, v, o in zip(centroid, grid.voxel_size_nm, grid.corner_nm, strict=True)]
        np.testing.assert_allclose(positions[i], np.array(nm[::-1]) / 1000, rtol=0, atol=1e-9)
        assert more["voxels"][i] == voxels
        assert [more[f"bbox_{end}_{a}"][i] for end in ("begin", "end") for a in "zyx"] == box
        home = np.floor(positions[i] / (np.array(chunk_nm[::-1]) / 1000))
        assert chunk_of[i] == Chunk(home).id


def test_the_file_holds_native_integers(tmp_path: Path) -> None:
    extract(array_volume(balls(), kind="labels", voxel_size_nm=(40, 3.24, 3.24)), tmp_path / "net.hdf5", "cell")
    with h5py.File(tmp_path / "net.hdf5") as file:
        (chunk,) = (n for n in file["placement/cell"])
        stored = file[f"placement/cell/{chunk}/additional"]
        assert {name: stored[name].dtype.kind for name in stored} == {
            "label_id": "u", "voxels": "i", "touches_border": "b",
            **{f"bbox_{end}_{axis}": "i" for end in ("begin", "end") for axis in "zyx"},
        }  # fmt: skip
        assert stored["label_id"][:].tolist() == [int(n) for n in np.unique(balls())[1:]]


def test_x_y_z_in_micrometres_come_from_z_y_x_in_nanometres() -> None:
    assert position_um(np.array([[1000.0, 2500.0, -40.0]])).tolist() == [[-0.04, 2.5, 1.0]]
    assert size_um((100.0, 200.0, 400.0)) == (0.4, 0.2, 0.1)


def test_chunks_before_the_origin_have_negative_coordinates(tmp_path: Path) -> None:
    labels = np.zeros((6, 6, 6), np.uint16)
    for i in (0, 2, 5):
        labels[i, i, i] = i + 1
    volume = array_volume(labels, kind="labels", voxel_size_nm=(10, 20, 30), corner_nm=(-30, -60, -90))
    extract(volume, tmp_path / "net.hdf5", "cell", chunk_size_nm=(10, 20, 30))
    cells = NetworkFile.open(tmp_path / "net.hdf5", "r").placement("cell")
    # Ids count 0, 1, … before -1, -2, …, and so do the cells.
    assert [c.coordinates for c in cells.get_all_chunks()] == [(2, 2, 2), (-3, -3, -3), (-1, -1, -1)]
    assert cells.load_additional("label_id").tolist() == [6, 1, 3]
    np.testing.assert_allclose(cells.load_positions()[1], [-0.075, -0.05, -0.025])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_of_objects_gives_the_same_cells(tmp_path: Path, suffix: str) -> None:
    volume = array_volume(balls(), kind="labels", voxel_size_nm=(40, 3.24, 3.24), corner_nm=(0.5, 0, -7))
    extract(volume, tmp_path / "a.hdf5", "cell", chunk_size_nm=(100, 50, 50))
    write_objects(measure_objects(volume), tmp_path / f"objects{suffix}")
    extract(
        volume, tmp_path / "b.hdf5", "cell", table=read_objects(tmp_path / f"objects{suffix}"),
        chunk_size_nm=(100, 50, 50),
    )  # fmt: skip
    a, b = (NetworkFile.open(tmp_path / f"{n}.hdf5", "r").placement("cell") for n in "ab")
    assert a.load_positions().tolist() == b.load_positions().tolist()
    for name, column in a.load_all_additional().items():
        assert (column.tolist(), column.dtype) == (b.load_additional(name).tolist(), b.load_additional(name).dtype)


@pytest.mark.parametrize("what", ["voxel size", "place", "shape"])
def test_a_table_of_another_volume_is_refused(tmp_path: Path, what: str) -> None:
    table = measure_objects(array_volume(balls(), kind="labels", voxel_size_nm=(40, 4, 4)))
    other = {
        "voxel size": array_volume(balls(), kind="labels", voxel_size_nm=(40, 8, 8)),
        "place": array_volume(balls(), kind="labels", voxel_size_nm=(40, 4, 4), corner_nm=(0, 1000, 0)),
        "shape": array_volume(balls()[:12], kind="labels", voxel_size_nm=(40, 4, 4)),
    }[what]
    with pytest.raises(ParameterError, match="of another volume"):
        extract(other, tmp_path / "net.hdf5", "cell", table=table)
    assert not (tmp_path / "net.hdf5").exists()


def test_objects_of_a_mask_are_whole_over_chunk_borders(tmp_path: Path) -> None:
    mask = balls() > 0
    volume = Pipeline(array_volume(mask, chunk=(8, 8, 8)), [ops.ConnectedComponents()], chunk=(8, 8, 8))
    from scipy import ndimage

    _, count = ndimage.label(mask)
    extract(volume, tmp_path / "net.hdf5", "cell")
    cells = NetworkFile.open(tmp_path / "net.hdf5", "r").placement("cell")
    assert cells.load_additional("label_id").tolist() == list(range(1, count + 1))
    assert cells.load_additional("voxels").sum() == mask.sum()


def test_a_type_that_has_cells_is_kept_unless_told_otherwise(tmp_path: Path) -> None:
    path, volume = tmp_path / "net.hdf5", array_volume(balls(), kind="labels")
    extract(volume, path, "cell", chunk_size_nm=(20, 20, 20))
    with NetworkFile.open(path) as network:
        cells = network.placement("cell")
        network.require_connectivity("cell", "cell", "links").connect(cells, cells, [0, 1], [1, 2])
        before = cells.load_positions().tolist()
    with pytest.raises(ConflictError, match=r"has \d+ cells of type 'cell' already.*--overwrite"):
        extract(volume, path, "cell")
    smaller = array_volume(np.where(balls() % 2 == 0, balls(), 0), kind="labels")
    extract(smaller, path, "cell", overwrite=True)
    with NetworkFile.open(path, "r") as network:
        assert 0 < len(network.placement("cell")) < len(before)
        assert len(network.connectivity("links")) == 0
        assert check(network) == []


def test_a_file_keeps_its_chunk_size(tmp_path: Path) -> None:
    path, volume = tmp_path / "net.hdf5", array_volume(balls(), kind="labels")
    NetworkFile.create(path, chunk_size=(0.03, 0.02, 0.01)).close()
    with pytest.raises(ParameterError, match=r"has chunks of 10,20,30 nm \(z, y, x\)"):
        extract(volume, path, "cell", chunk_size_nm=(20, 20, 20))
    extract(volume, path, "cell")
    assert NetworkFile.open(path, "r").chunk_size == (0.03, 0.02, 0.01)


def test_too_small_chunks_are_refused_before_anything_is_measured(tmp_path: Path) -> None:
    volume = array_volume(balls(), kind="labels", voxel_size_nm=(1e5, 1e5, 1e5))
    with pytest.raises(ParameterError, match="too small"):
        extract(volume, tmp_path / "net.hdf5", "cell", chunk_size_nm=(10, 10, 10), each=None)


class Stopping(Work):
    """Cancelled after a few looks."""

    def __init__(self, looks: int) -> None:
        self._left, self._lock = looks, threading.Lock()

    def check(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left < 0:
                raise CancelledWorkError("nobody waits")


@pytest.mark.parametrize("looks", [0, 3, 60], ids=["at once", "while measuring", "before writing"])
def test_cancelled_work_leaves_no_file(tmp_path: Path, looks: int) -> None:
    volume = array_volume(balls(), kind="labels", chunk=(8, 8, 8))
    with pytest.raises(CancelledWorkError):
        extract(volume, tmp_path / "net.hdf5", "cell", work=Stopping(looks))
    assert list(tmp_path.iterdir()) == []


def test_a_chunk_that_cannot_be_read_leaves_no_file(tmp_path: Path) -> None:
    def each(function: Any, items: Iterable[Any]) -> Any:
        yield function(next(iter(items)))
        raise ChunkReadError("chunk 0.0.1 is damaged")

    with pytest.raises(ChunkReadError):
        extract(array_volume(balls(), kind="labels", chunk=(8, 8, 8)), tmp_path / "net.hdf5", "cell", each=each)
    assert list(tmp_path.iterdir()) == []


def test_progress_counts_chunks(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    volume = array_volume(balls(), kind="labels", chunk=(12, 15, 18))
    extract(volume, tmp_path / "net.hdf5", "cell", progress=lambda *done: seen.append(done))
    assert seen == [(n, 8) for n in range(1, 9)]


def test_a_file_that_could_not_be_filled_does_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("chunkloom.network.handle.make_base", full)
    with pytest.raises(OSError, match="No space"):
        extract(array_volume(balls(), kind="labels"), tmp_path / "net.hdf5", "cell")
    assert not (tmp_path / "net.hdf5").exists()
