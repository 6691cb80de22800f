"""A stored chunk that was cut, emptied or replaced, and a folder that is gone, are errors: never fill."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import tensorstore as ts

from chunkloom import Pipeline, open_volume, ops

from .test_app import ask

SHAPE, CHUNK = (20, 20, 20), (10, 10, 10)
ARRAY = np.random.default_rng(2).integers(0, 50, SHAPE).astype(np.uint16)


def zarr2(path, compressor):
    metadata = {"shape": SHAPE, "chunks": CHUNK, "dtype": "<u2", "compressor": compressor, "fill_value": 0}
    return "zarr", {**metadata, "order": "C", "dimension_separator": "/"}, "1/1/0"


def n5(path, compression):
    metadata = {"dimensions": SHAPE, "blockSize": CHUNK, "dataType": "uint16", "compression": compression}
    return "n5", metadata, "0/1/1"


STORED = {
    "raw": (zarr2, None),
    "blosc": (zarr2, {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}),
    "zstd": (zarr2, {"id": "zstd", "level": 3}),
    "gzip": (zarr2, {"id": "gzip", "level": 5}),
    "n5 raw": (n5, {"type": "raw"}),
    "n5 gzip": (n5, {"type": "gzip"}),
    "n5 zstd": (n5, {"type": "zstd", "level": 1}),
}
DAMAGE = {
    "cut": lambda raw: raw[: len(raw) // 2],
    "empty": lambda raw: b"",
    "one byte": lambda raw: raw[:1],
    "replaced": lambda raw: b"\x00" * 7,
}


@pytest.fixture(params=STORED)
def stored(request, tmp_path):
    """A store and one chunk's file."""
    make, codec = STORED[request.param]
    path = tmp_path / ("a.n5" if make is n5 else "a.zarr") / "s0"
    driver, metadata, key = make(path, codec)
    spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(path)}, "metadata": metadata}
    ts.open(spec, create=True).result().write(ARRAY.transpose() if driver == "n5" else ARRAY).result()
    return path, path / key, "n5" if make is n5 else "zarr2"


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_chunk_is_500_passed_on_and_computed(serve, stored, damage):
    path, chunk, word = stored
    whole = chunk.read_bytes()
    chunk.write_bytes(DAMAGE[damage](whole))
    volume = open_volume(path)
    server = serve({"a": Pipeline(volume), "b": Pipeline(volume, [ops.Invert()])})
    key = "1/1/0" if word == "zarr2" else "0/1/1"
    for name in "ab":
        status, _, body = ask(server, f"/{name}/{word}/s0/{key}")
        assert status == 500, body
        assert f"{name}/0/1.1.0".encode() in body
        assert ask(server, f"/{name}/{word}/s0/{key}", method="HEAD")[0] in (200, 500)
    assert ask(server, f"/a/{word}/s0/{key}", method="HEAD")[0] == 500
    chunk.write_bytes(whole)
    for name in "ab":  # the failure was not kept
        assert ask(server, f"/{name}/{word}/s0/{key}")[0] == 200


def test_a_folder_that_is_gone_is_no_fill(serve, stored):
    path, _, word = stored
    volume = open_volume(path)
    server = serve({"a": Pipeline(volume), "b": Pipeline(volume, [ops.Invert()])})
    moved = path.with_name("moved")
    path.rename(moved)
    for name in "ab":
        status, _, body = ask(server, f"/{name}/{word}/s0/0/0/0")
        assert status == 500, body
        assert b"is gone" in body
    shutil.move(moved, path)
    for name in "ab":
        assert ask(server, f"/{name}/{word}/s0/0/0/0")[0] == 200
