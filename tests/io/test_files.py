"""HDF5 and TIFF: written by h5py and tifffile, read equal and placed right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tifffile

from chunkloom.errors import ChunkReadError, FormatError, VolumeNotFoundError
from chunkloom.geometry import Box
from chunkloom.io import list_levels, open_levels, read_array_meta, read_padded

DATA = (np.arange(7 * 40 * 50).reshape(7, 40, 50) * 13 % 65521).astype("u2")
BOXES = [
    Box((0, 0, 0), (7, 40, 50)),
    Box((2, 3, 5), (6, 33, 21)),
    Box((6, 39, 49), (7, 40, 50)),
    Box((1, 1, 1), (1, 4, 4)),
]


def check(path: str | Path, data: np.ndarray = DATA, **options: Any) -> None:
    array = open_levels(path, **options).levels[0]
    for box in BOXES:
        np.testing.assert_array_equal(array.read(box), data[(..., *box.slices())])
    padded = np.pad(data, [(0, 0)] * (data.ndim - 3) + [(3, 3)] * 3)
    around = Box((-3, -3, -3), tuple(n + 3 for n in data.shape[-3:]))
    np.testing.assert_array_equal(read_padded(array, around), padded)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"chunks": (4, 16, 16)},
        {"chunks": (4, 16, 16), "compression": "gzip", "shuffle": True},
        {"compression": "lzf"},
    ],
    ids=["contiguous", "chunked", "gzip", "lzf"],
)
@pytest.mark.parametrize("dtype", ["u1", ">u2", "u8", "f2", "f4", "bool"])
def test_hdf5_is_read_equal(tmp_path: Path, options: dict[str, Any], dtype: str) -> None:
    data = (DATA % 2000).astype(dtype)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("volumes/raw", data=data, **options)
    check(f"{tmp_path}/a.h5::/volumes/raw", data)
    check(f"{tmp_path}/a.h5/volumes/raw", data)
    check(f"{tmp_path}/a.h5", data)


def test_hdf5_attributes_place_the_dataset(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.hdf", "w") as file:
        dataset = file.create_dataset("raw", data=DATA)
        dataset.attrs["resolution"] = (40.0, 4.0, 4.6)
        dataset.attrs["offset"] = (120, 0, -2.3)
    meta = read_array_meta(f"{tmp_path}/a.hdf::raw")
    assert meta.voxel_size_nm == (40, 4, 4.6)
    assert meta.corner_nm == (120, 0, -2.3)


def test_hdf5_element_size_is_in_micrometres(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("raw", data=DATA).attrs["element_size_um"] = np.array([0.05, 0.004, 0.004])
    assert read_array_meta(tmp_path / "a.h5").voxel_size_nm == (50, 4, 4)


def test_hdf5_group_of_levels_is_a_pyramid(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, size in (("s0", 4.0), ("s1", 8.0)):
            file.create_dataset(f"em/{name}", data=DATA).attrs["resolution"] = [size] * 3
    assert [meta.voxel_size_nm[0] for meta in list_levels(f"{tmp_path}/a.h5::em")] == [4, 8]


def test_hdf5_with_several_datasets_lists_them(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["raw"], file["labels"] = DATA, DATA
    with pytest.raises(VolumeNotFoundError, match="labels, raw"):
        open_levels(tmp_path / "a.h5")
    with pytest.raises(VolumeNotFoundError, match="did you mean 'raw'"):
        open_levels(f"{tmp_path}/a.h5::/rav")


def test_hdf5_of_names_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["names"] = np.full((2, 2, 2), b"x", dtype="S3")
    with pytest.raises(FormatError, match="expected numbers"):
        open_levels(f"{tmp_path}/a.h5::names")


def test_file_that_is_not_hdf5_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.h5").write_text("no")
    with pytest.raises(FormatError, match="not a readable HDF5 file"):
        open_levels(tmp_path / "a.h5")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "zlib"},
        {"compression": "zlib", "predictor": True},
        {"tile": (16, 32)},
        {"tile": (16, 16), "compression": "zlib"},
        {"rowsperstrip": 7},
        {"byteorder": ">"},
        {"byteorder": ">", "compression": "zlib"},
        {"bigtiff": True},
        {"ome": True, "metadata": {"axes": "ZYX"}},
        {"imagej": True, "metadata": {"axes": "ZYX"}},
    ],
    ids=lambda options: "-".join(map(str, options.values())) or "plain",
)
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4"])
def test_tiff_is_read_equal(tmp_path: Path, options: dict[str, Any], dtype: str) -> None:
    if dtype == "f4" and options.get("predictor"):
        pytest.importorskip("imagecodecs", reason="needs the tiff extra")
    data = DATA.astype(dtype)
    tifffile.imwrite(tmp_path / "a.tif", data, photometric="minisblack", **options)
    check(tmp_path / "a.tif", data)


@pytest.mark.parametrize("compression", ["lzw", "zstd", "jpeg2000", "packbits"])
def test_tiff_with_rarer_compression_is_read_equal(tmp_path: Path, compression: str) -> None:
    pytest.importorskip("imagecodecs")
    tifffile.imwrite(tmp_path / "a.tif", DATA, photometric="minisblack", compression=compression)
    check(tmp_path / "a.tif", tifffile.imread(tmp_path / "a.tif"))


@pytest.mark.parametrize("axes", ["CZYX", "ZCYX"])
def test_tiff_channels_come_first(tmp_path: Path, axes: str) -> None:
    data = np.stack([DATA, DATA + 1, DATA + 2])
    stored = data if axes == "CZYX" else np.moveaxis(data, 0, 1)
    tifffile.imwrite(
        tmp_path / "a.ome.tif", stored, metadata={"axes": axes}, photometric="minisblack", compression="zlib"
    )
    check(tmp_path / "a.ome.tif", data)
    check(tmp_path / "a.ome.tif", data[1], select={"c": 1})


def test_tiff_colours_are_a_channel_axis(tmp_path: Path) -> None:
    data = (np.stack([DATA, DATA + 1, DATA + 2], axis=-1) % 256).astype("u1")
    tifffile.imwrite(tmp_path / "a.tif", data, photometric="rgb")
    check(tmp_path / "a.tif", np.moveaxis(data, -1, 0))


def test_ome_tiff_sizes_are_in_their_units(tmp_path: Path) -> None:
    metadata = {
        "axes": "ZYX",
        "PhysicalSizeX": 0.004,
        "PhysicalSizeY": 4.6,
        "PhysicalSizeYUnit": "nm",
        "PhysicalSizeZ": 0.05,
    }
    tifffile.imwrite(tmp_path / "a.ome.tif", DATA, metadata=metadata)
    meta = read_array_meta(tmp_path / "a.ome.tif")
    assert meta.voxel_size_nm == (50, 4.6, 4)
    assert meta.corner_nm == (0, 0, 0)


def test_imagej_sizes_are_in_their_unit(tmp_path: Path) -> None:
    metadata = {"axes": "ZYX", "spacing": 0.05, "unit": "um"}
    tifffile.imwrite(tmp_path / "a.tif", DATA, imagej=True, resolution=(1 / 0.004, 1 / 0.0046), metadata=metadata)
    assert read_array_meta(tmp_path / "a.tif").voxel_size_nm == pytest.approx((50, 4.6, 4), rel=1e-6)


def test_tiff_pyramid_has_its_levels(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.ome.tif", ome=True) as file:
        metadata = {
            "axes": "ZYX",
            "PhysicalSizeX": 4,
            "PhysicalSizeXUnit": "nm",
            "PhysicalSizeY": 4,
            "PhysicalSizeYUnit": "nm",
        }
        file.write(DATA, subifds=1, tile=(16, 16), metadata={**metadata, "PhysicalSizeZ": 0.04})
        file.write(DATA[:, ::2, ::2], subfiletype=1, tile=(16, 16))
    fine, coarse = list_levels(tmp_path / "a.ome.tif")
    assert fine.voxel_size_nm == (40, 4, 4)
    assert coarse.voxel_size_nm == (40, 8, 8)
    levels = open_levels(tmp_path / "a.ome.tif").levels
    np.testing.assert_array_equal(levels[1].read(Box.of_shape((7, 20, 25))), DATA[:, ::2, ::2])


def test_folder_of_planes_is_a_stack_in_numeric_order(tmp_path: Path) -> None:
    for z, plane in enumerate(DATA):
        tifffile.imwrite(tmp_path / f"plane{z + 7}.tif", plane, compression="zlib")
    check(tmp_path)


def test_plane_of_another_shape_is_named(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "0.tif", DATA[0])
    tifffile.imwrite(tmp_path / "1.tif", DATA[0, :5])
    with pytest.raises(FormatError, match=r"1\.tif"):
        open_levels(tmp_path).levels[0].read(Box((0, 0, 0), (2, 4, 4)))


def test_flat_image_is_not_a_volume(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", DATA[0])
    with pytest.raises(FormatError, match="expected the space axes"):
        open_levels(tmp_path / "a.tif")


def test_cut_off_tiff_is_an_error(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", DATA)
    whole = (tmp_path / "a.tif").read_bytes()
    (tmp_path / "a.tif").write_bytes(whole[: len(whole) // 2])
    with pytest.raises((FormatError, ChunkReadError)):
        open_levels(tmp_path / "a.tif").levels[0].read(Box.of_shape(DATA.shape))
