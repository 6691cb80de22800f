"""The jobs that this process started and must end: those that run, and those whose submission is still under way.

A submission runs on a thread of its own, which notes the job before anyone else sees it. So a signal that arrives
while the scheduler is thinking leaves no job behind: ending waits for the answer, and then ends the job.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections import defaultdict

from chunkloom.errors import ChunkloomError
from chunkloom.jobs.spec import Job, JobSpec, JobStartError, Scheduler

logger = logging.getLogger(__name__)


class Submission:
    """One call of `Scheduler.submit`, on a thread."""

    def __init__(self, ledger: Ledger, scheduler: Scheduler, spec: JobSpec) -> None:
        self.job: Job | None = None
        self.error: BaseException | None = None
        self.done = threading.Event()
        self._state, self._begun, self._cancelled = threading.RLock(), False, False
        self._ledger, self._scheduler, self._spec = ledger, scheduler, spec
        self._thread = threading.Thread(target=self._run, name=f"submit {spec.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def settle(self) -> None:
        """Wait for the scheduler's answer; where it was not asked yet, see to it that it never is."""
        with self._state:
            self._cancelled = not self._begun
        if self._begun:
            self.done.wait()

    def _run(self) -> None:
        try:
            with self._state:
                self._begun = not self._cancelled
            if self._cancelled:
                raise JobStartError(f"job {self._spec.name!r} is not started: this process is ending its jobs")
            self.job = self._scheduler.submit(self._spec)
        except BaseException as error:
            self.error = error
        finally:
            self._ledger.settled(self)
            self.done.set()


class Ledger:
    """Jobs to end when this process ends. Safe to use from any thread, and from a signal handler."""

    def __init__(self) -> None:
        # Reentrant: a signal handler may run while its own thread holds the lock.
        self._lock = threading.RLock()
        self._submissions: list[Submission] = []
        self._jobs: list[Job] = []
        self._pid: int | None = None
        self._closed = False

    def submit(self, scheduler: Scheduler, spec: JobSpec) -> Job:
        """Submit a job and note it. Raises what the scheduler raises.

        Interrupted while the scheduler thinks, the job is ended and the interruption goes on.
        """
        submission = Submission(self, scheduler, spec)
        with self._lock:
            if self._closed:
                raise JobStartError(f"job {spec.name!r} is not started: this process is ending")
            if self._pid is None:
                # At any exit but a kill -9. A forked child has another pid, and ends nothing of its parent's.
                self._pid = os.getpid()
                atexit.register(self.close)
            self._submissions.append(submission)
        try:
            submission.start()
            submission.done.wait()
        except BaseException:
            submission.settle()
            if submission.job is not None:
                self.end(submission.job)
            raise
        if submission.error is not None:
            raise submission.error
        assert submission.job is not None
        return submission.job

    def settled(self, submission: Submission) -> None:
        """Called by the submission's thread, with the job or the refusal."""
        with self._lock:
            if submission.job is not None:
                self._jobs.append(submission.job)
            if submission in self._submissions:
                self._submissions.remove(submission)

    @property
    def jobs(self) -> list[Job]:
        """Jobs that were started and not ended by this process."""
        with self._lock:
            return list(self._jobs)

    def forget(self, job: Job) -> None:
        """The job has ended by itself: never signal it again."""
        with self._lock:
            self._jobs = [one for one in self._jobs if one is not job]

    def end(self, job: Job) -> None:
        """Kill one job and forget it. Where the scheduler fails to, the job stays noted and the error is raised."""
        if any(one is job for one in self.jobs):
            job.kill()
            self.forget(job)

    def end_all(self) -> None:
        """Wait for submissions under way, then kill every job, one call for each scheduler. Never raises."""
        if self._pid != os.getpid():
            return
        with self._lock:
            submissions = list(self._submissions)
        for submission in submissions:
            submission.settle()
        by_scheduler: dict[int, list[Job]] = defaultdict(list)
        for job in self.jobs:
            by_scheduler[id(job.scheduler)].append(job)
        for jobs in by_scheduler.values():
            try:
                jobs[0].scheduler.kill([job.id for job in jobs])
            except ChunkloomError as error:
                logger.error("%s", error)
                continue
            for job in jobs:
                self.forget(job)

    def close(self) -> None:
        """End all jobs, and start none any more."""
        if self._pid in (None, os.getpid()):
            self._closed = True
            self.end_all()


_process = Ledger()


def started_jobs() -> Ledger:
    """The process's own ledger."""
    return _process
