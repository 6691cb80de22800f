"""What chunks that nobody waits for any more cost the next one.

    python benchmarks/abandon.py [--rounds 5]

A median filter (about half a second a chunk) over noise. Each round asks for 120 cold chunks, one
connection each, hangs up on all, and at once asks for another cold chunk. That one takes at most one job's time plus
twice its idle time (what it takes with nobody else there), and at most cores + 2 of the abandoned ones are computed.
The server counts its computations itself.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any

from results import Table

ABANDONED = 120
SIDE = 9  # chunks


def serve() -> None:
    """A server process: prints its port, then answers each line on stdin with what it has computed."""
    from chunkloom import Pipeline, array_volume, create_app, ops
    from chunkloom.engine.cache import ChunkCache
    from chunkloom.serving.run import VolumeServer

    taken: list[float] = []

    @dataclasses.dataclass(frozen=True)
    class Counted(ops.Median):
        def apply(self, block: Any) -> Any:
            began = time.perf_counter()
            made = super().apply(block)
            taken.append(time.perf_counter() - began)
            return made

    import numpy as np

    array = np.random.default_rng(0).integers(0, 256, (SIDE * 64,) * 3, np.uint8)
    volume = Pipeline(array_volume(array, chunk=(64, 64, 64)), [Counted(size=5)], cache=ChunkCache(64 << 20))
    with VolumeServer(create_app({"a": volume})) as server:
        print(json.dumps({"port": server.port}), flush=True)
        for _ in sys.stdin:
            said = {"computed": len(taken), "last_s": taken[-1] if taken else 0.0, **server.app.scheduler.snapshot()}
            print(json.dumps(said), flush=True)


class Server:
    """The server process, asked over HTTP and over its stdin."""

    def __enter__(self) -> Server:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "--server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        assert self._process.stdout is not None
        self.port: int = json.loads(self._process.stdout.readline())["port"]
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(20)

    def state(self) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        said: dict[str, Any] = json.loads(self._process.stdout.readline())
        return said

    def ask(self, index: tuple[int, ...]) -> socket.socket:
        """Ask for a chunk; the answer is still to be read."""
        made = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        path = "/".join(str(i) for i in index)
        made.sendall(f"GET /a/zarr2/s0/{path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode())
        return made

    def seconds(self, index: tuple[int, ...]) -> float:
        """How long a chunk takes from the request to the first bytes of its answer."""
        began = time.perf_counter()
        with self.ask(index) as asked:
            head = asked.recv(64)
        if b" 200 " not in head:
            raise RuntimeError(f"chunk {index}: {head!r}")
        return time.perf_counter() - began

    def settle(self) -> dict[str, Any]:
        """Wait until nothing is waiting or running."""
        while (found := self.state())["running"] or found["waiting"]:
            time.sleep(0.01)
        return found


def cold_chunks() -> Iterator[tuple[int, ...]]:
    """Each chunk of the volume once. All cost the same: those at the border are computed with padding."""
    yield from itertools.product(range(SIDE), repeat=3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--server", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.server:
        serve()
        return
    cores = os.cpu_count() or 1
    fresh = cold_chunks()
    table = Table("abandon", ("round", "idle_s", "job_s", "new_s", "goal_s", "computed", "goal"))
    with Server() as server:
        server.seconds(next(fresh))  # imports
        idle_s, job_s = [], []
        for _ in range(5):
            idle_s.append(server.seconds(next(fresh)))
            job_s.append(server.state()["last_s"])
        idle, job = median(idle_s), median(job_s)
        goal = job + 2 * idle
        for number in range(1, options.rounds + 1):
            before = server.settle()["computed"]
            asked = [server.ask(next(fresh)) for _ in range(ABANDONED)]
            while sum((now := server.state())["waiting"].values()) < ABANDONED - cores - now["computed"] + before:
                time.sleep(0.005)
            for connection in asked:
                connection.close()
            new = server.seconds(next(fresh))
            computed = server.settle()["computed"] - before - 1
            table.row(
                f"{number}: {ABANDONED} abandoned",
                *(round(value, 3) for value in (idle, job, new, goal)),
                computed,
                cores + 2,
                over=new > goal or computed > cores + 2,
            )
    sys.exit(table.finish())


if __name__ == "__main__":
    main()
