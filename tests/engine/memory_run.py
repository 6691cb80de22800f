"""One materialize of incompressible float32 data, and the memory it took. Started by test_materialize_memory.py.

Arguments: target, chunk edge, chunks along each axis, memory_limit (bytes), threads. Prints JSON.
"""

from __future__ import annotations

import json
import sys

import numpy as np

from chunkloom import Grid, Level, Volume, materialize
from chunkloom.engine.materialize import plan_materialize


class Noise(Volume):
    """Three channels of noise, each chunk made where it is asked for."""

    def __init__(self, edge, count):
        shape = (3, *[edge * (count + 1)] * 3)
        self.levels = (Level(shape, np.dtype("f4"), (3, edge, edge, edge), ("c", "z", "y", "x"), Grid()),)

    @property
    def stage_digest(self):
        return "noise"

    def read_box(self, level, box, work):
        seed = [int(n) for n in box.lo]
        return np.random.default_rng(seed).random((3, *box.shape), np.float32)


def memory(field):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def main():
    target, edge, count, limit, threads = sys.argv[1], *map(int, sys.argv[2:])
    volume = Noise(edge, count)
    half = edge // 2
    box = [(half, half + edge * count)] * 3
    plan = plan_materialize(volume, target, box=box, memory_limit=limit, concurrency=threads, codec="none")
    import chunkloom.engine.chunked
    import chunkloom.engine.sources  # noqa: F401

    small = [(half, half + 2)] * 3
    materialize(volume, target + "-imports", box=small, codec="none", concurrency=1)
    before = memory("VmRSS")
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    materialize(volume, target, box=box, memory_limit=limit, concurrency=threads, codec="none")
    array = plan.arrays[0][2]
    told = {"before": before, "peak": memory("VmHWM"), "held": array.held, "lanes": array.concurrency}
    print(json.dumps({**told, "disk": array.disk_bytes, "piece": plan.arrays[0][1].piece_nbytes}))


if __name__ == "__main__":
    main()
