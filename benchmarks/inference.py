"""A model served, against its forwards alone: a 3-D U-Net of about a million parameters, 16 chunks, on the CPU.

    python benchmarks/inference.py [--rounds 5]

Everything with one thread for the model. No output is kept: each round computes every chunk anew. The three alternate
from chunk to chunk, so that what else the machine does meets them alike; the ratios are of medians of whole rounds, in
CPU time, the client's not counted, with wall time beside it. Then: the same chunk asked for again, and a server from
its start to its first chunk, less the framework's import and the model's load.
Fails where a goal is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
from load import cpu_seconds
from results import Table

TILE, CONTEXT, GRID = 36, 20, (2, 2, 4)
CHAIN = {
    "input_norm": [{"name": "MinMaxNormalizer"}, {"name": "LambdaNormalizer", "expression": "x*2-1"}],
    "postprocess": [{"name": "SigmoidPostprocessor"}],
}
UNET = """
import torch
from torch import nn

input_voxel_size = output_voxel_size = (8, 8, 8)
input_size, output_size = (76, 76, 76), (36, 36, 36)
output_channels, channels = 1, ["membrane"]


def block(n, m):
    return nn.Sequential(nn.Conv3d(n, m, 3), nn.ReLU(inplace=True), nn.Conv3d(m, m, 3), nn.ReLU(inplace=True))


def cropped(x, like):
    n = (x.shape[-1] - like.shape[-1]) // 2
    return x[..., n : x.shape[-3] - n, n : x.shape[-2] - n, n : x.shape[-1] - n]


class UNet(nn.Module):
    def __init__(self, n=27):
        super().__init__()
        self.a, self.b, self.c = block(1, n), block(n, 2 * n), block(2 * n, 4 * n)
        self.d, self.e = block(6 * n, 2 * n), block(3 * n, n)
        self.last = nn.Conv3d(n, 1, 1)
        self.pool, self.up = nn.MaxPool3d(2), nn.Upsample(scale_factor=2)

    def forward(self, x):
        a = self.a(x)
        b = self.b(self.pool(a))
        up = self.up(self.c(self.pool(b)))
        d = self.d(torch.cat([cropped(b, up), up], 1))
        up = self.up(d)
        return self.last(self.e(torch.cat([cropped(a, up), up], 1)))


torch.manual_seed(0)
model = UNet()
"""

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
HERE = Path(__file__).resolve().parent


class Tiles:
    """A process that makes a tile whenever it is asked to: benchmarks/forwards.py."""

    def __init__(self, mode: str, folder: Path) -> None:
        words = [sys.executable, str(HERE / "forwards.py"), mode, str(folder)]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **ONE_THREAD}
        )
        self.process.stdout.readline()

    def run(self, number: int) -> dict[str, float]:
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


class Served:
    """A model server with one thread."""

    def __init__(self, folder: Path, *options: str) -> None:
        entry = json.dumps({"type": "script", "script_path": str(folder / "unet.py")})
        words = [sys.executable, "-m", "chunkloom", "serve", "-d", str(folder / "raw.zarr"), "--model", entry]
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [*words, "--ready-file", "-", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **ONE_THREAD},
        )
        self.url = json.loads(self.process.stdout.readline())["url"]

    def chunk(self, layer: str, index: tuple[int, ...]) -> bytes:
        with urllib.request.urlopen(f"{self.url}/{layer}/zarr/s0/0/{'/'.join(map(str, index))}") as answer:
            return answer.read()

    def cpu(self) -> float:
        return cpu_seconds(self.process.pid)

    def run(self, layer: str, number: int) -> dict[str, float]:
        wall, cpu = time.perf_counter(), self.cpu()
        self.chunk(layer, np.unravel_index(number, GRID))
        return {"cpu": self.cpu() - cpu, "wall": time.perf_counter() - wall}


@contextlib.contextmanager
def ending(*started: Tiles | Served) -> Iterator[None]:
    try:
        yield
    finally:
        for one in started:
            one.process.terminate()
        for one in started:
            one.process.wait(30)


def make(folder: Path) -> str:
    """The model, the volume, the tiles as the model sees them; the layer's name."""
    import zarr

    from chunkloom.chain.spec import PipelineSpec
    from chunkloom.serving.protocol import layer_name

    (folder / "unet.py").write_text(UNET)
    (folder / "chain.json").write_text(json.dumps(CHAIN))
    shape = tuple(TILE * n for n in GRID)
    raw = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    array = zarr.create_array(folder / "raw.zarr", shape=shape, chunks=(36, 36, 36), dtype="uint8", zarr_format=2)
    array[:] = raw
    array.attrs.update({"resolution": [8, 8, 8], "offset": [0, 0, 0]})
    padded = np.pad(raw.astype(np.float32) / 255 * 2 - 1, CONTEXT)
    side = TILE + 2 * CONTEXT
    tiles = [padded[tuple(slice(i * TILE, i * TILE + side) for i in index)] for index in np.ndindex(*GRID)]
    np.save(folder / "tiles.npy", np.stack(tiles))
    return layer_name("unet", PipelineSpec.from_json_data(CHAIN))


def start(folder: Path, layer: str) -> dict[str, float]:
    """CPU and wall seconds of a server from its start to its first chunk."""
    served = Served(folder)
    with ending(served):
        served.chunk(layer, (0, 0, 0))
        return {"cpu": served.cpu(), "wall": time.perf_counter() - served.began}


def loading(folder: Path) -> dict[str, float]:
    words = [sys.executable, str(HERE / "forwards.py"), "load", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ, **ONE_THREAD})
    return json.loads(done.stdout)


def again_ms(folder: Path, layer: str, times: int = 300) -> float:
    """Server CPU milliseconds of a chunk that was asked for before."""
    served = Served(folder)
    with ending(served):
        for _ in range(20):
            served.chunk(layer, (0, 0, 0))
        began = served.cpu()
        for _ in range(times):
            served.chunk(layer, (0, 0, 0))
        return (served.cpu() - began) / times * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    table = Table("inference", ("what", "reached", "wall", "goal"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        layer = make(folder)
        bare, inside = Tiles("bare", folder), Tiles("in-process", folder)
        served = Served(folder, "--cache-predictions", "0", "--cache-encoded", "0")
        with ending(bare, inside, served):
            tiles = {"bare": bare.run, "in-process": inside.run, "served": lambda number: served.run(layer, number)}
            taken: dict[str, list[dict[str, float]]] = {name: [] for name in tiles}
            for number in range(rounds + 1):
                sums = {name: {"cpu": 0.0, "wall": 0.0} for name in tiles}
                for tile in range(int(np.prod(GRID))):
                    for name, run in tiles.items():
                        for kind, seconds in run(tile).items():
                            sums[name][kind] += seconds
                if number:  # the first is to warm up
                    for name in tiles:
                        taken[name].append(sums[name])
        middle = {
            name: {kind: median(one[kind] for one in every) for kind in ("cpu", "wall")}
            for name, every in taken.items()
        }
        table.row("bare forwards, s", round(middle["bare"]["cpu"], 2), round(middle["bare"]["wall"], 2), "", over=False)
        for name, goal in (("served", 1.05), ("in-process", 1.03)):
            cpu, wall = (middle[name][kind] / middle["bare"][kind] for kind in ("cpu", "wall"))
            table.row(f"{name} / bare forwards", round(cpu, 3), round(wall, 3), goal, over=cpu > goal)
        ms = again_ms(folder, layer)
        table.row("the same chunk again, server ms", round(ms, 2), "", 2, over=ms > 2)
        began = [start(folder, layer) for _ in range(rounds + 1)][1:]
        loads = [loading(folder) for _ in range(rounds + 1)][1:]
        forward = middle["bare"]["cpu"] / np.prod(GRID), middle["bare"]["wall"] / np.prod(GRID)
        own = {
            kind: median(one[kind] for one in began)
            - median(one[f"import_{kind}"] + one[f"load_{kind}"] for one in loads)
            - 2 * forward[kind == "wall"]  # of the warm-up, and of the chunk itself
            for kind in ("cpu", "wall")
        }
        table.row("start to first chunk, s", round(own["cpu"], 2), round(own["wall"], 2), 1, over=own["cpu"] > 1)
    sys.exit(table.finish())


if __name__ == "__main__":
    main()
