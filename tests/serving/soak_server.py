"""The server of test_soak.py, in a process of its own so that its memory can be looked at. Prints its port as JSON.

Arguments: a stored volume (zarr v2, local).
"""

from __future__ import annotations

import json
import sys

from chunkloom import Pipeline, create_app, open_volume, ops
from chunkloom.engine import chunked
from chunkloom.engine.cache import ChunkCache
from chunkloom.memory import keep_freed_memory
from chunkloom.serving.run import VolumeServer

DECODED, ENCODED = 12 << 20, 6 << 20


def main() -> None:
    keep_freed_memory()
    chunked.use_process_cache(ChunkCache(DECODED))
    stored = open_volume(sys.argv[1])
    smooth = [ops.Gaussian(sigma=1.5), ops.Threshold(low=120)]
    volumes = {
        "raw": Pipeline(stored),
        "mask": Pipeline(stored, smooth, chunk=(32, 32, 32)),
        "median": Pipeline(stored, [ops.Median(size=3)]),
        "objects": Pipeline(stored, [*smooth, ops.ConnectedComponents()], chunk=(32, 32, 32)),
    }
    with (
        VolumeServer(create_app({"raw": volumes.pop("raw")}, encoded_bytes=ENCODED)) as passing,
        VolumeServer(create_app(volumes, codec="none", encoded_bytes=ENCODED)) as server,
    ):
        print(json.dumps({"passing": passing.port, "computing": server.port}), flush=True)
        sys.stdin.read()


main()
