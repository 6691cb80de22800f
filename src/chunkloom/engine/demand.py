"""Demand: which chunk is made next, for whom, and when to give up.

One `Claim` is one client waiting for one chunk. Claims of the same chunk share one job. As many jobs run as there are
workers; a job nobody waits for any more is dropped, and a running one stops at its next `Work.check()`. Knows nothing
of HTTP: the server makes claims and releases them.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chunkloom.errors import CancelledWorkError, YieldedWorkError

if TYPE_CHECKING:
    from concurrent.futures import Future


class Work:
    """What a computation may ask about who waits for it."""

    def check(self) -> None:
        """Raise `CancelledWorkError` when nobody waits for the result any more."""


UNCLAIMED = Work()
"""Work that a caller waits for itself, in its own thread: never cancelled."""


Rank = tuple[bool, int, int]
"""Background, cost and level: the smallest comes first."""

MOST_YIELDS = 50

NOTHING: Rank = (True, 1 << 62, 0)


@dataclass(eq=False)
class Job(Work):
    """One chunk to make, for all who claim it."""

    key: Hashable
    level: int
    cost: int
    run: Callable[[Work], Any]
    queue: Queue
    claims: list[Claim] = field(default_factory=list)
    started: bool = False
    yields: int = 0

    @property
    def background(self) -> bool:
        return all(claim.background for claim in self.claims)

    @property
    def rank(self) -> Rank:
        return (self.background, self.cost, self.level)

    def check(self) -> None:
        if not self.claims:
            raise CancelledWorkError(f"nobody waits for {self.key} any more")
        # What has been computed so far is in the caches, as far as they hold it: going on later loses little. But a
        # job that has made way so often goes on to its end.
        if self.cost > 1 and self.queue.best < self.rank and self.yields < MOST_YIELDS:
            self.yields += 1
            raise YieldedWorkError(f"{self.key} waits for what comes before it")


@dataclass(eq=False)
class Claim:
    """One client waiting for one chunk. `future` gets the result; `release` gives up."""

    job: Job
    client: Hashable
    background: bool
    future: Future[Any]
    _release: Callable[[Claim], None]

    @property
    def waits(self) -> bool:
        """Whether it still waits for a job that has not started."""
        return not self.job.started and self in self.job.claims

    def release(self) -> None:
        """Stop waiting. The job is dropped, or stops early, when this was its last claim. May be called twice."""
        self._release(self)


class Queue:
    """Claims in the order they are served: background last, cheap before dear, finest level first, clients in turn.

    Within a rank, the client served longest ago comes first, with its earliest claim. `best` is the rank of what comes
    next; it may be read without a lock.
    """

    def __init__(self) -> None:
        self.best = NOTHING
        self._ranks: dict[Rank, dict[Hashable, deque[Claim]]] = {}
        self._served: dict[Hashable, int] = {}
        self._turn = 0

    def add(self, claim: Claim) -> None:
        rank = (claim.background, claim.job.cost, claim.job.level)
        # A new client begins where the others are, not before all of them.
        self._served.setdefault(claim.client, self._turn)
        self._ranks.setdefault(rank, {}).setdefault(claim.client, deque()).append(claim)
        self.best = min(self.best, rank)

    def take(self, background_too: bool) -> Job | None:
        """The job to run next, marked as started; None when none may start."""
        for rank in sorted(self._ranks):
            self.best = rank
            if rank[0] and not background_too:
                return None
            clients = self._ranks[rank]
            for client in sorted(clients, key=lambda c: self._served.get(c, 0)):
                claims = clients[client]
                while claims and not claims[0].waits:
                    claims.popleft()
                if not claims:
                    del clients[client]
                    continue
                started = self._start(claims.popleft().job)
                self.best = self._first()
                return started
            del self._ranks[rank]
        self.best = NOTHING
        return None

    def _first(self) -> Rank:
        """The rank of what comes next, what has been given up left out."""
        for rank in sorted(self._ranks):
            for claims in self._ranks[rank].values():
                while claims and not claims[0].waits:
                    claims.popleft()
                if claims:
                    return rank
        return NOTHING

    def _start(self, job: Job) -> Job:
        job.started = True
        self._turn += 1
        if len(self._served) > 10_000:
            self._served.clear()
        for claim in job.claims:
            self._served[claim.client] = self._turn
        return job


class Scheduler:
    """Runs claimed jobs on a fixed number of threads, in the order of `Queue`.

    Background jobs (those no client but a background one waits for) leave one thread free for clients; with one thread
    they start only when nothing else runs. A job of many dear computations goes back to the queue, at its next check,
    when something of a better rank waits.

    Parameters
    ----------
    workers
        Threads, and so jobs that run at a time. Default: one per core.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or os.cpu_count() or 1
        self._changed = threading.Condition()
        self._jobs: dict[Hashable, Job] = {}
        self._queue = Queue()
        self._running = self._running_background = 0
        self._threads: list[threading.Thread] = []
        self._closed = False
        self.done = self.dropped = self.failed = 0

    def claim(
        self,
        key: Hashable,
        run: Callable[[Work], Any],
        *,
        level: int = 0,
        cost: int = 0,
        client: Hashable = None,
        background: bool = False,
    ) -> Claim:
        """Wait for the job `key`, started with `run` when there is none yet.

        The result, or the failure shared by all who wait now, arrives in the claim's `future`. A later claim of a key
        that failed runs again.
        """
        from concurrent.futures import Future

        with self._changed:
            if self._closed:
                raise CancelledWorkError("the scheduler is closed")
            job = self._jobs.get(key)
            # A running job whose claims are all gone is about to stop: it cannot be joined.
            if job is None or not job.claims:
                job = self._jobs[key] = Job(key, level, cost, run, self._queue)
            claim = Claim(job, client, background, Future(), self._release)
            job.claims.append(claim)
            if not job.started:
                self._queue.add(claim)
                if len(self._threads) < self.workers:
                    self._start_thread()
                self._changed.notify()
            return claim

    def close(self) -> None:
        """Drop what waits, let what runs stop at its next check, and end the threads."""
        with self._changed:
            self._closed = True
            claims = [claim for job in self._jobs.values() for claim in job.claims]
            for job in self._jobs.values():
                job.claims.clear()
            self._changed.notify_all()
        for claim in claims:
            claim.future.cancel()

    def snapshot(self) -> dict[str, Any]:
        """Counts for people: waiting and running per level, done, dropped, failed."""
        with self._changed:
            jobs = list(self._jobs.values())
            counted = {
                "waiting": Counter(str(job.level) for job in jobs if not job.started),
                "running": Counter(str(job.level) for job in jobs if job.started),
            }
            return {
                "workers": self.workers,
                **{name: dict(sorted(counts.items())) for name, counts in counted.items()},
                "done": self.done,
                "dropped": self.dropped,
                "failed": self.failed,
            }

    def _start_thread(self) -> None:
        name = f"chunkloom-work-{len(self._threads)}"
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _release(self, claim: Claim) -> None:
        job = claim.job
        with self._changed:
            if claim not in job.claims:
                return
            job.claims.remove(claim)
            if not job.claims and not job.started:
                del self._jobs[job.key]
                self.dropped += 1
        claim.future.cancel()

    def _next(self) -> Job | None:
        most = self.workers - 1 if self.workers > 1 else int(self._running == 0)
        return self._queue.take(background_too=self._running_background < most)

    def _serve(self) -> None:
        while True:
            with self._changed:
                while (job := None if self._closed else self._next()) is None:
                    if self._closed:
                        return
                    self._changed.wait()
                background = job.background
                self._running += 1
                self._running_background += background
            result, failure = None, None
            try:
                result = job.run(job)
            except BaseException as error:
                failure = error
            with self._changed:
                self._running -= 1
                self._running_background -= background
                if isinstance(failure, YieldedWorkError) and job.claims and not self._closed:
                    job.started = False
                    for claim in job.claims:
                        self._queue.add(claim)
                    self._changed.notify()
                    continue
                if self._jobs.get(job.key) is job:
                    del self._jobs[job.key]
                claims, job.claims = job.claims, []
                self._count(failure)
                if background:
                    self._changed.notify()
            for claim in claims:
                _settle(claim.future, result, failure)

    def _count(self, failure: BaseException | None) -> None:
        if failure is None:
            self.done += 1
        elif isinstance(failure, CancelledWorkError):
            self.dropped += 1
        else:
            self.failed += 1


def _settle(future: Future[Any], result: Any, failure: BaseException | None) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)
