"""Opened arrays: stored bytes for sending on, identities, threads."""

from __future__ import annotations

import json
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numcodecs
import numpy as np
import pytest
import tensorstore as ts
import zarr

from chunkloom.errors import ParameterError
from chunkloom.geometry import Box
from chunkloom.io import open_levels

DATA = (np.arange(9 * 20 * 21).reshape(9, 20, 21) * 31 % 60013).astype("u2")
CHUNK = (4, 8, 8)


def chunk_of(index: tuple[int, ...], data: np.ndarray = DATA) -> np.ndarray:
    """The chunk at `index`, padded with 0 to its full size."""
    box = Box.of_chunk(index, CHUNK)
    padded = np.pad(data, [(0, 0)] * (data.ndim - 3) + [(0, c) for c in CHUNK])
    return padded[(..., *box.slices())]


INDICES = [(0, 0, 0), (1, 2, 0), (2, 2, 2)]


@pytest.mark.parametrize("index", INDICES)
def test_stored_zarr2_chunk_is_its_file(tmp_path: Path, index: tuple[int, ...]) -> None:
    zarr.create_array(
        tmp_path / "a", shape=DATA.shape, chunks=CHUNK, dtype=">u2", zarr_format=2, compressors=numcodecs.Zstd()
    )[...] = DATA
    array = open_levels(tmp_path / "a").levels[0]
    layout = array.stored_layout
    assert layout is not None
    assert (layout.format, layout.dtype, layout.order, layout.edge) == ("zarr2", ">u2", "C", "padded")
    assert layout.codec["compressor"]["id"] == "zstd"
    raw = array.stored_chunk(index)
    assert raw is not None
    found = np.frombuffer(numcodecs.Zstd().decode(raw), layout.dtype).reshape(layout.chunk_shape)
    np.testing.assert_array_equal(found, chunk_of(index))


@pytest.mark.parametrize("index", INDICES)
def test_stored_zarr3_chunk_is_its_file(tmp_path: Path, index: tuple[int, ...]) -> None:
    zarr.create_array(tmp_path / "a", shape=DATA.shape, chunks=CHUNK, dtype="u2", compressors=None)[...] = DATA
    array = open_levels(tmp_path / "a").levels[0]
    assert array.stored_layout is not None
    raw = array.stored_chunk(index)
    assert raw is not None
    np.testing.assert_array_equal(np.frombuffer(raw, array.stored_layout.dtype).reshape(CHUNK), chunk_of(index))


@pytest.mark.parametrize("index", INDICES)
def test_stored_n5_block_is_its_file_in_z_y_x(tmp_path: Path, index: tuple[int, ...]) -> None:
    spec = {
        "driver": "n5",
        "kvstore": {"driver": "file", "path": f"{tmp_path}/a.n5/"},
        "metadata": {"blockSize": list(reversed(CHUNK)), "compression": {"type": "raw"}},
    }
    ts.open(spec, create=True, dtype=ts.uint16, shape=DATA.T.shape).result().write(DATA.T).result()
    array = open_levels(tmp_path / "a.n5").levels[0]
    layout = array.stored_layout
    assert layout is not None
    assert (layout.chunk_shape, layout.dtype, layout.edge) == (CHUNK, ">u2", "cropped")
    raw = array.stored_chunk(index)
    assert raw is not None
    size = tuple(reversed(struct.unpack_from(">3I", raw, 4)))
    found = np.frombuffer(raw, ">u2", offset=16).reshape(size)
    np.testing.assert_array_equal(found, chunk_of(index)[Box.of_shape(size).slices()])


@pytest.mark.parametrize("index", INDICES)
def test_stored_precomputed_chunk_is_its_file_in_z_y_x(tmp_path: Path, index: tuple[int, ...]) -> None:
    spec = {
        "driver": "neuroglancer_precomputed",
        "kvstore": {"driver": "file", "path": f"{tmp_path}/a/"},
        "multiscale_metadata": {"type": "image", "data_type": "uint16", "num_channels": 1},
        "scale_metadata": {
            "resolution": [4, 4, 40],
            "encoding": "raw",
            "chunk_size": list(reversed(CHUNK)),
            "size": list(reversed(DATA.shape)),
            "voxel_offset": [5, -3, 2],
        },
    }
    store = ts.open(spec, create=True).result()
    store[ts.d[:].translate_to[0]].write(DATA.T[..., np.newaxis]).result()
    array = open_levels(tmp_path / "a").levels[0]
    assert array.stored_layout is not None
    raw = array.stored_chunk(index)
    assert raw is not None
    size = Box.of_chunk(index, CHUNK).intersect(Box.of_shape(DATA.shape)).shape
    found = np.frombuffer(raw, array.stored_layout.dtype).reshape(size)
    np.testing.assert_array_equal(found, chunk_of(index)[Box.of_shape(size).slices()])


def test_stored_chunk_that_is_not_there_is_none(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "a", shape=DATA.shape, chunks=CHUNK, dtype="u2")
    assert open_levels(tmp_path / "a").levels[0].stored_chunk((0, 0, 0)) is None


def test_selected_channel_has_stored_chunks_when_it_has_files_of_its_own(tmp_path: Path) -> None:
    data = np.stack([DATA, DATA + 1])
    for name, chunks in (("own", (1, *CHUNK)), ("shared", (2, *CHUNK))):
        zarr.create_array(tmp_path / name, shape=data.shape, chunks=chunks, dtype="u2", compressors=None)[...] = data
    array = open_levels(tmp_path / "own", select={"c": 1}).levels[0]
    assert array.stored_layout is not None
    assert array.stored_layout.chunk_shape == CHUNK
    raw = array.stored_chunk((1, 0, 0))
    assert raw is not None
    np.testing.assert_array_equal(np.frombuffer(raw, "<u2").reshape(CHUNK), chunk_of((1, 0, 0), data)[1])
    assert open_levels(tmp_path / "shared", select={"c": 1}).levels[0].stored_layout is None


def test_what_has_no_chunk_files_has_no_stored_layout(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "a", shape=(8, 8, 8), chunks=(4, 4, 4), shards=(8, 8, 8), dtype="u2")[...] = 1
    array = open_levels(tmp_path / "a").levels[0]
    assert array.stored_layout is None
    with pytest.raises(ParameterError, match="no stored chunks"):
        array.stored_chunk((0, 0, 0))


def test_identity_follows_path_selection_and_metadata(tmp_path: Path) -> None:
    for name in "ab":
        zarr.create_array(tmp_path / name, shape=(2, 4, 4, 4), chunks=(1, 4, 4, 4), dtype="u2", zarr_format=2)

    def identity(name: str, channel: int) -> str:
        return open_levels(tmp_path / name, select={"c": channel}).levels[0].identity()

    assert len({identity("a", 0), identity("a", 1), identity("b", 0)}) == 3
    before = identity("a", 0)
    assert identity("a", 0) == before
    document = json.loads((tmp_path / "a/.zarray").read_text())
    (tmp_path / "a/.zarray").write_text(json.dumps({**document, "fill_value": 11}))
    assert identity("a", 0) != before


def test_many_threads_read_the_same_voxels(tmp_path: Path) -> None:
    zarr.create_array(
        tmp_path / "a", shape=DATA.shape, chunks=CHUNK, dtype="u2", zarr_format=2, filters=[numcodecs.Delta("u2")]
    )[...] = DATA
    array = open_levels(tmp_path / "a").levels[0]
    boxes = [Box((z, y, 0), (z + 2, y + 9, 21)) for z in range(7) for y in range(11)]
    with ThreadPoolExecutor(8) as pool:
        for box, found in zip(boxes, pool.map(array.read, boxes), strict=True):
            np.testing.assert_array_equal(found, DATA[box.slices()])
