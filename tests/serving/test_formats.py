"""What is served is read equal by other readers."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import numpy as np
import pytest

from chunkloom import Pipeline, array_volume

from .conftest import READERS, read_with_tensorstore
from .test_app import ask

RNG = np.random.default_rng(3)
SHAPE = (37, 50, 41)


def values(dtype: str, shape=SHAPE) -> np.ndarray:
    if dtype == "bool":
        return RNG.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind == "f":
        return RNG.normal(0, 100, shape).astype(dtype)
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


@pytest.mark.parametrize("reader", list(READERS))
@pytest.mark.parametrize("word", ["zarr2", "zarr3"])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "uint64", "float16", "float32", "float64"])
def test_every_dtype_is_read_equal(serve, reader, word, dtype):
    array = values(dtype)
    server = serve({"a": array_volume(array, chunk=(16, 20, 24))})
    assert np.array_equal(READERS[reader](f"{server.url}/a/{word}/s0", word), array)


@pytest.mark.parametrize("reader", list(READERS))
@pytest.mark.parametrize("word", ["zarr2", "zarr3"])
@pytest.mark.parametrize("codec", ["none", "zstd", "blosc", "gzip"])
def test_every_codec_is_read_equal(serve, reader, word, codec):
    array = values("uint16")
    server = serve({"a": array_volume(array, chunk=(16, 20, 24))}, codec=codec)
    assert np.array_equal(READERS[reader](f"{server.url}/a/{word}/s0", word), array)


@pytest.mark.parametrize("reader", list(READERS))
@pytest.mark.parametrize("word", ["zarr2", "zarr3"])
def test_channels_come_first_and_every_level_is_read_equal(serve, reader, word):
    array = values("uint8", (3, 20, 33, 21))
    volume = Pipeline(array_volume(array, voxel_size_nm=(8, 8, 8), chunk=(10, 10, 10)))
    server = serve({"a": volume})
    for i in range(len(volume.levels)):
        assert np.array_equal(READERS[reader](f"{server.url}/a/{word}/s{i}", word), volume.read(level=i))


@pytest.mark.parametrize("word", ["zarr2", "zarr3"])
def test_the_ome_metadata_puts_the_centre_of_voxel_0(serve, word):
    volume = Pipeline(
        array_volume(values("uint8"), voxel_size_nm=(50, 4.6, 3.24), corner_nm=(-25, -2.3, 100), chunk=(37, 25, 25))
    )
    server = serve({"a": volume})
    file = ".zattrs" if word == "zarr2" else "zarr.json"
    with urllib.request.urlopen(f"{server.url}/a/{word}/{file}") as answer:
        data = json.load(answer)
    multiscales = data["multiscales"][0] if word == "zarr2" else data["attributes"]["ome"]["multiscales"][0]
    assert [axis["unit"] for axis in multiscales["axes"]] == ["nanometer"] * 3
    first, second = (d["coordinateTransformations"] for d in multiscales["datasets"][:2])
    assert first[0]["scale"] == [50, 4.6, 3.24]
    assert np.allclose(first[1]["translation"], [0, 0, 101.62], rtol=0, atol=1e-9)
    assert np.allclose(second[1]["translation"], [0, 2.3, 103.24], rtol=0, atol=1e-9)


@pytest.mark.parametrize("codec", ["none", "zstd", "blosc", "gzip"])
@pytest.mark.parametrize("word", ["n5", "precomputed"])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint64", "float32"])
def test_n5_and_precomputed_are_read_equal(serve, word, dtype, codec):
    array = values(dtype)
    server = serve({"a": array_volume(array, chunk=(16, 20, 24), corner_nm=(-5, 3.5, 100))}, codec=codec)
    assert np.array_equal(read_with_tensorstore(f"{server.url}/a/{word}/s0", word), array)


@pytest.mark.parametrize("word", ["n5", "precomputed"])
def test_n5_and_precomputed_have_channels_and_levels(serve, word):
    array = values("uint8", (3, 20, 33, 21))
    volume = Pipeline(array_volume(array, voxel_size_nm=(8, 8, 8), chunk=(10, 10, 10)))
    server = serve({"a": volume})
    for i in range(len(volume.levels)):
        assert np.array_equal(read_with_tensorstore(f"{server.url}/a/{word}/s{i}", word), volume.read(level=i))


@pytest.mark.parametrize("word", ["zarr2", "zarr3", "n5", "precomputed"])
def test_every_format_says_the_same_place_and_voxel_size_to_our_own_reader(serve, word):
    from chunkloom import open_volume

    array = values("uint8", (20, 33, 21))
    made = array_volume(array, voxel_size_nm=(50, 4.6, 3.24), corner_nm=(-25, 1.7, 100), chunk=(10, 10, 10))
    server = serve({"a": Pipeline(made)})
    read = open_volume(f"{server.url}/a/{word}")
    assert np.allclose(read.levels[0].grid.voxel_size_nm, (50, 4.6, 3.24), rtol=1e-9)
    assert np.allclose(read.levels[0].grid.corner_nm, (-25, 1.7, 100), rtol=0, atol=1e-9)
    assert np.allclose(read.levels[1].grid.corner_nm, (-25, 1.7, 100), rtol=0, atol=1e-9)
    assert np.array_equal(read.read(), array)


@pytest.mark.parametrize(
    ("word", "dtype", "cast"),
    [
        ("n5", "float16", "float32"),
        ("n5", "bool", "uint8"),
        ("precomputed", "int64", "uint64"),
        ("precomputed", "bool", "uint8"),
    ],
)
def test_a_dtype_the_format_lacks_is_refused_with_the_cast_to_add(serve, word, dtype, cast):
    server = serve({"a": array_volume(values(dtype))})
    file = "info" if word == "precomputed" else "attributes.json"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{server.url}/a/{word}/{file}")
    assert f"cast:dtype={cast}" in refused.value.read().decode()


def test_metadata_is_strict_json_with_the_fill_value_of_the_dtype(serve):
    server = serve({"a": array_volume(values("bool"))})
    with urllib.request.urlopen(f"{server.url}/a/zarr2/s0/.zarray") as answer:
        assert json.load(answer)["fill_value"] is False


@pytest.mark.parametrize("corner", [(0, 0, 0), (16, -8, 4), (16, -8, 3.7)], ids=str)
def test_a_corner_that_precomputed_does_not_hold_is_said_once(serve, caplog, corner):
    volume = array_volume(np.zeros((8, 8, 8), np.uint8), voxel_size_nm=(8, 8, 4), corner_nm=corner)
    server = serve({"a": volume})
    for _ in range(2):
        assert ask(server, "/a/precomputed/info")[0] == 200
    assert caplog.text.count("not of whole voxels") == (corner[2] == 3.7)
