"""Network files: this engine against BSB's own, the same calls in one run.

    python benchmarks/network.py [--rounds 3] [--slow-rounds 1] [--only append,connect] [--scale]

Both engines are used through BSB's interfaces. Ours includes making the HDF5 file that other programs read (a
checkpoint); files are made and opened anew for each measurement. Times are CPU seconds (user and system) of this
process, medians of rounds in which the engines take turns; wall seconds stand beside them. Needs bsb-core and
bsb-hdf5 8.0.2, and chunkloom installed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("BSB_IGNORE_PARALLEL", "1")

import numpy as np  # noqa: E402

SIZE = (100.0, 100.0, 100.0)
ENGINES = ("hdf5", "chunkloom")
Timing = tuple[float, float]


def timed(work: Callable[[], Any]) -> Timing:
    """CPU and wall seconds of a call."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def cell_type(name: str) -> Any:
    from bsb import CellType

    return CellType(name=name, spatial={"radius": 1, "count": 1})


def chunks(count: int) -> list[Any]:
    from bsb import Chunk

    side = int(np.ceil(count ** (1 / 3)))
    return [Chunk((i % side - side // 2, i // side % side, i // side**2), SIZE) for i in range(count)]


def opened(engine: str, path: Path) -> Any:
    from bsb import Storage

    return Storage(engine, str(path))


def settle(engine: str, path: Path) -> None:
    """All that was written is in the file for any program to read."""
    from chunkloom.network import NetworkFile

    if engine == "chunkloom":
        NetworkFile.open(path).close()


def append(engine: str, path: Path, count: int, rotations: bool = True, cells: int = 100, name: str = "cell") -> Timing:
    """Append `count` chunks, one call each."""
    rows = np.random.default_rng(0).random((count, cells, 3))
    ps = opened(engine, path).require_placement_set(cell_type(name))
    where = chunks(count)

    def work() -> None:
        for chunk, row in zip(where, rows, strict=True):
            ps.append_data(chunk, positions=row, **({"rotations": row} if rotations else {}))
        settle(engine, path)

    return timed(work)


def load(engine: str, path: Path) -> Timing:
    settle("chunkloom", path)

    def work() -> None:
        opened(engine, path).get_placement_set(cell_type("cell")).load_positions()

    return timed(work)


def one_chunk(engine: str, path: Path, count: int) -> tuple[Timing, Timing]:
    """Ids of the cells of one chunk: of an open placement set; and with opening the file and the set."""
    settle("chunkloom", path)
    chunk, found = chunks(count)[count // 2], []

    def cold() -> None:
        found.append(opened(engine, path).get_placement_set(cell_type("cell"), chunks=[chunk]))
        found[0].load_ids()

    first = timed(cold)
    return timed(found[0].load_ids), first


def label(engine: str, path: Path) -> Timing:
    ps = opened(engine, path).get_placement_set(cell_type("cell"))
    chosen = np.arange(0, len(ps), 10)

    def work() -> None:
        ps.label(["tenth"], chosen)
        settle(engine, path)

    return timed(work)


def pair_of_sets(engine: str, path: Path, pre_chunks: int, post_chunks: int, cells: int) -> tuple[Any, Any, Any]:
    """Two placement sets (written by our engine, which is quick) and a connectivity set, as `engine` opens them."""
    from chunkloom.network import NetworkFile

    network = NetworkFile.create(path, chunk_size=SIZE)
    with network.write_scope():
        for name, count in (("pre", pre_chunks), ("post", post_chunks)):
            placed = network.require_placement(name)
            for i in range(count):
                placed.append_data((i, 0, 0), np.zeros((cells, 3)))
    storage = opened(engine, path)
    pre, post = (storage.get_placement_set(cell_type(n)) for n in ("pre", "post"))
    links = storage._ConnectivitySet.require(storage._engine, cell_type("pre"), cell_type("post"), "links")
    settle(engine, path)
    return pre, post, links


def synapses(count: int, pre: int, post: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    src = np.column_stack((rng.integers(0, pre, count), rng.integers(0, 20, count), rng.integers(0, 100, count)))
    dst = np.column_stack((rng.integers(0, post, count), rng.integers(0, 20, count), rng.integers(0, 100, count)))
    return src, dst


def connect(engine: str, path: Path) -> tuple[Timing, Timing]:
    """A million synapses over 100 pairs of chunks; then ten further connects of 10,000."""
    pre, post, links = pair_of_sets(engine, path, 10, 10, 1000)
    src, dst = synapses(1_000_000, 10_000, 10_000)
    more = [synapses(10_000, 10_000, 10_000) for _ in range(10)]

    def first() -> None:
        links.connect(pre, post, src, dst)
        settle(engine, path)

    def further() -> None:
        for a, b in more:
            links.connect(pre, post, a, b)
        settle(engine, path)

    return timed(first), timed(further)


def fan_out(engine: str, path: Path) -> Timing:
    """One source chunk to 1,000 target chunks, 10 synapses each, in one connect."""
    pre, post, links = pair_of_sets(engine, path, 1, 1000, 10)
    src = np.column_stack((np.arange(10_000) % 10, np.zeros((10_000, 2), int)))
    dst = np.column_stack((np.arange(10_000), np.zeros((10_000, 2), int)))

    def work() -> None:
        links.connect(pre, post, src, dst)
        settle(engine, path)

    return timed(work)


class Table:
    """Rows of the report."""

    def __init__(self) -> None:
        print("| what | BSB cpu s | ours cpu s | ratio | BSB wall s | ours wall s | wall ratio | target | |")
        print("|---|---|---|---|---|---|---|---|---|")

    def row(self, what: str, theirs: list[Timing], ours: list[Timing], target: float) -> None:
        a, b = ([statistics.median(t[i] for t in side) for i in (0, 1)] for side in (theirs, ours))
        ratio = a[0] / b[0]
        verdict = "" if not target else "met" if ratio >= target else "MISSED"
        print(
            f"| {what} | {a[0]:.3f} | {b[0]:.4f} | {ratio:.1f}x | {a[1]:.3f} | {b[1]:.4f} | {a[1] / b[1]:.1f}x "
            f"| {f'{target:g}x' if target else ''} | {verdict} |",
            flush=True,
        )


def compare(folder: Path, rounds: int, slow: int, only: list[str]) -> None:
    table, turn = Table(), iter(range(10_000))

    def path(engine: str) -> Path:
        return folder / f"{engine}-{next(turn)}.hdf5"

    def wanted(name: str) -> bool:
        return not only or name in only

    def taking_turns(times: int, measure: Callable[[str], Any]) -> list[list[Any]]:
        found: list[list[Any]] = [[], []]
        for _ in range(times):
            for side, engine in enumerate(ENGINES):
                found[side].append(measure(engine))
        return found

    if wanted("append"):
        sizes: list[int] = []

        def appended(engine: str) -> Timing:
            where = path(engine)
            took = append(engine, where, 3000)
            if engine == "chunkloom":
                sizes.append(os.path.getsize(where))
            os.unlink(where)
            return took

        theirs, ours = taking_turns(slow, appended)
        ours.extend(appended("chunkloom") for _ in range(rounds - slow))
        table.row("append 3,000 chunks x 100 cells", theirs, ours, 30)
        many = [append("chunkloom", path("chunkloom"), 10_000) for _ in range(rounds)]
        base = statistics.median(t[0] for t in ours)
        growth = statistics.median(t[0] for t in many) / base
        verdict = "met" if growth <= 4 else "MISSED"
        print(
            f"| append 10,000 chunks: ours against our 3,000 | | {base * growth:.3f} | {growth:.2f}x | | | | <= 4x | "
            f"{verdict} |"
        )
        payload = 3000 * 100 * 48
        extra = (sizes[0] - 1.5 * payload) / 3000
        verdict = "met" if extra <= 2500 else "MISSED"
        print(
            f"| bytes a chunk of 4,800 bytes of payload | | {sizes[0] / 3000:.0f} | {sizes[0] / payload:.2f}x | | | "
            f"| <= 1.5x + 2,500 | {verdict} |",
            flush=True,
        )
    if wanted("load") or wanted("label"):
        files = {e: path(e) for e in ENGINES}
        for engine, where in files.items():
            append(engine, where, 1000)
    if wanted("load"):
        theirs, ours = taking_turns(rounds + 2, lambda e: load(e, files[e]))
        table.row("load all positions of 1,000 chunks, each its own file", theirs, ours, 3)
        theirs, ours = taking_turns(rounds + 2, lambda e: load(e, files["hdf5"]))
        table.row("load all positions, the file BSB wrote", theirs, ours, 2)
        big = path("chunkloom")
        append("chunkloom", big, 6114, rotations=False)
        theirs, ours = taking_turns(rounds + 2, lambda e: one_chunk(e, big, 6114))
        table.row("ids of one chunk of 6,114", [t[0] for t in theirs], [t[0] for t in ours], 20)
        table.row("the same, and opening the file", [t[1] for t in theirs], [t[1] for t in ours], 0)
    if wanted("label"):
        theirs, ours = taking_turns(1, lambda e: label(e, files[e]))
        for _ in range(rounds - 1):
            for side, engine in ((theirs, "hdf5"), (ours, "chunkloom")):
                where = path(engine)
                append("chunkloom", where, 1000)
                side.append(label(engine, where))
        table.row("label 10 % of 100,000 cells", theirs, ours, 5)
    if wanted("connect"):
        theirs, ours = taking_turns(slow, lambda e: connect(e, path(e)))
        ours.extend(connect("chunkloom", path("chunkloom")) for _ in range(rounds - slow))
        table.row("connect 1 M synapses over 100 pairs", [t[0] for t in theirs], [t[0] for t in ours], 5)
        table.row("ten further connects of 10,000", [t[1] for t in theirs], [t[1] for t in ours], 20)
    if wanted("fan"):
        theirs, ours = taking_turns(slow, lambda e: fan_out(e, path(e)))
        ours.extend(fan_out("chunkloom", path("chunkloom")) for _ in range(rounds - slow))
        table.row("connect 1 x 1,000 chunks x 10", theirs, ours, 50)


def scale(folder: Path, rounds: int) -> None:
    """Our own seconds and bytes per chunk, few chunks against many."""
    per: dict[int, Any] = {}
    for count in (1000, 50_000):
        times = []
        for turn in range(rounds if count == 1000 else 1):
            where = folder / f"scale-{count}-{turn}.hdf5"
            times.append(append("chunkloom", where, count)[0])
        per[count] = statistics.median(times) / count, os.path.getsize(where) / count
    for at, what, unit in ((0, "ms", 1e3), (1, "bytes", 1)):
        few, many = (per[c][at] * unit for c in per)
        verdict = "met" if many <= 1.2 * few else "MISSED"
        print(
            f"| {what} a chunk: 1,000 chunks, 50,000 chunks | {few:.4g} | {many:.4g} | {many / few:.2f}x | <= 1.2x | "
            f"{verdict} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slow-rounds", type=int, default=1, help="rounds of what takes BSB's engine minutes")
    parser.add_argument("--only", default="", help="some of append,load,label,connect,fan")
    parser.add_argument("--scale", action="store_true", help="only: 50,000 chunks against 1,000")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        if options.scale:
            scale(Path(folder), options.rounds)
        else:
            only = [name for name in options.only.split(",") if name]
            compare(Path(folder), options.rounds, options.slow_rounds, only)


if __name__ == "__main__":
    main()
