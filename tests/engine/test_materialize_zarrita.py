"""Written stores are read equal by zarrita, which viewers in the browser use."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from chunkloom import materialize
from served_folder import served_folder

from .test_materialize import BOX, INSIDE, volume, whole

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "tests" / "serving" / "zarrita.mjs"


@pytest.fixture(scope="module")
def web():
    folder = REPOSITORY / "web"
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    if not (folder / "node_modules" / "zarrita").is_dir():
        pytest.skip(f"zarrita is not installed: run npm ci in {folder}")
    return folder


@pytest.mark.parametrize("word", ["zarr2", "zarr3", "shards"])
@pytest.mark.parametrize("codec", ["none", "zstd", "blosc", "gzip"])
def test_a_box_is_read_equal_by_zarrita(word, codec, web, tmp_path):
    shape = (2, 37, 50, 41)
    shard = (32, 32, 16) if word == "shards" else None
    options = {"format": "zarr3" if word == "shards" else word, "shard": shard}
    materialize(volume("uint16", shape), tmp_path / "a", box=BOX, codec=codec, **options)
    with served_folder(tmp_path) as url:
        words = ["node", str(SCRIPT), str(web), f"{url}/a", str(tmp_path)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    (level,) = json.loads(done.stdout)
    found = np.frombuffer((tmp_path / "0").read_bytes(), level["dtype"]).reshape(level["shape"])
    np.testing.assert_array_equal(found, whole("uint16", shape)[INSIDE])
