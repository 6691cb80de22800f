"""What lies where a chunk should be and is no file: an error in words, at once, and never fill."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import zarr

from chunkloom.errors import ChunkReadError
from chunkloom.geometry import Box
from chunkloom.io import open_levels

ODD = {
    "folder": lambda path: os.mkdir(path),
    "pipe": lambda path: os.mkfifo(path),
    "link to nothing": lambda path: os.symlink("nowhere", path),
}
BOXES = {"a chunk": ((0, 0, 0), (10, 10, 10)), "several": ((0, 0, 0), (15, 12, 20)), "a part": ((1, 1, 1), (2, 2, 2))}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are of Unix")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("kind", ["zarr v2", "zarr v3", "shards"])
@pytest.mark.parametrize("odd", ODD)
def test_what_is_no_file_is_no_chunk(tmp_path: Path, odd: str, kind: str, box: str) -> None:
    options = {"shards": (20, 20, 20)} if kind == "shards" else {}
    version = 2 if kind == "zarr v2" else 3
    array = zarr.create_array(
        tmp_path / "a", shape=(20, 20, 20), chunks=(10, 10, 10), dtype="uint8", zarr_format=version, **options
    )
    array[:] = 1
    path = tmp_path / "a" / ("0.0.0" if version == 2 else "c/0/0/0")
    path.unlink()
    ODD[odd](path)
    with pytest.raises(ChunkReadError, match=odd if odd == "link to nothing" else f"it is a {odd}"):
        open_levels(tmp_path / "a").levels[0].read(Box(*BOXES[box]))
