"""Many people moving about for long: every answer right, nothing fails, and memory stays within the budgets."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tensorstore as ts
from scipy import ndimage

from .panning import Place, pan
from .soak_data import COMPUTED, halved

SHAPE, CHUNK = (144, 128, 112), (32, 32, 32)
PEOPLE = 32
SLACK = 48 << 20  # freed memory that is kept for the next chunk, and what Python holds


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    rng = np.random.default_rng(3)
    array = np.clip(ndimage.gaussian_filter(rng.normal(size=SHAPE), 2) * 300 + 120, 0, 255).astype(np.uint8)
    path = tmp_path_factory.mktemp("soak") / "raw.zarr"
    metadata = {"shape": SHAPE, "chunks": CHUNK, "dtype": "|u1", "dimension_separator": "/"}
    metadata["compressor"] = {"id": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 1}
    spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": str(path)}, "metadata": metadata}
    ts.open(spec, create=True).result().write(array).result()
    return path, array


class Expected:
    """The whole of every level, by scipy; of objects, whose ids are the server's own, what was answered first."""

    def __init__(self, path: Path, array: np.ndarray) -> None:
        self.path = path
        # scipy in float32, as the op: voxels within 1e-3 of the threshold may fall on either side of it.
        smooth = ndimage.gaussian_filter(array.astype(np.float32), 1.5, mode="nearest")
        mask = (smooth >= 120).astype(np.uint8)
        self.levels = {"mask": [mask], "median": [ndimage.median_filter(array, 3, mode="nearest")]}
        self.unsure = int((np.abs(smooth - 120) < 1e-3).sum())
        for name, levels in self.levels.items():
            while any(n > 32 for n in levels[-1].shape):
                levels.append(halved(levels[-1], mode=name == "mask"))
        self.first: dict[str, str] = {}

    def check(self, path: str, body: bytes) -> str:
        name, _, level, *index = path.strip("/").split("/")
        if name == "raw":
            return "" if body == (self.path / "/".join(index)).read_bytes() else "not the stored bytes"
        if name == "objects":
            digest = hashlib.sha256(body).hexdigest()
            return "" if self.first.setdefault(path, digest) == digest else "not what it was before"
        whole = self.levels[name][int(level[1:])]
        place = tuple(slice(32 * int(i), 32 * int(i) + 32) for i in index)
        found = np.frombuffer(body, np.uint8).reshape(CHUNK)
        part = whole[place]
        differ = int((found[tuple(slice(n) for n in part.shape)] != part).sum())
        return "" if differ <= self.unsure else f"{differ} voxels of {found.size} differ"


def memory_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def soak(stored, seconds: float, seed: int) -> None:
    path, array = stored
    expected = Expected(path, array)
    words = [sys.executable, str(Path(__file__).with_name("soak_server.py")), str(path)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        ports = json.loads(process.stdout.readline())
        grid = tuple(-(-n // 32) for n in SHAPE)
        places = [Place(ports["passing"], "/raw/zarr2/s0/", grid)] * 2
        for name in COMPUTED:
            for level in range(4 if name != "median" else 3):
                coarse = tuple(math.ceil(n / (32 * 2**level)) for n in SHAPE)
                places.append(Place(ports["computing"], f"/{name}/zarr2/s{level}/", coarse))
        used: list[int] = []
        stop = threading.Event()

        def watch() -> None:
            while not stop.wait(0.1):
                used.append(memory_of(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        began = time.monotonic()
        seen = asyncio.run(pan(places, PEOPLE, seconds, seed, expected.check))
        took = time.monotonic() - began
        stop.set()
        watcher.join()
        assert seen.wrong == []
        assert set(seen.answers) == {"200"}
        assert seen.answers["200"] > 20 * seconds
        assert seen.hung_up > seconds
        assert took < seconds + 30
        early = max(used[: max(1, len(used) * 2 // 5)])
        assert max(used) < early + SLACK, f"{early >> 20} MiB became {max(used) >> 20} MiB"
        assert process.poll() is None
    finally:
        process.stdin.close()
        process.terminate()
        process.wait(20)


def test_people_move_about_for_some_seconds(stored):
    soak(stored, 5, seed=1)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_people_move_about_for_ten_minutes(stored):
    soak(stored, 600, seed=int(time.time()))
