"""The same tiles of a model without a server. Started by benchmarks/inference.py.

forwards.py bare FOLDER         the forwards alone, over tiles made before
forwards.py in-process FOLDER   as a worker does: the prediction's chunks, read one after the other
forwards.py load FOLDER         what it takes to import torch and to load the model, and nothing else

Each line on stdin is the number of a tile; the CPU and wall seconds it took come as JSON on stdout.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def main() -> None:
    mode, folder = sys.argv[1], Path(sys.argv[2])
    if mode == "load":
        print(json.dumps(load(folder)), flush=True)
        return
    from chunkloom.memory import keep_freed_memory

    # As commands do. Of the forwards it saves a tenth: theirs alone must not look slower for want of it.
    keep_freed_memory()
    run = {"bare": bare, "in-process": in_process}[mode](folder)
    print("{}", flush=True)
    for line in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        run(int(line))
        print(json.dumps({"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}), flush=True)


def load(folder: Path) -> dict[str, float]:
    """CPU and wall seconds of importing torch, and of running the script that makes the model."""
    wall, cpu = time.perf_counter(), time.process_time()
    import torch  # noqa: F401

    imported_wall, imported_cpu = time.perf_counter(), time.process_time()
    names: dict[str, object] = {}
    exec((folder / "unet.py").read_text(), names)
    return {
        "import_wall": imported_wall - wall,
        "import_cpu": imported_cpu - cpu,
        "load_wall": time.perf_counter() - imported_wall,
        "load_cpu": time.process_time() - imported_cpu,
    }


def bare(folder: Path):
    import numpy as np
    import torch

    names: dict[str, object] = {}
    exec((folder / "unet.py").read_text(), names)
    model = names["model"].eval()
    tiles = [torch.from_numpy(tile) for tile in np.load(folder / "tiles.npy")]

    def run(number: int) -> None:
        with torch.inference_mode():
            model(tiles[number][None, None])

    return run


def in_process(folder: Path):
    from chunkloom import open_volume
    from chunkloom.chain.spec import PipelineSpec
    from chunkloom.engine.cache import ChunkCache
    from chunkloom.geometry import Box
    from chunkloom.inference.runner import ModelRunner
    from chunkloom.models.registry import parse_model
    from chunkloom.serving.served_model import ServedModel

    loaded = parse_model(str(folder / "unet.py")).load()
    served = ServedModel(ModelRunner(loaded), open_volume(str(folder / "raw.zarr")), predictions=ChunkCache(0))
    volume = served.layer(PipelineSpec.from_json_data(json.loads((folder / "chain.json").read_text())))
    level = volume.levels[0]
    boxes = [
        Box.of_chunk((z, y, x), level.spatial_chunk)
        for z in range(level.chunk_grid[0])
        for y in range(level.chunk_grid[1])
        for x in range(level.chunk_grid[2])
    ]

    def run(number: int) -> None:
        volume.read(boxes[number])

    return run


main()
