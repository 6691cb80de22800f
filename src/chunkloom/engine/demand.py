"""Demand: which chunk is made next, for whom, and when to give up.

One `Claim` is one client waiting for one chunk. Claims of the same chunk share one job. As many jobs run as there are
workers; a job nobody waits for any more is dropped, and a running one stops at its next `Work.check()`. Knows nothing
of HTTP: the server makes claims and releases them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from chunkloom.errors import CancelledWorkError


class Work:
    """What a computation may ask about who waits for it."""

    def check(self) -> None:
        """Raise `CancelledWorkError` when nobody waits for the result any more."""


UNCLAIMED = Work()
"""Work that a caller waits for itself, in its own thread: never cancelled."""


@dataclass(eq=False)
class Job(Work):
    """One chunk to make, for all who claim it."""

    key: Hashable
    level: int
    run: Callable[[Work], Any]
    arrival: int
    claims: list[Claim] = field(default_factory=list)
    started: bool = False

    @property
    def background(self) -> bool:
        return all(claim.background for claim in self.claims)

    @property
    def wanted(self) -> bool:
        return bool(self.claims)

    def check(self) -> None:
        if not self.claims:
            raise CancelledWorkError(f"nobody waits for {self.key} any more")


@dataclass(eq=False)
class Claim:
    """One client waiting for one chunk. `future` gets the result; `release` gives up."""

    client: Hashable
    background: bool
    arrival: int
    future: Future[Any]
    _release: Callable[[Claim], None]

    def release(self) -> None:
        """Stop waiting. The job is dropped, or stops early, when this was its last claim. May be called twice."""
        self._release(self)


class Scheduler:
    """Runs claimed jobs on a fixed number of threads.

    Order: background last, then the finest level, then fairly over clients (the client served longest ago first),
    then the arrival of the earliest claim still waiting.

    Parameters
    ----------
    workers
        Threads, and so jobs that run at a time. Default: one per core.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or os.cpu_count() or 1
        self._lock = threading.Condition()
        self._jobs: dict[Hashable, Job] = {}
        self._waiting: list[Job] = []
        self._running_background = 0
        self._arrivals = 0
        self._served: dict[Hashable, int] = {}
        self._threads: list[threading.Thread] = []
        self._closed = False
        self.done = self.dropped = self.failed = 0

    def claim(
        self,
        key: Hashable,
        run: Callable[[Work], Any],
        *,
        level: int = 0,
        client: Hashable = None,
        background: bool = False,
    ) -> Claim:
        """Wait for the job `key`, started with `run` when there is none yet.

        The result, or the failure shared by all who wait now, arrives in the claim's `future`. A later claim of a key
        that failed runs again.
        """
        with self._lock:
            if self._closed:
                raise CancelledWorkError("the scheduler is closed")
            self._arrivals += 1
            claim = Claim(client, background, self._arrivals, Future(), self._release)
            job = self._jobs.get(key)
            # A running job whose claims are all gone is about to stop: it cannot be joined.
            if job is None or (job.started and not job.wanted):
                job = Job(key, level, run, self._arrivals)
                self._jobs[key] = job
                self._waiting.append(job)
            job.claims.append(claim)
            self._start_threads()
            self._lock.notify()
            return claim

    def close(self) -> None:
        """Drop what waits, let what runs stop at its next check, and end the threads."""
        with self._lock:
            self._closed = True
            claims = [claim for job in self._jobs.values() for claim in job.claims]
            for job in self._jobs.values():
                job.claims.clear()
            self._waiting.clear()
            self._lock.notify_all()
        for claim in claims:
            claim.future.cancel()

    def snapshot(self) -> dict[str, Any]:
        """Counts for people: waiting and running per level, done, dropped, failed."""
        with self._lock:
            waiting: dict[int, int] = {}
            for job in self._waiting:
                waiting[job.level] = waiting.get(job.level, 0) + 1
            running: dict[int, int] = {}
            for job in self._jobs.values():
                if job.started:
                    running[job.level] = running.get(job.level, 0) + 1
            return {
                "workers": self.workers,
                "waiting": {str(k): v for k, v in sorted(waiting.items())},
                "running": {str(k): v for k, v in sorted(running.items())},
                "done": self.done,
                "dropped": self.dropped,
                "failed": self.failed,
            }

    def _start_threads(self) -> None:
        if len(self._threads) < self.workers:
            name = f"chunkloom-work-{len(self._threads)}"
            thread = threading.Thread(target=self._serve, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _release(self, claim: Claim) -> None:
        with self._lock:
            for job in self._jobs.values():
                if claim in job.claims:
                    job.claims.remove(claim)
                    if not job.wanted and not job.started:
                        self._waiting.remove(job)
                        del self._jobs[job.key]
                        self.dropped += 1
                    break
            else:
                return
        claim.future.cancel()

    def _next(self) -> Job | None:
        """The job to run now, taken off the queue; None when there is none that may start."""
        candidates = self._waiting
        most = max(1, self.workers - 1)
        running = sum(job.started for job in self._jobs.values())
        if self._running_background >= most or (self.workers == 1 and running):
            candidates = [job for job in candidates if not job.background]
        if not candidates:
            return None

        def order(job: Job) -> tuple[bool, int, int, int]:
            first = min(job.claims, key=lambda claim: (self._served.get(claim.client, 0), claim.arrival))
            return (job.background, job.level, self._served.get(first.client, 0), first.arrival)

        job = min(candidates, key=order)
        self._waiting.remove(job)
        return job

    def _serve(self) -> None:
        while True:
            with self._lock:
                job = self._next()
                while job is None:
                    if self._closed:
                        return
                    self._lock.wait()
                    job = self._next()
                job.started = True
                background = job.background
                self._running_background += background
                self._arrivals += 1
                for claim in job.claims:
                    self._served[claim.client] = self._arrivals
            result, failure = None, None
            try:
                result = job.run(job)
            except BaseException as error:
                failure = error
            with self._lock:
                self._running_background -= background
                if self._jobs.get(job.key) is job:
                    del self._jobs[job.key]
                claims, job.claims = list(job.claims), []
                if isinstance(failure, CancelledWorkError):
                    self.dropped += 1
                elif failure is not None:
                    self.failed += 1
                else:
                    self.done += 1
                if len(self._served) > 10_000:
                    self._served.clear()
                self._lock.notify_all()
            for claim in claims:
                if not claim.future.set_running_or_notify_cancel():
                    continue
                if failure is not None:
                    claim.future.set_exception(failure)
                else:
                    claim.future.set_result(result)
