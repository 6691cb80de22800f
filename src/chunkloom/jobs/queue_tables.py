"""Reading what ``bqueues``, ``bhosts``, ``sinfo`` and ``squeue`` print. Runs nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class LsfQueue:
    """A row of ``bqueues``."""

    status: str
    pending: int | None
    running: int | None


@dataclass
class GpuCount:
    """GPUs of one host."""

    free: int = 0
    total: int = 0


@dataclass
class Partition:
    """What ``sinfo`` says of a partition."""

    available: str
    nodes: list[str] = field(default_factory=list)
    down: list[str] = field(default_factory=list)
    full: list[str] = field(default_factory=list)
    gpus: dict[str, GpuCount] = field(default_factory=dict)


def bqueues(table: str) -> dict[str, LsfQueue]:
    """Queues by name."""
    return {
        row["QUEUE_NAME"]: LsfQueue(row.get("STATUS", "unknown"), _whole(row.get("PEND")), _whole(row.get("RUN")))
        for row in _rows(table, "QUEUE_NAME")
    }


def bhosts(table: str) -> dict[str, str]:
    """Status of each host of ``bhosts -w``."""
    return {row["HOST_NAME"]: row.get("STATUS", "unknown") for row in _rows(table, "HOST_NAME")}


def bhosts_gpus(table: str) -> dict[str, GpuCount]:
    """GPUs of each host of ``bhosts -gpu``; one with no job on it is free.

    A host is named in the row of its first GPU alone.
    """
    found: dict[str, GpuCount] = {}
    header: list[str] = []
    host = None
    for line in table.splitlines():
        cells = line.split()
        if cells[:1] == ["HOST_NAME"]:
            header = cells
            continue
        if not cells or "NJOBS" not in header or "ID" not in header:
            continue
        if line[0].isspace() and host is not None:
            cells = [host, *cells]
        row = dict(zip(header, cells, strict=False))
        host, jobs = row["HOST_NAME"], _whole(row.get("NJOBS"))
        if jobs is None or not row["ID"].isdigit():
            continue
        count = found.setdefault(host, GpuCount())
        count.total += 1
        count.free += jobs == 0
    return found


def sinfo(table: str) -> dict[str, Partition]:
    """Partitions of a node-wise ``sinfo``: partition, available, node, state, gres, gres used, each ended by ``|``."""
    found: dict[str, Partition] = {}
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) < 6 or not cells[0]:
            continue
        name, available, node, state, gres, used = cells[:6]
        partition = found.setdefault(name.rstrip("*"), Partition(available))
        partition.nodes.append(node)
        flags = state.rstrip("*~#!%$@^-")
        if state.endswith("*") or re.match(r"down|drain|fail|maint|unknown|powered_down|reboot", flags):
            partition.down.append(node)
        elif flags.startswith("alloc"):
            partition.full.append(node)
        total = _gres(gres)
        if total:
            partition.gpus[node] = GpuCount(max(0, total - _gres(used)), total)
    return found


def squeue_counts(table: str) -> Counter[tuple[str, str]]:
    """Jobs by partition and state. A pending job that names several partitions waits in each."""
    counts: Counter[tuple[str, str]] = Counter()
    for line in table.splitlines():
        partitions, _, state = line.strip().partition("|")
        for name in partitions.split(","):
            counts[(name.strip(), state.strip())] += 1
    return counts


def _gres(text: str) -> int:
    """GPUs in ``gpu:h100:8(S:0-1),tmp:3``."""
    total = 0
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        words = part.strip().split(":")
        if words[0] == "gpu":
            total += int(words[-1]) if words[-1].isdigit() else 1
    return total


def _rows(table: str, first: str) -> Iterator[dict[str, str]]:
    header: list[str] = []
    for line in table.splitlines():
        cells = line.split()
        if cells[:1] == [first]:
            header = cells
        elif cells and header:
            yield dict(zip(header, cells, strict=False))


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
