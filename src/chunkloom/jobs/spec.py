"""What a job is, wherever it runs: `JobSpec` asks for one, `Job` is one, `JobReport` says how it does.

Knows no scheduler: `local`, `lsf` and `slurm` each give a `Scheduler`, and a further one is a class with the same
methods.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from chunkloom.errors import ChunkloomError, ParameterError


class JobStartError(ChunkloomError, RuntimeError):
    """A job could not be submitted, or what it should have started never said where it is."""


class JobRefusedError(JobStartError):
    """The scheduler answered, and said no: another queue may say yes."""


class SubmitTimeoutError(JobStartError):
    """The scheduler did not answer a submission in time. The job may exist: it is never submitted again."""


class JobStatus(StrEnum):
    """Where a job is in its life."""

    PENDING = "pending"
    RUNNING = "running"
    SUSPENDED = "suspended"
    COMPLETED = "completed"
    FAILED = "failed"
    KILLED = "killed"
    LOST = "lost"

    @property
    def ended(self) -> bool:
        """The job will not run again. A lost one has not: its scheduler only cannot say."""
        return self in (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.KILLED)


@dataclass(frozen=True)
class JobReport:
    """A job's status, and why, in words where there is something to say."""

    status: JobStatus
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.status} ({self.reason})" if self.reason else str(self.status)


UNKNOWN_JOB = JobReport(JobStatus.LOST, "the scheduler does not know this job")

WALLTIME = re.compile(r"(\d+)(?::(\d{1,2}))?")


@dataclass(frozen=True)
class JobSpec:
    """A command to run somewhere.

    Parameters
    ----------
    name
        What the scheduler lists it as.
    argv, shell
        Exactly one: the words of a command, or a line for ``bash -c``.
    queue
        Queue (LSF) or partition (Slurm). None: the scheduler's default.
    charge_group
        Project (LSF) or account (Slurm) that pays. None or "": the scheduler's default.
    gpus, cpus
        How many of each, on one machine.
    walltime
        ``HH:MM``, or minutes. None: the queue's own limit.
    log_dir
        Folder of the job's output, seen by all machines; made where it is not there.
    env
        Variables added to this process's environment.
    token
        Sets this submission apart from every other.
    """

    name: str
    argv: tuple[str, ...] | None = None
    shell: str | None = None
    queue: str | None = None
    charge_group: str | None = None
    gpus: int = 1
    cpus: int = 4
    walltime: str | None = None
    log_dir: Path = Path("logs")
    env: Mapping[str, str] = field(default_factory=dict)
    token: str = field(default_factory=lambda: secrets.token_hex(4))

    def __post_init__(self) -> None:
        if (self.argv is None) == (self.shell is None):
            raise ParameterError(f"job {self.name!r}: expected argv or shell, exactly one of them")
        if self.argv is not None:
            if isinstance(self.argv, str) or not self.argv:
                raise ParameterError(f"job {self.name!r}: argv {self.argv!r}: expected the words of a command")
            object.__setattr__(self, "argv", tuple(self.argv))
        elif not self.shell:
            raise ParameterError(f"job {self.name!r}: shell is empty: expected a command line")
        for what, number, least in (("gpus", self.gpus, 0), ("cpus", self.cpus, 1)):
            if isinstance(number, bool) or not isinstance(number, int) or number < least:
                raise ParameterError(
                    f"job {self.name!r}: {what} {number!r}: expected a whole number of at least {least}"
                )
        object.__setattr__(self, "log_dir", Path(self.log_dir).absolute())

    @property
    def stem(self) -> str:
        """The name as a part of file names."""
        return re.sub(r"[^A-Za-z0-9._-]", "_", self.name).strip("._-") or "job"

    @property
    def words(self) -> tuple[str, ...]:
        """The words to execute."""
        return self.argv if self.argv is not None else ("bash", "-c", str(self.shell))


def walltime_minutes(text: str) -> int | None:
    """Minutes of a walltime (``HH:MM``, or minutes), or None where it is neither."""
    match = WALLTIME.fullmatch(text)
    if match is None:
        return None
    return int(match[1]) if match[2] is None else int(match[1]) * 60 + int(match[2])


class Scheduler(Protocol):
    """A place where jobs run."""

    name: str

    def submit(self, spec: JobSpec) -> Job:
        """Ask for a job. `JobRefusedError` where it says no, `SubmitTimeoutError` where it does not say."""
        ...

    def reports(self, ids: Iterable[str]) -> dict[str, JobReport] | None:
        """How these jobs do, in one go; None where the scheduler could not say. Jobs it does not know are lost."""
        ...

    def output(self, job: Job) -> str:
        """What the job printed so far; "" where that cannot be had yet."""
        ...

    def kill(self, ids: Iterable[str]) -> None:
        """End these jobs, running or not. Those that have ended already are left alone.

        Raises
        ------
        ChunkloomError
            The scheduler did not do it; the message names the jobs.
        """
        ...


@dataclass(frozen=True)
class Job:
    """A submitted job."""

    id: str
    spec: JobSpec = field(repr=False)
    scheduler: Scheduler = field(repr=False, compare=False)
    log: Path | None = None

    def observed(self) -> JobReport | None:
        """How it does, or None where the scheduler could not say."""
        found = self.scheduler.reports([self.id])
        return None if found is None else found[self.id]

    def output(self) -> str:
        """What it printed so far."""
        return self.scheduler.output(self)

    def kill(self) -> None:
        """End it."""
        self.scheduler.kill([self.id])

    def wait(self, poll_s: float = 5.0, lost_after: int = 3) -> JobReport:
        """Block until it has ended, or its scheduler has said `lost_after` times in a row that it knows no such job."""
        missing = 0
        while True:
            report = self.observed()
            if report is not None:
                missing = missing + 1 if report.status is JobStatus.LOST else 0
                if report.status.ended or missing >= lost_after:
                    return report
            time.sleep(poll_s)
