"""What writing a volume costs, as ratios to other ways of doing the same, in one run.

    python benchmarks/materialize.py [--rounds 5] [--quick]

512^3 EM-like uint8 in zarr v2, 64^3 chunks of blosc. Whole processes, start-up and imports among them: ours is the
command that people type, the others import tensorstore and numpy (and scipy) alone. CPU (user and system) and wall
time. What is compared takes turns; medians over the rounds, the first of which does not count.

Why so: EM-like, because values that pack to nothing make a copy cheap for everyone. In a plain folder on disk (that of
temporary files), because that is where volumes lie: writing pages to a disk is a part of what a copy costs. Codecs at
the levels of `serve.py`'s data and of our defaults, the same on both sides. Every run writes to a new folder and
nothing is removed until the end: ext4 looks long for a free file where many have just been removed, on both sides.

re-encoding        to zarr v3 with zstd, against tensorstore copying to the same
matching codec     to zarr v2 with blosc, whole level and a box on chunk edges, against tensorstore copying to the same
gaussian           gaussian 1.5 + threshold to zarr v3, against scipy on each chunk with its halo, written alike
two processors     what the second thread gains, against what two independent bare processes gain over one (best round)
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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from serve import make_data

HERE = Path(__file__).resolve().parent
ONE_BLAS_THREAD = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
# As installed packages do: everything is compiled once.
ONE_BLAS_THREAD.pop("PYTHONDONTWRITEBYTECODE", None)
CODECS = {
    "zarr2": {"driver": "zarr", "metadata": {}},
    "zarr3": {"driver": "zarr3", "metadata": {"codecs": ["bytes", {"name": "zstd", "configuration": {"level": 1}}]}},
}

COPY = """
import json, sys
import tensorstore as ts
source, target, word, n, codecs, begin = sys.argv[1:]
n, begin, spec = int(n), int(begin), json.loads(codecs)[word]
spec["kvstore"] = {"driver": "file", "path": target}
if word == "zarr2":  # packed as the source is
    spec["metadata"] = {"compressor": json.load(open(source + "/.zarray"))["compressor"]}
    spec["metadata"] |= {"shape": [n - begin, n, n], "chunks": [64] * 3, "dtype": "|u1", "dimension_separator": "/"}
else:
    grid = {"name": "regular", "configuration": {"chunk_shape": [64] * 3}}
    spec["metadata"] |= {"shape": [n] * 3, "chunk_grid": grid, "data_type": "uint8"}
a = ts.open({"driver": "zarr", "kvstore": {"driver": "file", "path": source}}).result()
b = ts.open(spec, create=True, delete_existing=True).result()
b.write(a[begin:].translate_to[0, 0, 0]).result()
"""

SCIPY = """
import itertools, json, sys
import numpy as np, tensorstore as ts
from scipy.ndimage import gaussian_filter
source, target, n, codecs = sys.argv[1:]
n, spec = int(n), json.loads(codecs)["zarr3"]
spec["kvstore"] = {"driver": "file", "path": target}
grid = {"name": "regular", "configuration": {"chunk_shape": [64] * 3}}
spec["metadata"] |= {"shape": [n] * 3, "chunk_grid": grid, "data_type": "uint8"}
a = ts.open({"driver": "zarr", "kvstore": {"driver": "file", "path": source},
             "recheck_cached_data": "open", "context": {"cache_pool": {"total_bytes_limit": 1 << 30}}}).result()
b = ts.open(spec, create=True, delete_existing=True).result()
halo = 6
for corner in itertools.product(range(0, n, 64), repeat=3):
    lo = [max(0, c - halo) for c in corner]
    hi = [min(n, c + 64 + halo) for c in corner]
    box = tuple(slice(p, q) for p, q in zip(lo, hi))
    inner = tuple(slice(c - p, c - p + 64) for c, p in zip(corner, lo))
    smooth = gaussian_filter(a[box].read().result().astype(np.float32), 1.5, mode="nearest")[inner]
    b[tuple(slice(c, c + 64) for c in corner)] = (smooth >= 120).astype(np.uint8)
"""

BARE = """
import sys
import numpy as np
rng = np.random.default_rng(0)
matrix = rng.random((74, 74), np.float32)
block = rng.random((74, 74 * 74), np.float32)
for _ in range(int(sys.argv[1])):
    block = np.clip(matrix @ block, 0, 1)
"""


@dataclass(frozen=True)
class Taken:
    """What a process took, in seconds."""

    cpu: float
    wall: float


def take(words: list[str], env: dict[str, str] = ONE_BLAS_THREAD) -> Taken:
    """Run a process to its end."""
    return take_all([words], env)


def take_all(many: list[list[str]], env: dict[str, str] = ONE_BLAS_THREAD) -> Taken:
    """Run processes side by side: CPU of all, wall until the last."""
    began = time.perf_counter()
    started = [
        subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env) for words in many
    ]
    cpu = 0.0
    for process in started:
        told = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{process.args[:4]}: exit {process.returncode}: {told}")
        cpu += used.ru_utime + used.ru_stime
    return Taken(cpu, time.perf_counter() - began)


SMOOTH = ("--op", "gaussian:sigma=1.5", "--op", "threshold:low=120")
_numbers = itertools.count()


def fresh(folder: Path) -> Path:
    """A place that nothing was ever at."""
    return folder / f"{next(_numbers)}.zarr"


def ours(source: Path, *options: str) -> list[str]:
    target = fresh(source.parent)
    return [sys.executable, "-m", "chunkloom", "materialize", str(source), str(target), "--json", *options]


def turns(rounds: int, a: Callable[[], Taken], b: Callable[[], Taken]) -> tuple[list[Taken], list[Taken]]:
    """Both, `rounds` times, taking turns; the first round does not count."""
    mine, other = [], []
    for number in range(rounds + 1):
        first, second = a(), b()
        if number:
            mine.append(first)
            other.append(second)
    return mine, other


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="256^3, 1 round: does it run?")
    parser.add_argument("--only", default="", help="re-encoding, matching, gaussian, two")
    parser.add_argument("--folder", help="Where data lie, 5 GB at most. Default: the folder of temporary files.")
    options = parser.parse_args()
    n, rounds = (256, 1) if options.quick else (512, options.rounds)
    rows: list[tuple[str, float, float, float, float]] = []

    def row(name: str, mine: float, other: float, goal: float, at_least: bool = False) -> None:
        value = mine / other
        good = value >= goal if at_least else value <= goal
        rows.append((name, mine, other, value, goal))
        missed.extend([] if good else [name])
        print(f"{name:<46} {mine:>8.3f} {other:>8.3f} {value:>7.2f} {goal:>6.2f}{'' if good else '   <-- missed'}")
        sys.stdout.flush()

    def both(name: str, goal: float, a: Callable[[], Taken], b: Callable[[], Taken]) -> None:
        mine, other = turns(rounds, a, b)
        row(f"{name}, CPU s", median(t.cpu for t in mine), median(t.cpu for t in other), goal)
        row(f"{name}, wall s", median(t.wall for t in mine), median(t.wall for t in other), goal)

    missed: list[str] = []
    print(f"{'':<46} {'ours':>8} {'other':>8} {'ratio':>7} {'goal':>6}")
    with tempfile.TemporaryDirectory(dir=options.folder) as text:
        folder = Path(text)
        source = make_data(folder, n)
        codecs = json.dumps(CODECS)

        def copy(word: str, begin: int = 0) -> Callable[[], Taken]:
            def run() -> Taken:
                return take(
                    [sys.executable, "-c", COPY, str(source), str(fresh(folder)), word, str(n), codecs, str(begin)]
                )

            return run

        def scipy() -> Taken:
            return take([sys.executable, "-c", SCIPY, str(source), str(fresh(folder)), str(n), codecs])

        if options.only in ("", "re-encoding"):
            both("re-encoding", 1.1, lambda: take(ours(source, "--codec", "zstd")), copy("zarr3"))
        matching = ("--format", "zarr2", "--codec", "blosc")
        if options.only in ("", "matching"):
            both("matching codec, level", 0.3, lambda: take(ours(source, *matching)), copy("zarr2"))
            edges = ("--box", f"64:{n},0:{n},0:{n}")
            both("matching codec, box", 0.3, lambda: take(ours(source, *matching, *edges)), copy("zarr2", 64))
        if options.only in ("", "gaussian"):
            both("gaussian + threshold", 0.5, lambda: take(ours(source, *SMOOTH)), scipy)
        if options.only in ("", "two"):
            row("two processors, gain", *two(source, rounds), 0.85, at_least=True)
    if not options.quick and not options.only:
        results = HERE / "results"
        results.mkdir(exist_ok=True)
        head = f"# benchmarks/materialize.py, {time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores"
        lines = [f"{name}\t{a:.3f}\t{b:.3f}\t{r:.2f}\t{g}" for name, a, b, r, g in rows]
        (results / "materialize.tsv").write_text("\n".join([head, "what\tours\tother\tratio\tgoal", *lines]) + "\n")
    sys.exit(bool(missed))


def two(source: Path, rounds: int) -> tuple[float, float]:
    """What a second thread gains us, and what a second process gains a bare one: the best of the rounds."""
    count = 2000
    mine, bare = [], []
    for _ in range(rounds):
        one = take(ours(source, *SMOOTH, "--workers", "1")).wall
        mine.append(one / take(ours(source, *SMOOTH, "--workers", "2")).wall)
        alone = take([sys.executable, "-c", BARE, str(2 * count)]).wall
        bare.append(alone / take_all([[sys.executable, "-c", BARE, str(count)]] * 2).wall)
    return max(mine), max(bare)


if __name__ == "__main__":
    main()
