"""CPU time until chunkloom answers: its help, and from the start of a server to its first chunk.

    python benchmarks/startup.py [--rounds 10]

Of the whole process, user and system time, all threads. Medians; the first round of each is not counted, so that files
are in memory. Fails where a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path
from statistics import median

from load import cpu_seconds
from results import Table
from serve import make_data, ours

GAUSSIAN = ("--op", "gaussian:sigma=1.5", "--op", "threshold:low=120")


def help_cpu_s() -> float:
    """CPU seconds of `chunkloom --help`."""
    process = subprocess.Popen([sys.executable, "-m", "chunkloom", "--help"], stdout=subprocess.DEVNULL)
    _, status, use = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"--help ended with {process.returncode}")
    return use.ru_utime + use.ru_stime


def first_chunk_cpu_s(source: str, *options: str) -> float:
    """CPU seconds of a server from its start until it has answered one chunk."""
    with ours(source, *options) as server:
        url = server.ready["volumes"][0]["urls"]["zarr2"] + "/s0/1/1/1"
        with urllib.request.urlopen(url) as answer:
            answer.read()
        return cpu_seconds(server.pid)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        source = str(make_data(Path(folder), 128))
        cases: dict[str, tuple[Callable[[], float], float]] = {
            "chunkloom --help": (help_cpu_s, 0.15),
            "first chunk, synthetic": (lambda: first_chunk_cpu_s("synthetic://em"), 0.55),
            "first chunk, zarr v2 passed through": (lambda: first_chunk_cpu_s(source), 0.55),
            "first chunk, encoded again": (lambda: first_chunk_cpu_s(source, "--codec", "zstd"), 0.55),
            "first chunk, gaussian + threshold": (lambda: first_chunk_cpu_s(source, *GAUSSIAN), 0.55),
        }
        table = Table("startup", ("what", "cpu_s", "worst_cpu_s", "goal_s"))
        for name, (measure, goal) in cases.items():
            taken = [measure() for _ in range(rounds + 1)][1:]
            table.row(name, round(median(taken), 3), round(max(taken), 3), goal, over=median(taken) > goal)
    sys.exit(table.finish())


if __name__ == "__main__":
    main()
