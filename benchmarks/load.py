"""A client that asks for chunks over many keep-alive connections, and the CPU time of the server it asks.

Bare sockets on one event loop: a client that takes little of the machine it shares with the server.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Load:
    """What one pass over the chunks cost."""

    chunks: int
    nbytes: int
    seconds: float
    server_cpu_ms_per_chunk: float


def cpu_seconds(pid: int) -> float:
    """CPU time of a process, all its threads, those that ended included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    live = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            live += int((task / "schedstat").read_text().split()[0]) / 1e9
        except OSError:
            continue
    # Ticks are 10 ms; the scheduler's own figure is exact but forgets threads that ended.
    return max(live, ticks / os.sysconf("SC_CLK_TCK") - 0.02)


async def _worker(host: str, port: int, paths: Sequence[str], check: bool) -> int:
    reader, writer = await asyncio.open_connection(host, port, limit=4 << 20)
    total = 0
    try:
        for path in paths:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            status = int(head[9:12])
            lower = head.lower()
            at = lower.index(b"content-length:") + 15
            length = int(lower[at : lower.index(b"\r\n", at)])
            if length:
                await reader.readexactly(length)
            if check and status not in (200, 404):
                raise RuntimeError(f"{path}: status {status}")
            total += length
    finally:
        writer.close()
    return total


def ask_all(pid: int, host: str, port: int, paths: Sequence[str], connections: int = 16) -> Load:
    """Ask for every path once, spread over the connections in turn."""

    async def run() -> int:
        shares = [paths[i::connections] for i in range(connections)]
        return sum(await asyncio.gather(*(_worker(host, port, share, True) for share in shares if share)))

    before, began = cpu_seconds(pid), time.perf_counter()
    nbytes = asyncio.run(run())
    seconds = time.perf_counter() - began
    cpu = cpu_seconds(pid) - before
    return Load(len(paths), nbytes, seconds, cpu * 1000 / len(paths))
