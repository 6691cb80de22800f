"""zarr v2 and v3, written by zarr-python, read by us."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chunkloom.errors import FormatError, ParameterError, VolumeNotFoundError
from chunkloom.geometry import Box
from chunkloom.io import list_levels, multiscales_attrs, open_levels, read_array_meta, read_padded

zarr = pytest.importorskip("zarr")


def ramp(shape: tuple[int, ...], dtype: str = "uint16") -> np.ndarray:
    return (np.arange(np.prod(shape)).reshape(shape) * 7 % 251).astype(dtype)


def write(path: Path, data: np.ndarray, version: int = 2, **options: Any) -> Path:
    options = {"chunks": tuple(max(1, n // 2) for n in data.shape), **options}
    array = zarr.create_array(path, shape=data.shape, dtype=data.dtype, zarr_format=version, **options)
    array[...] = data
    return path


def read_all(path: Path, **options: Any) -> np.ndarray:
    array = open_levels(path, **options).levels[0]
    return array.read(Box.of_shape(array.meta.shape[-3:]))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "uint64", "float16", "float32", "float64"])
def test_every_number_type_is_read_equal(tmp_path: Path, version: int, dtype: str) -> None:
    data = ramp((5, 6, 7), dtype)
    found = read_all(write(tmp_path / "a.zarr", data, version))
    assert found.dtype == data.dtype
    np.testing.assert_array_equal(found, data)


@pytest.mark.parametrize("version", [2, 3])
def test_read_of_a_box_gives_those_voxels(tmp_path: Path, version: int) -> None:
    data = ramp((9, 10, 11))
    array = open_levels(write(tmp_path / "a", data, version, chunks=(4, 4, 4))).levels[0]
    np.testing.assert_array_equal(array.read(Box((3, 0, 5), (8, 10, 6))), data[3:8, :, 5:6])


def test_box_outside_is_refused(tmp_path: Path) -> None:
    array = open_levels(write(tmp_path / "a", ramp((4, 4, 4)))).levels[0]
    with pytest.raises(ParameterError, match="not inside"):
        array.read(Box((0, 0, 0), (4, 4, 5)))


def test_sharded_array_is_read_equal(tmp_path: Path) -> None:
    data = ramp((16, 16, 16))
    path = write(tmp_path / "a", data, 3, chunks=(4, 4, 4), shards=(8, 8, 8))
    assert read_array_meta(path).chunk_shape == (4, 4, 4)
    np.testing.assert_array_equal(read_all(path), data)


def test_trailing_slash_and_odd_names_are_fine(tmp_path: Path) -> None:
    data = ramp((4, 4, 4))
    path = write(tmp_path / "a b#c%20d.zarr", data)
    np.testing.assert_array_equal(read_all(Path(str(path))), data)
    assert read_array_meta(f"{path}/").shape == (4, 4, 4)
    assert read_array_meta(f"file://{path}").shape == (4, 4, 4)


def pyramid(folder: Path, version: str) -> Path:
    group = zarr.open_group(folder, mode="w", zarr_format=2 if version == "0.4" else 3)
    for name, step in (("s0", 1), ("s1", 2)):
        group.create_array(name, shape=(8 // step,) * 3, chunks=(4, 4, 4), dtype="u1")[...] = step
    datasets = [("s0", (4.6, 3.24, 3.24), (-2.3, 10.0, 0.5)), ("s1", (9.2, 6.48, 6.48), (-2.3, 10.0, 0.5))]
    group.attrs.update(multiscales_attrs(["z", "y", "x"], ["nanometer"] * 3, datasets, "v", version))
    return folder


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_what_is_written_is_placed_the_same(tmp_path: Path, version: str) -> None:
    fine, coarse = list_levels(pyramid(tmp_path / "v.zarr", version))
    assert fine.voxel_size_nm == (4.6, 3.24, 3.24)
    assert coarse.voxel_size_nm == (9.2, 6.48, 6.48)
    assert fine.corner_nm == coarse.corner_nm == pytest.approx((-2.3, 10.0, 0.5), rel=1e-12)


def test_funlib_attributes_are_the_corner(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.zarr", ramp((4, 4, 4)), attributes={"resolution": [40, 3.24, 4], "offset": [120, 7, 0.5]}
    )
    meta = read_array_meta(path)
    assert meta.voxel_size_nm == (40, 3.24, 4)
    assert meta.corner_nm == (120, 7, 0.5)


def test_channels_come_first_and_whole(tmp_path: Path) -> None:
    data = ramp((4, 5, 6, 3))
    path = write(tmp_path / "a", data, 3, dimension_names=["z", "y", "x", "c"])
    array = open_levels(path).levels[0]
    assert array.meta.axes == ("c", "z", "y", "x")
    np.testing.assert_array_equal(array.read(Box((1, 0, 2), (3, 5, 6))), np.moveaxis(data, 3, 0)[:, 1:3, :, 2:])


def test_selected_channel_is_gone(tmp_path: Path) -> None:
    data = ramp((3, 4, 5, 6))
    path = write(tmp_path / "a", data)
    np.testing.assert_array_equal(read_all(path, select={"c": 2}), data[2])


def test_time_must_be_selected(tmp_path: Path) -> None:
    path = write(tmp_path / "a", ramp((2, 3, 4, 5, 6)), 3)
    with pytest.raises(ParameterError, match="t=0"):
        open_levels(path)
    assert open_levels(path, select={"t": 1}).levels[0].meta.axes == ("c", "z", "y", "x")


def test_unknown_axis_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="no axis 'q'"):
        open_levels(write(tmp_path / "a", ramp((3, 4, 5, 6))), select={"q": 0})


@pytest.mark.parametrize("pad", ["constant", "edge"])
@pytest.mark.parametrize(
    "box",
    [
        Box((-2, -1, -3), (7, 8, 9)),
        Box((1, 1, 1), (3, 3, 3)),
        Box((-5, 0, 0), (-2, 2, 2)),
        Box((9, 9, 9), (12, 11, 10)),
    ],
    ids=["around", "inside", "before", "after"],
)
def test_padded_read_equals_numpy_pad(tmp_path: Path, pad: str, box: Box) -> None:
    data = ramp((4, 5, 6))
    array = open_levels(write(tmp_path / "a", data)).levels[0]
    options = {"constant_values": 9} if pad == "constant" else {}
    padded = np.pad(data, 20, mode=pad, **options)
    np.testing.assert_array_equal(read_padded(array, box, pad=pad, fill=9), padded[box.shift((20, 20, 20)).slices()])


def test_no_such_path_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(VolumeNotFoundError) as caught:
        open_levels(tmp_path / "nothing.zarr")
    assert str(caught.value) == f"no such path: {tmp_path / 'nothing.zarr'}"


def test_missing_array_in_a_container_names_its_neighbours(tmp_path: Path) -> None:
    pyramid(tmp_path / "v.zarr", "0.4")
    with pytest.raises(VolumeNotFoundError, match="did you mean 's0'"):
        open_levels(tmp_path / "v.zarr" / "s00")


def test_folder_without_metadata_is_not_a_volume(tmp_path: Path) -> None:
    with pytest.raises(VolumeNotFoundError, match="not a volume"):
        open_levels(tmp_path)


def test_broken_json_names_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a", ramp((4, 4, 4)))
    (path / ".zarray").write_text("{")
    with pytest.raises(FormatError, match=r"\.zarray is not valid JSON"):
        read_array_meta(path)


def test_huge_chunk_is_refused_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a", ramp((4, 4, 4)))
    document = json.loads((path / ".zarray").read_text())
    (path / ".zarray").write_text(json.dumps({**document, "chunks": [2**20] * 3}))
    with pytest.raises(FormatError, match="1048576 x 1048576 x 1048576"):
        open_levels(path)


@pytest.mark.parametrize(
    ("version", "stored", "declared"),
    [
        (2, {"name": "v2", "separator": "/"}, "."),
        (2, {"name": "v2", "separator": "/"}, None),
        (2, {"name": "v2", "separator": "."}, "/"),
        (3, {"name": "default", "separator": "/"}, {"name": "v2"}),
        (3, {"name": "default", "separator": "/"}, {"name": "default", "configuration": {"separator": "."}}),
        (3, {"name": "v2", "separator": "."}, {"name": "default"}),
        (3, {"name": "v2", "separator": "/"}, "default"),
    ],
)
def test_chunks_named_in_another_way_are_not_fill(tmp_path: Path, version: int, stored: Any, declared: Any) -> None:
    path = write(tmp_path / "a", ramp((4, 4, 4)), version, chunk_key_encoding=stored)
    file = path / (".zarray" if version == 2 else "zarr.json")
    document = json.loads(file.read_text())
    document["dimension_separator" if version == 2 else "chunk_key_encoding"] = declared
    if declared is None:
        del document["dimension_separator"]
    file.write_text(json.dumps(document))
    with pytest.raises(FormatError, match="dimension_separator" if version == 2 else "chunk_key_encoding"):
        open_levels(path)
    if version == 2:
        np.testing.assert_array_equal(read_all(path, dimension_separator=stored["separator"]), ramp((4, 4, 4)))


def test_array_without_any_chunk_is_fill(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "a", shape=(4, 4, 4), chunks=(2, 2, 2), dtype="u1", fill_value=3, zarr_format=2)
    assert (read_all(tmp_path / "a") == 3).all()
