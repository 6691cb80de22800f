"""Which GPU queues could run a job now, and the order to try them in."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from chunkloom.jobs.commands import Answer, NoAnswerError, ask
from chunkloom.jobs.queue_tables import GpuCount, bhosts, bhosts_gpus, bqueues, sinfo, squeue_counts
from chunkloom.jobs.site import Queue, SiteProfile

CACHED_S = 60.0


@dataclass(frozen=True)
class QueueState:
    """One queue. Numbers are None where the scheduler does not tell."""

    queue: str
    label: str
    status: str = "unknown"
    open: bool | None = None
    accepting: bool | None = None
    pending: int | None = None
    running: int | None = None
    hosts_ok: int | None = None
    hosts_full: int | None = None
    hosts_down: int | None = None
    hosts_total: int | None = None
    gpus_free: int | None = None
    gpus_total: int | None = None
    description: str = ""


@dataclass(frozen=True)
class Availability:
    """All queues of a site, as they were `age_seconds` ago. Not `available`: nobody could be asked."""

    available: bool
    queues: tuple[QueueState, ...]
    age_seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self) | {"queues": [asdict(queue) for queue in self.queues]}


@dataclass
class _Cached:
    lock: threading.Lock = field(default_factory=threading.Lock)
    held: dict[SiteProfile, tuple[float, Availability]] = field(default_factory=dict)


_cached = _Cached()


def gpu_queue_availability(site: SiteProfile, max_age_s: float = CACHED_S) -> Availability:
    """How a site's queues are doing, asked again after `max_age_s`. Never raises."""
    with _cached.lock:
        made, found = _cached.held.get(site, (0.0, None))
        now = time.monotonic()
        if found is None or now - made > max_age_s:
            found = observe(site)
            made = now = time.monotonic()
            _cached.held[site] = (made, found)
        return replace(found, age_seconds=round(now - made, 1))


def observe(site: SiteProfile) -> Availability:
    """Ask the scheduler's commands now."""
    states = None
    if site.scheduler == "lsf":
        states = _lsf(site.queues)
    elif site.scheduler == "slurm":
        states = _slurm(site.queues)
    if states is None:
        return Availability(False, tuple(_named(queue) for queue in site.queues))
    return Availability(True, tuple(states))


def candidates(preferred: str | None, availability: Availability, *, cycle: bool = True) -> list[str | None]:
    """Queues to try, in order.

    The preferred one first, or last where its scheduler says that it takes no jobs; between, the others that take jobs,
    those with most free GPUs first, then those with fewest jobs waiting. Without `cycle`, the preferred one alone.
    """
    if not cycle:
        return [preferred]
    by_name = {state.queue: state for state in availability.queues}
    others = [state for state in availability.queues if state.queue != preferred and state.accepting]
    others.sort(key=lambda s: (-(s.gpus_free or 0), s.pending if s.pending is not None else float("inf")))
    names: list[str | None] = [state.queue for state in others]
    if preferred is None:
        return names or [None]
    own = by_name.get(preferred)
    return [*names, preferred] if own is not None and own.accepting is False else [preferred, *names]


def _named(queue: Queue) -> QueueState:
    return QueueState(queue.name, queue.label or queue.name, description=queue.description)


def _lsf(queues: Sequence[Queue]) -> list[QueueState] | None:
    table = _table(["bqueues"])
    if table is None:
        return None
    rows = bqueues(table)
    states = []
    for queue in queues:
        state, row = _named(queue), rows.get(queue.name)
        if row is None:
            # LSF answered, and has no such queue.
            states.append(replace(state, status="no such queue", open=False, accepting=False))
            continue
        group = [queue.host_group] if queue.host_group else []
        hosts = bhosts(_table(["bhosts", "-w", *group]) or "")
        gpus = bhosts_gpus(_table(["bhosts", "-gpu", *group]) or "")
        usable = {name for name, status in hosts.items() if status == "ok"}
        free, total = _gpus(gpus, usable if hosts else set(gpus))
        states.append(
            replace(
                state,
                status=row.status,
                open=row.status.startswith("Open"),
                # An inactive queue takes jobs and does not start them.
                accepting=row.status == "Open:Active" and (not hosts or any(not _down(s) for s in hosts.values())),
                pending=row.pending,
                running=row.running,
                hosts_ok=len(usable) if hosts else None,
                hosts_full=sum(not _down(s) and s != "ok" for s in hosts.values()) if hosts else None,
                hosts_down=sum(_down(s) for s in hosts.values()) if hosts else None,
                hosts_total=len(hosts) if hosts else None,
                gpus_free=free,
                gpus_total=total,
            )
        )
    return states


def _slurm(queues: Sequence[Queue]) -> list[QueueState] | None:
    table = _table(
        ["sinfo", "--noheader", "--Node", "--Format=Partition:|,Available:|,NodeHost:|,StateLong:|,Gres:|,GresUsed:|"]
    )
    if table is None:
        return None
    rows = sinfo(table)
    counts = squeue_counts(_table(["squeue", "--noheader", "--states=PENDING,RUNNING", "--format=%P|%T"]) or "")
    # A profile that names no partitions has those that Slurm has.
    names = queues or [Queue(name) for name in rows]
    states = []
    for queue in names:
        state, row = _named(queue), rows.get(queue.name)
        if row is None:
            states.append(replace(state, status="no such partition", open=False, accepting=False))
            continue
        free, total = _gpus(row.gpus, set(row.nodes) - set(row.down))
        states.append(
            replace(
                state,
                status=row.available,
                open=row.available == "up",
                accepting=row.available == "up" and len(row.down) < len(row.nodes),
                pending=counts.get((queue.name, "PENDING"), 0),
                running=counts.get((queue.name, "RUNNING"), 0),
                hosts_ok=len(row.nodes) - len(row.down) - len(row.full),
                hosts_full=len(row.full),
                hosts_down=len(row.down),
                hosts_total=len(row.nodes),
                gpus_free=free,
                gpus_total=total,
            )
        )
    return states


def _down(status: str) -> bool:
    """LSF: hosts that are closed because they are busy come back by themselves."""
    return status.startswith(("unavail", "unreach", "unlicensed")) or status in ("closed_Adm", "closed_LIM")


def _gpus(gpus: dict[str, GpuCount], usable: Iterable[str]) -> tuple[int | None, int | None]:
    """GPUs free on usable hosts, and all of them."""
    if not gpus:
        return None, None
    usable = set(usable)
    return (
        sum(count.free for host, count in gpus.items() if host in usable),
        sum(count.total for count in gpus.values()),
    )


def _table(argv: list[str]) -> str | None:
    """What a command prints, or None where it fails."""
    try:
        answer: Answer = ask(argv)
    except NoAnswerError:
        return None
    return answer.stdout if answer.code == 0 else None
