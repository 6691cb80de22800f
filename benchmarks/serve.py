"""What serving costs, as ratios to a bare ASGI app in the same run.

    python benchmarks/serve.py [--passes 10] [--quick]

512^3 uint8 in zarr v2, 64^3 chunks of blosc; 16 keep-alive connections; CPU time of the server process per chunk. The
bare app sends the same bodies from memory (warm), or reads the stored files (cold). Passes of the two alternate;
medians.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from statistics import median

from load import ask_all

HERE = Path(__file__).resolve().parent
CELLS = [(f, c) for f in ("zarr2", "zarr3", "n5") for c in ("none", "zstd", "blosc", "gzip")] + [
    ("precomputed", "none")
]
ONE_THREAD = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def make_data(folder: Path, n: int, clevel: int = 3) -> Path:
    """EM-like values: smooth structure and fine noise, which pack to about 80 %."""
    import numpy as np
    import tensorstore as ts
    from scipy.ndimage import zoom

    rng = np.random.default_rng(0)
    coarse = rng.normal(120, 30, (n // 8,) * 3).astype(np.float32)
    path = folder / "raw.zarr"
    store = ts.open(
        {
            "driver": "zarr",
            "kvstore": {"driver": "file", "path": str(path)},
            "metadata": {
                "shape": [n] * 3,
                "chunks": [64] * 3,
                "dtype": "|u1",
                "compressor": {"id": "blosc", "cname": "zstd", "clevel": clevel, "shuffle": 1},
                "dimension_separator": "/",
            },
        },
        create=True,
    ).result()
    for z in range(0, n, 64):
        slab = zoom(coarse[z // 8 : z // 8 + 8], 8, order=1) + rng.normal(0, 10, (64, n, n)).astype(np.float32)
        store[z : z + 64].write(np.clip(slab, 0, 255).astype(np.uint8)).result()
    return path


class Process:
    """A server process, and where it listens."""

    def __init__(self, words: list[str], env: dict[str, str]) -> None:
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
        line = self.process.stdout.readline()
        self.ready = json.loads(line)
        self.port = self.ready["port"]
        self.pid = self.process.pid

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_) -> None:
        self.process.terminate()
        self.process.wait(20)


def ours(source: Path | str, *options: str) -> Process:
    words = [sys.executable, "-m", "chunkloom", "serve", str(source), "--ready-file", "-", *options]
    return Process(words, dict(os.environ))


def bare(mode: str, listing: Path) -> Process:
    return Process([sys.executable, str(HERE / "bare.py"), mode, str(listing)], dict(os.environ))


def chunk_paths(name: str, word: str, n: int) -> list[str]:
    grid = range(n // 64)
    if word == "precomputed":
        span = [f"{i * 64}-{i * 64 + 64}" for i in grid]
        return [f"/{name}/{word}/s0/{x}_{y}_{z}" for z, y, x in itertools.product(span, span, span)]
    middle = "c/" if word == "zarr3" else ""
    return [f"/{name}/{word}/s0/{middle}{z}/{y}/{x}" for z, y, x in itertools.product(grid, grid, grid)]


def bodies_of(server: Process, paths: list[str], folder: Path) -> Path:
    """Every body as a file, and the listing the bare app reads."""
    folder.mkdir()
    listing = {}
    for i, path in enumerate(paths):
        file = folder / str(i)
        file.write_bytes(urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}").read())
        listing[path] = str(file)
    (folder / "listing.json").write_text(json.dumps(listing))
    return folder / "listing.json"


def ratio(mine: Process, other: Process, paths: list[str], passes: int) -> tuple[float, float, float]:
    """Our CPU ms per chunk, the bare app's, and their ratio; passes alternate."""
    a, b = [], []
    for _ in range(passes):
        a.append(ask_all(mine.pid, "127.0.0.1", mine.port, paths).server_cpu_ms_per_chunk)
        b.append(ask_all(other.pid, "127.0.0.1", other.port, paths).server_cpu_ms_per_chunk)
    return median(a), median(b), median(a) / median(b)


def warm(source: Path, word: str, codec: str, n: int, passes: int, folder: Path) -> tuple[float, float, float]:
    with ours(source, "--codec", codec, "--cache-encoded", "2GB") as mine:
        paths = chunk_paths("raw", word, n)
        listing = bodies_of(mine, paths, folder / f"{word}-{codec}")
        with bare("memory", listing) as other:
            ask_all(other.pid, "127.0.0.1", other.port, paths)
            return ratio(mine, other, paths, passes)


def cold(source: Path | str, word: str, codec: str | None, n: int, passes: int, listing: Path, root: str):
    """Every chunk asked of fresh servers, whose caches hold nothing; the bare app reads the stored files."""
    paths = chunk_paths("raw", word, n)
    plain = chunk_paths("raw", "zarr2", n)
    options = ["--codec", codec] if codec else []
    with (
        ours(source, *options, "--cache-encoded", "0", "--cache-decoded", "0") as mine,
        bare("files", listing) as other,
    ):
        ask_all(mine.pid, "127.0.0.1", mine.port, paths[:32])
        ask_all(other.pid, "127.0.0.1", other.port, plain[:32])
        a, b = [], []
        for _ in range(passes):
            a.append(ask_all(mine.pid, "127.0.0.1", mine.port, paths).server_cpu_ms_per_chunk)
            b.append(ask_all(other.pid, "127.0.0.1", other.port, plain).server_cpu_ms_per_chunk)
    return median(a), median(b), median(a) / median(b)


def read_and_encode(source: Path, n: int, passes: int) -> float:
    """CPU ms per chunk of reading with tensorstore and packing with zstd 1, in one process with nothing around it."""
    code = """
import itertools, sys, time
import numpy as np, tensorstore as ts
from numcodecs import zstd
store = ts.open({"driver": "zarr", "kvstore": {"driver": "file", "path": sys.argv[1]}}).result()
grid = range(int(sys.argv[2]) // 64)
best = []
for _ in range(int(sys.argv[3])):
    began = time.process_time()
    for z, y, x in itertools.product(grid, grid, grid):
        block = store[z*64:z*64+64, y*64:y*64+64, x*64:x*64+64].read().result()
        zstd.compress(np.ascontiguousarray(block).data.cast("B"), 1)
    best.append((time.process_time() - began) * 1000 / len(grid) ** 3)
print(sorted(best)[len(best) // 2])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(source), str(n), str(passes)],
        capture_output=True,
        text=True,
        check=True,
        env=ONE_THREAD,
    )
    return float(done.stdout)


def scipy_gaussian(passes: int) -> float:
    """CPU ms of scipy's gaussian alone, float32, 74^3, one BLAS thread."""
    code = """
import sys, time
import numpy as np
from scipy.ndimage import gaussian_filter
block = np.random.default_rng(0).integers(0, 255, (74,) * 3).astype(np.float32)
gaussian_filter(block, 1.5)
taken = []
for _ in range(int(sys.argv[1])):
    began = time.process_time()
    gaussian_filter(block, 1.5)
    taken.append((time.process_time() - began) * 1000)
print(sorted(taken)[len(taken) // 2])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(passes * 10)], capture_output=True, text=True, check=True, env=ONE_THREAD
    )
    return float(done.stdout)


def filtered(source: Path, n: int, passes: int) -> float:
    """CPU ms per chunk of gaussian 1.5 + threshold, everything included, of fresh servers."""
    taken = []
    for _ in range(max(3, passes // 3)):
        with ours(source, "--op", "gaussian:sigma=1.5", "--op", "threshold:low=120") as mine:
            paths = chunk_paths("raw", "zarr2", n)
            taken.append(ask_all(mine.pid, "127.0.0.1", mine.port, paths).server_cpu_ms_per_chunk)
    return median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="256^3, 3 passes, two warm cells: does it run?")
    parser.add_argument("--only", default="", help="warm, cold, encoded, gaussian")
    options = parser.parse_args()
    n, passes, cells = (
        (256, 3, [("zarr2", "blosc"), ("zarr3", "zstd")]) if options.quick else (512, options.passes, CELLS)
    )
    rows: list[tuple[str, float, float, float, float]] = []

    def row(name: str, mine: float, other: float, goal: float) -> None:
        rows.append((name, mine, other, mine / other, goal))
        verdict = "" if mine / other <= goal else "   <-- over"
        print(f"{name:<44} {mine:>9.3f} {other:>9.3f} {mine / other:>7.2f} {goal:>6.2f}{verdict}", flush=True)

    print(f"{'CPU ms per chunk':<44} {'ours':>9} {'other':>9} {'ratio':>7} {'goal':>6}")
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        source = make_data(folder, n)
        stored = {p: str(source / p.split("/s0/")[1]) for p in chunk_paths("raw", "zarr2", n)}
        listing = folder / "stored.json"
        listing.write_text(json.dumps(stored))
        if options.only in ("", "warm"):
            for word, codec in cells:
                row(f"warm {word} {codec}", *warm(source, word, codec, n, passes, folder)[:2], 1.3)
        if options.only in ("", "cold"):
            row("cold, passed through (local)", *cold(source, "zarr2", None, n, passes, listing, "")[:2], 2.8)
            with Files(source.parent) as files:
                url = f"http://127.0.0.1:{files.port}/raw.zarr"
                row(
                    "cold, passed through (http)",
                    *cold(url, "zarr2", None, n, max(3, passes // 2), listing, "")[:2],
                    4.0,
                )
        if options.only in ("", "encoded"):
            mine = cold(source, "zarr2", "zstd", n, max(3, passes // 2), listing, "")[0]
            row("cold, encoded again as zstd", mine, read_and_encode(source, n, 3), 1.3)
        if options.only in ("", "gaussian"):
            row("gaussian 1.5 + threshold / scipy gaussian", filtered(source, n, passes), scipy_gaussian(passes), 0.6)
    if not options.quick and not options.only:
        results = HERE / "results"
        results.mkdir(exist_ok=True)
        lines = [f"{name}\t{a:.3f}\t{b:.3f}\t{r:.2f}\t{g}" for name, a, b, r, g in rows]
        head = f"# benchmarks/serve.py, {time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores"
        columns = "what\tours_ms\tother_ms\tratio\tgoal"
        (results / "serve.tsv").write_text("\n".join([head, columns, *lines]) + "\n")
    sys.exit(any(r > g for *_, r, g in rows))


class Files:
    """A static file server in a process of its own."""

    def __init__(self, folder: Path) -> None:
        code = (
            "import http.server, sys, functools, json\n"
            "class H(http.server.SimpleHTTPRequestHandler):\n"
            "    protocol_version = 'HTTP/1.1'\n"
            "    def log_message(self, *a): pass\n"
            "s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(H, directory=sys.argv[1]))\n"
            "print(json.dumps({'port': s.server_address[1]}), flush=True)\n"
            "s.serve_forever()\n"
        )
        self._process = Process([sys.executable, "-c", code, str(folder)], dict(os.environ))
        self.port = self._process.port

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *_) -> None:
        self._process.__exit__()


if __name__ == "__main__":
    main()
