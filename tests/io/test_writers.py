"""Every writer's variants of a format, against the array that was written."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore as ts

from chunkloom.errors import FormatError
from chunkloom.geometry import Box
from chunkloom.io import open_levels, read_array_meta

SHAPE = (9, 20, 21)


def data_of(dtype: str) -> np.ndarray:
    return (np.arange(np.prod(SHAPE)).reshape(SHAPE) // 3 * 7 % 120).astype(dtype)


def read_all(path: Path) -> np.ndarray:
    array = open_levels(path).levels[0]
    np.testing.assert_array_equal(
        array.read(Box((2, 3, 5), (8, 19, 20))), array.read(Box.of_shape(array.meta.shape[-3:]))[..., 2:8, 3:19, 5:20]
    )
    return array.read(Box.of_shape(array.meta.shape[-3:]))


def write_precomputed(path: Path, data: np.ndarray, encoding: str, **scale: Any) -> Path:
    """`data` is (z, y, x) or (c, z, y, x)."""
    turned = (data[np.newaxis] if data.ndim == 3 else data).T
    spec: dict[str, Any] = {
        "driver": "neuroglancer_precomputed",
        "kvstore": {"driver": "file", "path": f"{path}/"},
        "multiscale_metadata": {"type": "segmentation" if encoding == "compressed_segmentation" else "image"},
        "scale_metadata": {
            "resolution": [4, 4, 40],
            "encoding": encoding,
            "chunk_size": [8, 8, 4],
            "voxel_offset": [3, -5, 7],
            "size": list(turned.shape[:3]),
            **scale,
        },
    }
    spec["multiscale_metadata"] |= {"num_channels": turned.shape[3], "data_type": data.dtype.name}
    store = ts.open(spec, create=True).result()
    store[ts.d[:].translate_to[0]].write(turned).result()
    return path


SHARDING = {
    "@type": "neuroglancer_uint64_sharded_v1",
    "preshift_bits": 1,
    "minishard_bits": 2,
    "shard_bits": 3,
    "hash": "identity",
    "minishard_index_encoding": "gzip",
    "data_encoding": "gzip",
}


@pytest.mark.parametrize("sharding", [None, SHARDING], ids=["files", "sharded"])
@pytest.mark.parametrize(
    ("encoding", "dtype", "more"),
    [
        ("raw", "uint8", {}),
        ("raw", "float32", {}),
        ("raw", "uint64", {}),
        ("png", "uint16", {}),
        ("compressed_segmentation", "uint32", {"compressed_segmentation_block_size": [4, 4, 4]}),
        ("compressed_segmentation", "uint64", {"compressed_segmentation_block_size": [3, 5, 2]}),
    ],
    ids=["raw8", "raw-float", "raw64", "png", "cseg32", "cseg64"],
)
def test_precomputed_is_read_equal(
    tmp_path: Path, encoding: str, dtype: str, more: dict[str, Any], sharding: Any
) -> None:
    data = data_of(dtype)
    path = write_precomputed(tmp_path / "a", data, encoding, **more, **({"sharding": sharding} if sharding else {}))
    np.testing.assert_array_equal(read_all(path), data)
    assert read_array_meta(path).corner_nm == (280, -20, 12)


def test_precomputed_jpeg_is_what_its_decoder_gives(tmp_path: Path) -> None:
    path = write_precomputed(tmp_path / "a", data_of("uint8"), "jpeg")
    spec = {"driver": "neuroglancer_precomputed", "kvstore": {"driver": "file", "path": f"{path}/"}}
    wanted = ts.open(spec, open=True, read=True).result().read().result()[..., 0].T
    np.testing.assert_array_equal(read_all(path), wanted)


def test_precomputed_channels_come_first(tmp_path: Path) -> None:
    data = np.stack([data_of("uint8"), data_of("uint8") + 1])
    np.testing.assert_array_equal(read_all(write_precomputed(tmp_path / "a", data, "raw")), data)


@pytest.mark.parametrize("encoding", ["raw", "compressed_segmentation"])
def test_precomputed_chunks_gzipped_one_by_one_are_read_equal(tmp_path: Path, encoding: str) -> None:
    data = data_of("uint32")
    more = {"compressed_segmentation_block_size": [4, 4, 4]} if encoding != "raw" else {}
    path = write_precomputed(tmp_path / "a", data, encoding, **more)
    for file in list((path / "4_4_40").iterdir()):
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    np.testing.assert_array_equal(read_all(path), data)


def test_precomputed_chunks_in_brotli_are_named_and_not_zeros(tmp_path: Path) -> None:
    path = write_precomputed(tmp_path / "a", data_of("uint8"), "raw")
    for file in list((path / "4_4_40").iterdir()):
        file.rename(file.with_name(f"{file.name}.br"))
    with pytest.raises(FormatError, match=r"\.br"):
        open_levels(path)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint64", "float32", "float64"])
@pytest.mark.parametrize(
    "compression",
    [
        {"type": "raw"},
        {"type": "gzip", "level": 1},
        {"type": "bzip2"},
        {"type": "xz"},
        {"type": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2},
        {"type": "zstd", "level": 3},
    ],
    ids=lambda compression: compression["type"],
)
def test_n5_is_read_equal(tmp_path: Path, compression: dict[str, Any], dtype: str) -> None:
    data = data_of(dtype)
    spec = {
        "driver": "n5",
        "kvstore": {"driver": "file", "path": f"{tmp_path}/a.n5/s0/"},
        "metadata": {"blockSize": [8, 8, 4], "compression": compression},
    }
    ts.open(spec, create=True, dtype=dtype, shape=data.T.shape).result().write(data.T).result()
    found = read_all(tmp_path / "a.n5" / "s0")
    assert found.dtype == data.dtype
    np.testing.assert_array_equal(found, data)


@pytest.mark.parametrize("dtype", ["bool", "uint16", "float32", "uint64"])
@pytest.mark.parametrize(
    "codecs",
    [
        [{"name": "bytes", "configuration": {"endian": "big"}}],
        [
            {"name": "transpose", "configuration": {"order": [2, 0, 1]}},
            {"name": "bytes", "configuration": {"endian": "little"}},
        ],
        [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "gzip", "configuration": {"level": 6}},
            {"name": "crc32c"},
        ],
        [
            {"name": "transpose", "configuration": {"order": [2, 1, 0]}},
            {
                "name": "sharding_indexed",
                "configuration": {
                    "chunk_shape": [4, 2, 2],
                    "codecs": [
                        {"name": "transpose", "configuration": {"order": [1, 2, 0]}},
                        {"name": "bytes", "configuration": {"endian": "big"}},
                        {"name": "zstd", "configuration": {"level": 1}},
                    ],
                    "index_location": "start",
                },
            },
        ],
    ],
    ids=["big", "transpose", "gzip-crc32c", "sharded-transposed"],
)
def test_zarr3_of_tensorstore_is_read_equal(tmp_path: Path, codecs: list[dict[str, Any]], dtype: str) -> None:
    data = data_of(dtype)
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": f"{tmp_path}/a/"},
        "metadata": {"codecs": codecs, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4, 8]}}},
    }
    ts.open(spec, create=True, dtype=dtype, shape=data.shape).result().write(data).result()
    np.testing.assert_array_equal(read_all(tmp_path / "a"), data)


@pytest.mark.parametrize("fill", [float("nan"), float("inf"), -1.5])
@pytest.mark.parametrize("version", [2, 3])
def test_missing_chunks_are_the_fill_value(tmp_path: Path, fill: float, version: int) -> None:
    import zarr

    zarr.create_array(tmp_path / "a", shape=SHAPE, chunks=(4, 8, 8), dtype="f4", fill_value=fill, zarr_format=version)
    np.testing.assert_array_equal(read_all(tmp_path / "a"), np.full(SHAPE, fill, "f4"))


@pytest.mark.parametrize("version", [2, 3])
def test_fill_of_64_bits_is_exact(tmp_path: Path, version: int) -> None:
    import zarr

    zarr.create_array(tmp_path / "a", shape=SHAPE, chunks=SHAPE, dtype="u8", fill_value=2**64 - 1, zarr_format=version)
    assert (read_all(tmp_path / "a") == np.uint64(2**64 - 1)).all()
