"""Jobs on this machine: processes in sessions of their own, their output in a log file."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from chunkloom.jobs.spec import UNKNOWN_JOB, Job, JobRefusedError, JobReport, JobSpec, JobStatus

TERM_SECONDS = 5.0


class LocalScheduler:
    """Runs each job at once, as a process of this machine. Queues, GPUs and walltime are not looked at."""

    name = "local"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._killed: set[str] = set()

    def submit(self, spec: JobSpec) -> Job:
        """Start the process."""
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", **spec.env}
        # This process may be a job itself: its child is not that job.
        for name in ("LSB_JOBID", "SLURM_JOB_ID"):
            environment.pop(name, None)
        try:
            spec.log_dir.mkdir(parents=True, exist_ok=True)
            handle, log = tempfile.mkstemp(prefix=f"{spec.stem}_local_", suffix=".log", dir=spec.log_dir)
            with os.fdopen(handle, "wb") as stream:
                process = subprocess.Popen(
                    spec.words,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                )
        except OSError as error:
            raise JobRefusedError(f"job {spec.name!r} cannot start here: {error}") from error
        job = str(process.pid)
        with self._lock:
            self._processes[job] = process
            self._killed.discard(job)
        return Job(job, spec, self, Path(log))

    def reports(self, ids: Iterable[str]) -> dict[str, JobReport]:
        """Always answers."""
        return {job: self._report(job) for job in ids}

    def output(self, job: Job) -> str:
        """The log file so far."""
        return log_text(job)

    def kill(self, ids: Iterable[str]) -> None:
        """TERM to all, and KILL after five seconds to those left; each with all of its process group."""
        with self._lock:
            left = {job: self._processes[job] for job in ids if job in self._processes}
        for job, process in left.items():
            if process.poll() is None:
                self._killed.add(job)
            _signal(process, signal.SIGTERM)
        end = time.monotonic() + TERM_SECONDS
        while left and time.monotonic() < end:
            left = {job: process for job, process in left.items() if process.poll() is None or _group_lives(process)}
            if left:
                time.sleep(0.02)
        for process in left.values():
            _signal(process, signal.SIGKILL)
            process.wait()

    def _report(self, job: str) -> JobReport:
        process = self._processes.get(job)
        if process is None:
            return UNKNOWN_JOB
        code = process.poll()
        if code is None:
            return JobReport(JobStatus.RUNNING)
        if job in self._killed:
            return JobReport(JobStatus.KILLED)
        if code == 0:
            return JobReport(JobStatus.COMPLETED)
        return JobReport(JobStatus.FAILED, f"exit code {code}" if code > 0 else f"ended by signal {-code}")


def log_text(job: Job, most: int = 1 << 20) -> str:
    """The end of the job's log file; "" where there is none yet."""
    if job.log is None:
        return ""
    try:
        with open(job.log, "rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - most))
            return stream.read().decode(errors="replace")
    except OSError:
        return ""


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    # The group's number cannot be anyone else's while a process of the group lives, and with none this fails.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if process.poll() is None or _group_lives(process):
            os.killpg(process.pid, number)


def _group_lives(process: subprocess.Popen[bytes]) -> bool:
    """Processes of the job's own session are left, though the first has ended."""
    for entry in Path("/proc").iterdir() if Path("/proc/self/stat").exists() else ():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                state, _, group, session = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:4]
                if state not in "ZX" and int(group) == int(session) == process.pid:
                    return True
    return False
