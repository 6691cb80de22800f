"""`describe`: the object that `chunkloom inspect --json` prints."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from chunkloom.errors import ParameterError
from chunkloom.io import inspect, multiscales_attrs
from chunkloom.io.inspect import describe


def pyramid(folder: Path) -> Path:
    group = zarr.open_group(folder, mode="w", zarr_format=2)
    for name, step in (("s0", 1), ("s1", 2)):
        data = np.arange((16 // step) ** 3, dtype=">u2").reshape((16 // step,) * 3)
        group.create_array(name, shape=data.shape, chunks=(8, 8, 8), dtype=">u2", compressors=None)[...] = data
    datasets = [("s0", (4.6, 3.24, 3.24), (0, 0, 0)), ("s1", (9.2, 6.48, 6.48), (0, 0, 0))]
    group.attrs.update(multiscales_attrs(["z", "y", "x"], ["nanometer"] * 3, datasets, "v"))
    return folder


def test_description_has_these_members(tmp_path: Path) -> None:
    found = describe(pyramid(tmp_path / "v.zarr"))
    assert list(found) == ["path", "format", "levels", "warnings"]
    assert found["format"] == "zarr2"
    assert found["levels"][1] == {
        "path": f"{tmp_path}/v.zarr/s1",
        "shape": [8, 8, 8],
        "dtype": "uint16",
        "chunk_shape": [8, 8, 8],
        "axes": ["z", "y", "x"],
        "voxel_size_nm": [9.2, 6.48, 6.48],
        "corner_nm": [0.0, 0.0, 0.0],
        "codec": "none",
    }
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_checksum_is_of_little_endian_bytes(tmp_path: Path) -> None:
    found = describe(pyramid(tmp_path / "v"), checksum=True, level=0)
    assert len(found["levels"]) == 1
    assert found["levels"][0]["sha256"] == hashlib.sha256(np.arange(16**3, dtype="<u2").tobytes()).hexdigest()


@pytest.mark.parametrize("limit", [1, 20, 300, 2000, 10**6])
def test_checksum_in_slabs_is_that_of_the_whole(tmp_path: Path, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.arange(2 * 5 * 6 * 7, dtype="u2").reshape(2, 5, 6, 7)
    zarr.create_array(tmp_path / "a", shape=data.shape, chunks=(1, 2, 4, 4), dtype="u2")[...] = data
    monkeypatch.setattr(inspect, "_SLAB_BYTES", limit)
    assert describe(tmp_path / "a", checksum=True)["levels"][0]["sha256"] == hashlib.sha256(data.tobytes()).hexdigest()


def test_level_that_there_is_not_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="2 levels: expected 0 to 1, found 2"):
        describe(pyramid(tmp_path / "v"), level=2)


@pytest.mark.parametrize(
    ("chunks", "slow"), [((64, 64, 64), False), ((1, 2048, 2048), True), ((1024, 1024, 1024), True)]
)
def test_chunks_that_are_slow_to_view_are_measured(tmp_path: Path, chunks: tuple[int, ...], slow: bool) -> None:
    zarr.create_array(tmp_path / "a", shape=(2048,) * 3, chunks=chunks, dtype="u1")
    warnings: list[Any] = [warning for warning in describe(tmp_path / "a")["warnings"] if "slow to view" in warning]
    assert bool(warnings) is slow
    if slow:
        assert any(char.isdigit() for char in warnings[0].split("times what it shows")[0])
