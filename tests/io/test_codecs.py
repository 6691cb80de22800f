"""The layer over numcodecs: what tensorstore refuses, written by zarr-python, read equal."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest

from chunkloom.errors import ChunkReadError, FormatError
from chunkloom.geometry import Box
from chunkloom.io import open_levels, read_array_meta

zarr = pytest.importorskip("zarr")

SHAPE = (5, 6, 9)


def read_all(path: Path) -> np.ndarray:
    array = open_levels(path).levels[0]
    return array.read(Box.of_shape(array.meta.shape[-3:]))


def ramp(dtype: str) -> np.ndarray:
    return (np.arange(np.prod(SHAPE)).reshape(SHAPE) * 3 % 97).astype(dtype)


V2 = {
    "delta": ("i4", [numcodecs.Delta("i4")], numcodecs.Zlib()),
    "delta-narrow": ("i8", [numcodecs.Delta("i8", astype="i2")], None),
    "delta-big-endian": (">i4", [numcodecs.Delta(">i4")], numcodecs.Blosc()),
    "fixedscaleoffset": ("f8", [numcodecs.FixedScaleOffset(offset=0, scale=1, dtype="f8", astype="u1")], None),
    "astype": ("f8", [numcodecs.AsType("f4", "f8")], numcodecs.Zstd()),
    "quantize": ("f4", [numcodecs.Quantize(3, "f4")], numcodecs.GZip()),
    "packbits": ("bool", [numcodecs.PackBits()], numcodecs.BZ2()),
    "shuffle": ("u4", [numcodecs.Shuffle(4)], numcodecs.Zlib()),
    "two-filters": ("i4", [numcodecs.Delta("i4"), numcodecs.Shuffle(4)], numcodecs.LZMA()),
    "crc32": ("u2", [numcodecs.CRC32()], None),
    "lz4": ("u2", [], numcodecs.LZ4()),
    "lzma": ("u2", [], numcodecs.LZMA()),
    "zstd-checksum": ("u2", [], numcodecs.Zstd(checksum=True)),
    "blosc-autoshuffle": ("u2", [], numcodecs.Blosc(shuffle=-1)),
    "blosc-bitshuffle": ("u2", [], numcodecs.Blosc("lz4hc", shuffle=2)),
    "blosc-blosclz": ("u2", [], numcodecs.Blosc("blosclz")),
    "blosc-zlib": ("u2", [], numcodecs.Blosc("zlib")),
}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", V2)
def test_v2_codec_is_read_equal(tmp_path: Path, name: str, order: str) -> None:
    dtype, filters, compressor = V2[name]
    path = tmp_path / "a.zarr"
    data = ramp(dtype)
    array = zarr.create_array(
        path,
        shape=SHAPE,
        chunks=(2, 4, 4),
        dtype=dtype,
        zarr_format=2,
        filters=filters or None,
        compressors=compressor,
        order=order,
    )
    array[...] = data
    np.testing.assert_array_equal(read_all(path), array[...])
    np.testing.assert_array_equal(array[...], data)


V3 = {
    "delta": {"filters": [{"name": "numcodecs.delta", "configuration": {"dtype": "<i4"}}]},
    "fixedscaleoffset": {
        "filters": [
            {
                "name": "numcodecs.fixedscaleoffset",
                "configuration": {"dtype": "<i4", "astype": "<i2", "offset": 0, "scale": 1},
            }
        ]
    },
    "lz4": {"compressors": [{"name": "numcodecs.lz4", "configuration": {}}]},
    "zlib": {"compressors": [{"name": "numcodecs.zlib", "configuration": {"level": 1}}]},
    "shuffle-bz2": {
        "compressors": [
            {"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}},
            {"name": "numcodecs.bz2", "configuration": {"level": 1}},
        ]
    },
    "delta-crc32c-zstd": {
        "filters": [{"name": "numcodecs.delta", "configuration": {"dtype": "<i4"}}],
        "compressors": [{"name": "crc32c"}, {"name": "zstd", "configuration": {"level": 3, "checksum": True}}],
    },
    "transpose-delta": {
        "filters": [
            {"name": "transpose", "configuration": {"order": [2, 0, 1]}},
            {"name": "numcodecs.delta", "configuration": {"dtype": "<i4"}},
        ]
    },
}


@pytest.mark.parametrize("shards", [None, (4, 8, 8)], ids=["plain", "sharded"])
@pytest.mark.parametrize("name", V3)
@pytest.mark.filterwarnings("ignore")
def test_v3_codec_is_read_equal(tmp_path: Path, name: str, shards: tuple[int, ...] | None) -> None:
    path = tmp_path / "a.zarr"
    data = ramp("i4")
    options: dict[str, Any] = {"shards": shards, **V3[name]}
    array = zarr.create_array(path, shape=SHAPE, chunks=(2, 4, 4), dtype="i4", fill_value=7, **options)
    array[:, :4, :] = data[:, :4, :]  # leaves chunks that are not stored
    np.testing.assert_array_equal(read_all(path), array[...])
    assert (read_all(path)[:, 4:] == 7).all()


def test_pickle_is_never_decoded(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    array = zarr.create_array(path, shape=SHAPE, chunks=SHAPE, dtype="u1", zarr_format=2)
    array[...] = 1
    document = json.loads((path / ".zarray").read_text())
    (path / ".zarray").write_text(json.dumps({**document, "filters": [{"id": "pickle", "protocol": 5}]}))
    with pytest.raises(FormatError, match="'pickle'"):
        open_levels(path)


@pytest.mark.parametrize("codec", ["zlib", "gzip", "bz2", "lzma", "zstd", "blosc", "lz4"])
def test_chunk_that_decodes_to_far_more_than_declared_is_refused(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "a.zarr"
    filters = [{"id": "delta", "dtype": "|u1", "astype": "|u1"}]
    compressor = numcodecs.get_codec({"id": codec})
    zarr.create_array(path, shape=SHAPE, chunks=SHAPE, dtype="u1", zarr_format=2, compressors=compressor)
    document = json.loads((path / ".zarray").read_text())
    (path / ".zarray").write_text(json.dumps({**document, "filters": filters}))
    (path / "0.0.0").write_bytes(bytes(compressor.encode(np.zeros(50_000_000, "u1"))))
    with pytest.raises(ChunkReadError, match=r"0\.0\.0"):
        read_all(path)


@pytest.mark.parametrize("content", [b"", b"short", b"\x1f\x8b" + bytes(30)], ids=["empty", "short", "damaged"])
@pytest.mark.parametrize("filters", [None, [{"id": "delta", "dtype": "|u1"}]], ids=["tensorstore", "numcodecs"])
def test_damaged_chunk_is_an_error_that_names_it(tmp_path: Path, content: bytes, filters: Any) -> None:
    path = tmp_path / "a.zarr"
    zarr.create_array(path, shape=SHAPE, chunks=SHAPE, dtype="u1", zarr_format=2, compressors=numcodecs.GZip())
    document = json.loads((path / ".zarray").read_text())
    (path / ".zarray").write_text(json.dumps({**document, "filters": filters}))
    (path / "0.0.0").write_bytes(content)
    with pytest.raises(ChunkReadError, match=r"0\.0\.0"):
        read_all(path)


def write_n5(path: Path, compression: dict[str, Any], blocks: dict[str, bytes]) -> Path:
    attributes = {"dimensions": [5, 4, 3], "blockSize": [3, 4, 3], "dataType": "uint16", "compression": compression}
    path.mkdir()
    (path / "attributes.json").write_text(json.dumps(attributes))
    for key, content in blocks.items():
        (path / key).parent.mkdir(parents=True, exist_ok=True)
        (path / key).write_bytes(content)
    return path


def n5_block(data: np.ndarray, mode: int = 0) -> tuple[bytes, bytes]:
    """Header and big-endian payload of a block (z, y, x)."""
    header = struct.pack(">HH3I", mode, 3, *reversed(data.shape))
    if mode == 1:
        header += struct.pack(">I", data.size)
    return header, data.astype(">u2").tobytes()


DATA = (np.arange(60).reshape(3, 4, 5) * 11).astype("u2")


@pytest.mark.parametrize("mode", [0, 1], ids=["default", "varlength"])
def test_n5_block_modes_are_read_equal(tmp_path: Path, mode: int) -> None:
    blocks = {}
    for key, part in (("0/0/0", DATA[:, :, :3]), ("1/0/0", DATA[:, :, 3:])):
        header, payload = n5_block(part, mode)
        blocks[key] = header + payload
    np.testing.assert_array_equal(read_all(write_n5(tmp_path / "a.n5", {"type": "raw"}, blocks)), DATA)


def test_n5_lz4_blocks_of_java_are_read_equal(tmp_path: Path) -> None:
    from numcodecs.lz4 import compress

    def stream(payload: bytes) -> bytes:
        packed = bytes(compress(payload))[4:]
        end = b"LZ4Block" + bytes([0x10]) + struct.pack("<III", 0, 0, 0)
        return b"LZ4Block" + bytes([0x26]) + struct.pack("<III", len(packed), len(payload), 0) + packed + end

    blocks = {}
    for key, part in (("0/0/0", DATA[:, :, :3]), ("1/0/0", DATA[:, :, 3:])):
        header, payload = n5_block(part)
        blocks[key] = header + stream(payload)
    path = write_n5(tmp_path / "a.n5", {"type": "lz4", "blockSize": 65536}, blocks)
    assert read_array_meta(path).codec == "lz4"
    np.testing.assert_array_equal(read_all(path), DATA)


def test_n5_zlib_blocks_are_read_equal(tmp_path: Path) -> None:
    header, payload = n5_block(DATA[:, :, :3])
    compression = {"type": "gzip", "useZlib": True, "level": 5}
    path = write_n5(tmp_path / "a.n5", compression, {"0/0/0": header + zlib.compress(payload)})
    found = read_all(path)
    np.testing.assert_array_equal(found[:, :, :3], DATA[:, :, :3])
    assert (found[:, :, 3:] == 0).all()
