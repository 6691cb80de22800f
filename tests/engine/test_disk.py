"""Chunks on disk: found again by another process of the same pipeline, bounded, and never wrong."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

from chunkloom import Pipeline, array_volume, open_volume, ops
from chunkloom.engine.cache import ChunkCache
from chunkloom.engine.disk import DiskCache

ARRAY = np.random.default_rng(0).integers(0, 255, (64, 64, 64), np.uint8)


def pipeline(folder, array=ARRAY, low=100):
    """As a process that begins finds it."""
    cache = ChunkCache(1 << 24, DiskCache(folder, 1 << 24))
    return Pipeline(array_volume(array, chunk=(16,) * 3), [ops.Threshold(low=low)], chunk=(16, 16, 16), cache=cache)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint64", "float16", "float64", ">i4"])
@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 3, 4, 5), (1, 1, 1), (0, 3, 3)], ids=str)
def test_what_is_kept_comes_back_as_it_was(tmp_path, dtype, shape):
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    DiskCache(tmp_path, 1 << 20).put(("a", 1), array)
    found = DiskCache(tmp_path, 1 << 20).get(("a", 1))
    assert np.array_equal(found, array)
    assert found.dtype == array.dtype.newbyteorder("=")
    assert not found.flags.writeable
    assert DiskCache(tmp_path, 1 << 20).get(("a", 2)) is None


def test_coarse_chunks_are_not_made_again_by_the_next_process(tmp_path):
    first = pipeline(tmp_path)
    expected = first.read(level=2)
    second = pipeline(tmp_path)
    second.source.read_box = None  # whoever reads the source fails
    assert np.array_equal(second.read(level=2), expected)
    assert second.stages[-1].cache.disk.hits > 0


def test_fine_chunks_are_not_kept_on_disk(tmp_path):
    pipeline(tmp_path).read()
    assert len(DiskCache(tmp_path, 1 << 20)) == 0


@pytest.mark.parametrize("other", [{"array": ARRAY + np.uint8(1)}, {"low": 101}], ids=["data", "parameters"])
def test_another_pipeline_finds_nothing(tmp_path, other):
    pipeline(tmp_path).read(level=1)
    volume = pipeline(tmp_path, **other)
    volume.read(level=1)
    assert volume.stages[-1].cache.disk.hits == 0


def test_chunks_of_data_written_anew_meanwhile_are_others(tmp_path):
    import zarr

    array = zarr.create_array(tmp_path / "a.zarr", shape=ARRAY.shape, chunks=(16,) * 3, dtype="uint8", zarr_format=2)
    array[:] = ARRAY

    def read():
        cache = ChunkCache(1 << 24, DiskCache(tmp_path / "kept", 1 << 24))
        return Pipeline(open_volume(tmp_path / "a.zarr"), [ops.Invert()], cache=cache).read(level=1)

    before = read()
    time.sleep(0.02)
    array[:16, :16, :16] = 0
    after = read()
    assert (after[:8, :8, :8] == 255).all()
    assert np.array_equal(after[8:], before[8:])


def test_the_folder_stays_within_its_limit_and_what_was_used_last_stays(tmp_path):
    array = np.random.default_rng(1).integers(0, 255, 10_000, np.uint8).reshape(10, 10, 100)
    cache = DiskCache(tmp_path, 55_000)
    for i in range(5):
        cache.put(i, array)
        os.utime(cache._path(i), (1_000_000 + i, 1_000_000 + i))
    cache.get(0)
    cache.put(5, array)
    assert cache.used <= 55_000
    assert sum(file.stat().st_size for file in tmp_path.rglob("*.chunk")) == cache.used
    kept = [i for i in range(6) if cache.get(i) is not None]
    assert {0, 5} <= set(kept)
    assert 1 not in kept


def test_a_chunk_larger_than_the_limit_is_not_kept(tmp_path):
    cache = DiskCache(tmp_path, 100)
    cache.put("a", ARRAY)
    assert cache.get("a") is None


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "another file"])
def test_a_damaged_file_is_as_none_and_goes(tmp_path, damage):
    cache = DiskCache(tmp_path, 1 << 20)
    cache.put("a", ARRAY)
    path = cache._path("a")
    data = bytearray(path.read_bytes())
    if damage == "flipped":
        data[len(data) // 2] ^= 1
    path.write_bytes({"cut": data[:-10], "flipped": data, "empty": b"", "another file": b"hello"}[damage])
    assert cache.get("a") is None
    assert not path.exists()
    cache.put("a", ARRAY)
    assert np.array_equal(cache.get("a"), ARRAY)


def test_a_folder_that_cannot_be_written_is_said_once_and_nothing_fails(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    volume = pipeline(tmp_path / "file")
    assert volume.read(level=1).any()
    assert caplog.text.count("cannot be kept") == 1


def test_clearing_deletes_all(tmp_path):
    cache = DiskCache(tmp_path, 1 << 20)
    cache.put("a", ARRAY[:8])
    cache.clear()
    assert (cache.used, len(cache), cache.get("a")) == (0, 0, None)
