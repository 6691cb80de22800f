"""Stored bytes are passed on untouched where they are valid as they are, and encoded again where they are not."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorstore as ts

from chunkloom import Pipeline, open_volume, ops

from .conftest import read_with_tensorstore
from .test_app import ask

ARRAY = np.random.default_rng(2).integers(0, 50, (20, 33, 17)).astype(np.uint16)


def store(path, driver, **metadata):
    spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(path)}, "metadata": metadata}
    made = ts.open(spec, create=True, dtype="uint16" if driver == "n5" else None).result()
    made.write(ARRAY.transpose() if driver == "n5" else ARRAY).result()
    return path


def zarr2(path, compressor, dtype="<u2", order="C"):
    return store(
        path,
        "zarr",
        shape=[20, 33, 17],
        chunks=[10, 10, 10],
        dtype=dtype,
        order=order,
        compressor=compressor,
        fill_value=0,
        dimension_separator="/",
    )


BLOSC = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}


@pytest.mark.parametrize("word", ["zarr2", "zarr3"])
@pytest.mark.parametrize("compressor", [BLOSC, {"id": "zstd", "level": 3}, {"id": "gzip", "level": 5}, None], ids=str)
def test_zarr_chunks_are_passed_on_in_both_versions(serve, tmp_path, word, compressor):
    path = zarr2(tmp_path / "a.zarr", compressor)
    server = serve({"a": Pipeline(open_volume(path))})
    key = "1/3/0"
    body = ask(server, f"/a/{word}/s0/{'c/' if word == 'zarr3' else ''}{key}")[2]
    assert body == (path / key).read_bytes()
    assert np.array_equal(read_with_tensorstore(f"{server.url}/a/{word}/s0", word), ARRAY)


def test_n5_blocks_are_passed_on(serve, tmp_path):
    path = store(
        tmp_path / "a.n5" / "s0",
        "n5",
        dimensions=[17, 33, 20],
        blockSize=[10, 10, 10],
        dataType="uint16",
        compression={"type": "gzip"},
    )
    server = serve({"a": Pipeline(open_volume(path))})
    assert ask(server, "/a/n5/s0/0/3/1")[2] == (path / "0/3/1").read_bytes()
    assert np.array_equal(read_with_tensorstore(f"{server.url}/a/n5/s0", "n5"), ARRAY)
    assert np.array_equal(read_with_tensorstore(f"{server.url}/a/zarr3/s0", "zarr3"), ARRAY)


@pytest.mark.parametrize(
    ("change", "codec"),
    [({"dtype": ">u2"}, None), ({"order": "F"}, None), ({}, "gzip")],
    ids=["big endian", "F order", "another codec asked for"],
)
def test_what_differs_is_encoded_again(serve, tmp_path, change, codec):
    path = zarr2(tmp_path / "a.zarr", {"id": "zstd", "level": 1}, **change)
    server = serve({"a": Pipeline(open_volume(path))}, codec=codec)
    assert ask(server, "/a/zarr2/s0/1/3/0")[2] != (path / "1/3/0").read_bytes()
    assert np.array_equal(read_with_tensorstore(f"{server.url}/a/zarr2/s0", "zarr2"), ARRAY)


def test_ops_are_never_passed_over(serve, tmp_path):
    path = zarr2(tmp_path / "a.zarr", BLOSC)
    server = serve({"a": Pipeline(open_volume(path), [ops.Invert()])})
    assert np.array_equal(read_with_tensorstore(f"{server.url}/a/zarr2/s0", "zarr2"), 65535 - ARRAY)


def test_a_missing_chunk_is_404_and_read_as_fill(serve, tmp_path):
    path = zarr2(tmp_path / "a.zarr", BLOSC)
    (path / "0/0/0").unlink()
    server = serve({"a": Pipeline(open_volume(path))})
    status, _, _ = ask(server, "/a/zarr2/s0/0/0/0")
    assert status == 404
    read = read_with_tensorstore(f"{server.url}/a/zarr2/s0", "zarr2")
    assert not read[:10, :10, :10].any()
    assert np.array_equal(read[10:], ARRAY[10:])


def test_a_missing_chunk_of_another_fill_value_is_computed(serve, tmp_path):
    path = zarr2(tmp_path / "a.zarr", BLOSC)
    text = (path / ".zarray").read_text()
    (path / ".zarray").write_text(text.replace('"fill_value":0', '"fill_value":7'))
    assert '"fill_value":7' in (path / ".zarray").read_text()
    (path / "0/0/0").unlink()
    server = serve({"a": Pipeline(open_volume(path))})
    read = read_with_tensorstore(f"{server.url}/a/zarr3/s0", "zarr3")
    assert (read[:10, :10, :10] == 7).all()


def test_a_broken_chunk_is_500_never_fill(serve, tmp_path):
    path = zarr2(tmp_path / "a.zarr", BLOSC)
    (path / "0/0/0").write_bytes(b"not blosc")
    server = serve({"a": Pipeline(open_volume(path), [ops.Invert()])})
    status, _, body = ask(server, "/a/zarr2/s0/0/0/0")
    assert status == 500
    assert b"a/0/0.0.0" in body


def test_what_a_server_answers_for_missing_things(serve, tmp_path, shared):
    path = zarr2(tmp_path / "a.zarr", BLOSC)
    (path / "0/0/0").unlink()
    server = serve({"vol": Pipeline(open_volume(path))})
    rows = json.loads((shared / "cases/http-missing-chunk/expected.json").read_text())["as_server"]
    for row in rows:
        below = row["get"].removeprefix("vol/")
        status, _, _ = ask(server, f"/vol/zarr2/{below}")
        expected = row["status"] if isinstance(row["status"], list) else [row["status"]]
        # Our groups always have attributes: the volume's own multiscales.
        assert status in expected, row["get"]
