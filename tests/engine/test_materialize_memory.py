"""`memory_limit` is held by a box whose waiting pieces need four times as much, and what waited on disk comes back."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parent / "memory_run.py"
CASES = [
    pytest.param(40, 16 << 20, id="16MiB"),
    pytest.param(64, 64 << 20, id="64MiB", marks=pytest.mark.long),
]


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize(("edge", "limit"), CASES)
def test_the_memory_limit_is_held(edge, limit, tmp_path):
    count = 9
    words = [sys.executable, str(SCRIPT), str(tmp_path / "a"), *map(str, (edge, count, limit, 2))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["held"] * told["piece"] >= 4 * limit
    assert told["disk"] > limit
    assert told["peak"] - told["before"] <= limit + told["lanes"] * told["piece"]
    assert_noise(tmp_path / "a", edge, count)


def assert_noise(store, edge, count):
    """Some boxes across the corners of chunks, told from the chunks they were made of."""
    import tensorstore as ts

    array = ts.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{store}/0/"}}).result()
    assert array.shape == (3, *[edge * count] * 3)
    rng = random.Random(0)
    for _ in range(6):
        at = [rng.randrange(count) for _ in range(3)]
        for index in itertools.product(*((i, i + 1) for i in at)):
            # The array begins half a chunk into the volume: half of each of its chunks is in eight of the array's.
            lo = [i * edge for i in index]
            chunk = np.random.default_rng(lo).random((3, edge, edge, edge), np.float32)
            begin = [max(0, b - edge // 2) for b in lo]
            end = [min(edge * count, b + edge // 2) for b in lo]
            inside = tuple(slice(b + edge // 2 - c, e + edge // 2 - c) for b, e, c in zip(begin, end, lo, strict=True))
            found = array[(slice(None), *(slice(b, e) for b, e in zip(begin, end, strict=True)))].read().result()
            np.testing.assert_array_equal(found, chunk[(slice(None), *inside)])
