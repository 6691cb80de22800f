"""The table of objects made chunk by chunk, against skimage on the whole array."""

from __future__ import annotations

import builtins
import csv

import numpy as np
import pytest
from scipy import ndimage
from skimage.measure import regionprops

from chunkloom import Box, Pipeline, array_volume, ops
from chunkloom.engine.cache import ChunkCache
from chunkloom.engine.finalize import finalize
from chunkloom.engine.objects import AXES, measure_objects, read_objects, write_objects
from chunkloom.engine.sweep import in_threads
from chunkloom.errors import MissingExtraError, ParameterError, VolumeNotFoundError

RNG = np.random.default_rng(5)
SHAPE = (37, 50, 41)
LABELS = ndimage.label(ndimage.gaussian_filter(RNG.normal(size=SHAPE), 2) > 0.1)[0].astype(np.uint64)
VOXEL, CORNER = (3.24, 10.48, 8.0), (-2.62, 100.0, 0.5)


def expected(labels: np.ndarray) -> dict[int, tuple]:
    """Voxels, centroid in voxels, begin and end of each object, by skimage."""
    return {
        int(r.label): (int(r.area), np.array(r.centroid), r.bbox[:3], r.bbox[3:])
        for r in regionprops(labels.astype(int))
    }


@pytest.mark.parametrize("chunk", [(16, 16, 16), (7, 50, 13), (64, 64, 64)], ids=str)
@pytest.mark.parametrize("each", [map, in_threads(3)], ids=["one by one", "threads"])
def test_the_table_equals_skimage_on_the_whole(chunk, each):
    volume = array_volume(LABELS, voxel_size_nm=VOXEL, corner_nm=CORNER, chunk=chunk)
    table = measure_objects(volume, each=each)
    oracle = expected(LABELS)
    assert table.label_id.tolist() == sorted(oracle)
    for row, identifier in enumerate(table.label_id.tolist()):
        voxels, centroid, begin, end = oracle[identifier]
        assert table.voxels[row] == voxels
        assert np.allclose(table.centroid_nm[row], np.array(CORNER) + (centroid + 0.5) * VOXEL, rtol=1e-12, atol=1e-9)
        assert tuple(table.bbox_begin[row]) == begin
        assert tuple(table.bbox_end[row]) == end
        touches = any(b == 0 for b in begin) or any(e == n for e, n in zip(end, SHAPE, strict=True))
        assert table.touches_border[row] == touches


def test_a_box_measures_what_is_inside_it():
    box = Box((5, 17, 3), (30, 33, 40))
    table = measure_objects(array_volume(LABELS, chunk=(16, 16, 16)), box=box)
    oracle = expected(LABELS[box.slices()])
    assert dict(zip(table.label_id.tolist(), table.voxels.tolist(), strict=True)) == {
        k: v[0] for k, v in oracle.items()
    }
    for row, identifier in enumerate(table.label_id.tolist()):
        _, centroid, begin, _ = oracle[identifier]
        assert tuple(table.bbox_begin[row]) == tuple(b + o for b, o in zip(begin, box.lo, strict=True))
        assert np.allclose(table.centroid_nm[row], centroid + np.array(box.lo) + 0.5)
        at_end = (table.bbox_begin[row] == box.lo) | (table.bbox_end[row] == box.hi)
        assert table.touches_border[row] == at_end.any()


def test_a_coarser_level_is_measured_in_its_own_voxels():
    volume = Pipeline(array_volume(LABELS, voxel_size_nm=(8, 8, 8)), chunk=(16, 16, 16), cache=ChunkCache())
    table = measure_objects(volume, level=1)
    oracle = expected(volume.read(level=1))
    assert table.voxels.tolist() == [oracle[i][0] for i in sorted(oracle)]
    assert np.allclose(table.centroid_nm, [(oracle[i][1] + 0.5) * 16 for i in sorted(oracle)])


def test_many_chunks_are_put_together_as_they_come(monkeypatch):
    monkeypatch.setattr("chunkloom.engine.objects._MOST_WAITING", 10)
    volume = array_volume(LABELS, chunk=(8, 8, 8))
    assert measure_objects(volume).voxels.tolist() == np.bincount(LABELS.ravel().astype(int))[1:].tolist()


def test_ids_of_64_bits_stay_exact():
    array = np.zeros((4, 4, 40), np.uint64)
    array[0, 0, 10:30], array[3, 3, 3] = 2**64 - 1, 2**63 + 1
    table = measure_objects(array_volume(array, chunk=(4, 4, 16)))
    assert table.label_id.tolist() == [2**63 + 1, 2**64 - 1]
    assert table.voxels.tolist() == [1, 20]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "uint32", "int64"])
def test_every_dtype_of_ids_is_measured(dtype):
    array = (LABELS % 100).astype(dtype)
    table = measure_objects(array_volume(array, chunk=(16, 16, 16)))
    assert table.voxels.tolist() == [v[0] for _, v in sorted(expected(array).items())]


def test_connected_components_are_measured_after_the_second_pass():
    mask = (LABELS > 0).astype(np.uint8)
    volume = Pipeline(array_volume(mask), [ops.ConnectedComponents()], chunk=(16, 16, 16), cache=ChunkCache())
    with pytest.raises(ParameterError, match="ids of this volume are those of its chunks"):
        measure_objects(volume)
    assert sorted(measure_objects(finalize(volume)).voxels) == sorted(np.bincount(LABELS.ravel().astype(int))[1:])


@pytest.mark.parametrize(
    ("array", "reason"),
    [(np.zeros((4, 4, 4), np.float32), "dtype float32"), (np.zeros((2, 4, 4, 4), np.uint32), "axes c, z, y, x")],
    ids=["floats", "channels"],
)
def test_what_is_not_labels_is_refused(array, reason):
    with pytest.raises(ParameterError, match=reason):
        measure_objects(array_volume(array))


def test_nothing_has_no_objects():
    table = measure_objects(array_volume(np.zeros((20, 20, 20), np.uint32)))
    assert len(table) == 0
    assert table.columns()["bbox_begin_z"].shape == (0,)


def test_progress_counts_chunks():
    told = []
    measure_objects(array_volume(LABELS, chunk=(16, 32, 64)), progress=lambda done, total: told.append((done, total)))
    assert told == [(n, 6) for n in range(1, 7)]


NAMES = [
    "label_id",
    "voxels",
    *(f"centroid_{axis}_nm" for axis in AXES),
    *(f"bbox_begin_{axis}" for axis in AXES),
    *(f"bbox_end_{axis}" for axis in AXES),
    "touches_border",
]


def test_parquet_holds_every_column(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = measure_objects(array_volume(LABELS, voxel_size_nm=VOXEL))
    write_objects(table, tmp_path / "objects.parquet")
    read = parquet.read_table(tmp_path / "objects.parquet")
    assert read.column_names == NAMES
    types = {name: str(read.schema.field(name).type) for name in NAMES}
    assert (types["label_id"], types["voxels"], types["touches_border"]) == ("uint64", "int64", "bool")
    assert {types[name] for name in NAMES[2:5]} == {"double"}
    assert {types[name] for name in NAMES[5:11]} == {"int64"}
    for name, column in table.columns().items():
        assert np.array_equal(read[name].to_numpy(), column)
    assert [path.name for path in tmp_path.iterdir()] == ["objects.parquet"]


def test_csv_holds_every_column_exactly(tmp_path):
    table = measure_objects(array_volume(LABELS + np.uint64(2**63), voxel_size_nm=VOXEL))
    write_objects(table, tmp_path / "objects.csv")
    with (tmp_path / "objects.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == NAMES
    assert [int(row["label_id"]) for row in rows] == table.label_id.tolist()
    assert [float(row["centroid_y_nm"]) for row in rows] == table.centroid_nm[:, 1].tolist()
    assert {row["touches_border"] for row in rows} <= {"True", "False"}


def test_another_suffix_is_refused(tmp_path):
    with pytest.raises(ParameterError, match=r"expected .parquet or .csv"):
        write_objects(measure_objects(array_volume(LABELS)), tmp_path / "objects.xlsx")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.partition(".")[0] == "pyarrow":
            raise ImportError("no pyarrow here")
        return real(name, *args, **kwargs)

    monkeypatch.setattr("importlib.import_module", lambda name: missing(name))
    with pytest.raises(MissingExtraError, match=r"pip install 'chunkloom\[objects\]'"):
        write_objects(measure_objects(array_volume(LABELS)), tmp_path / "objects.parquet")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_is_read_as_it_was_written(tmp_path, suffix):
    table = measure_objects(array_volume(LABELS + np.uint64(2**63), voxel_size_nm=VOXEL))
    write_objects(table, tmp_path / f"objects{suffix}")
    read = read_objects(tmp_path / f"objects{suffix}")
    for name, column in table.columns().items():
        assert (read.columns()[name].dtype, read.columns()[name].tolist()) == (column.dtype, column.tolist())


def test_columns_and_rows_may_come_in_any_order(tmp_path):
    table = measure_objects(array_volume(LABELS, voxel_size_nm=VOXEL))
    columns = dict(reversed(table.columns().items())) | {"more": np.arange(len(table))}
    with (tmp_path / "objects.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(reversed(list(zip(*columns.values(), strict=True))))
    assert read_objects(tmp_path / "objects.csv").centroid_nm.tolist() == table.centroid_nm.tolist()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("voxels", "size", "has no column voxels"),
        ("\n5,", "\n5.0,", "column label_id: expected values of uint64"),
        ("\n5,", "\n-5,", "column label_id: expected values of uint64"),
        ("\n5,", "\n2,", "has id 2 twice"),
        ("True", "yes", "column touches_border: expected values of bool"),
        ("\n5,", "\n5,5,", "line 6: 13 values for 12 columns"),
    ],
    ids=["column", "number", "negative", "twice", "boolean", "cells"],
)
def test_what_is_no_table_of_objects_is_refused(tmp_path, old, new, said):
    write_objects(measure_objects(array_volume(ROWS)), tmp_path / "objects.csv")
    text = (tmp_path / "objects.csv").read_text().replace("\r\n", "\n")
    assert old in text
    (tmp_path / "objects.csv").write_text(text.replace(old, new))
    with pytest.raises(ParameterError, match=said):
        read_objects(tmp_path / "objects.csv")


ROWS = np.arange(1, 9, dtype=np.uint8).reshape(1, 1, 8)


def test_a_table_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(VolumeNotFoundError):
        read_objects(tmp_path / "objects.csv")
    (tmp_path / "objects.parquet").write_text("no")
    with pytest.raises(ParameterError, match="is not a Parquet file"):
        read_objects(tmp_path / "objects.parquet")
