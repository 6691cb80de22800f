"""Jobs on LSF: `bsub_argv` is the one place where a bsub line is built."""

from __future__ import annotations

import re
import shutil
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from chunkloom.errors import ChunkloomError, ParameterError
from chunkloom.jobs.commands import NoAnswerError, ask
from chunkloom.jobs.local import log_text
from chunkloom.jobs.spec import (
    UNKNOWN_JOB,
    Job,
    JobRefusedError,
    JobReport,
    JobSpec,
    SubmitTimeoutError,
    walltime_minutes,
)
from chunkloom.jobs.states import lsf_reports

JOB_ID = re.compile(r"Job <(\d+)>")
FIELDS = "jobid stat exit_code exit_reason delimiter='|'"
SAFE = re.compile(r"[A-Za-z0-9_./:=,@%+-]+")
# What bjobs says of jobs that it has forgotten: an answer, unlike a daemon that cannot be reached.
GONE = re.compile(r"is not found|No (\w+ )?job found", re.I)


def available() -> bool:
    """LSF's commands are on the path."""
    return shutil.which("bsub") is not None


def job_name(spec: JobSpec) -> str:
    """The name for ``-J``, without what LSF reads as an array, a list or a wildcard there."""
    return re.sub(r"[\[\]*?,\"'\\/%\s]", "_", spec.name).lstrip("-") or "job"


def bsub_argv(spec: JobSpec) -> list[str]:
    """The words that submit the job."""
    words = ["bsub", "-J", job_name(spec), "-o", f"{spec.log_dir}/{spec.stem}_%J.log"]
    if spec.charge_group:
        words += ["-P", spec.charge_group]
    if spec.queue:
        words += ["-q", spec.queue]
    if spec.gpus:
        words += ["-gpu", f"num={spec.gpus}"]
    words += ["-n", str(spec.cpus)]
    if spec.walltime:
        if walltime_minutes(spec.walltime) is None:
            warnings.warn(f"walltime {spec.walltime!r} is neither HH:MM nor minutes: left to the queue", stacklevel=2)
        else:
            words += ["-W", spec.walltime]
    return words + _command(spec)


def _command(spec: JobSpec) -> list[str]:
    """The words after the options. LSF makes one line of them for a shell, with spaces between single quotes."""
    words = list(spec.words)
    if spec.argv is not None and not all(SAFE.fullmatch(word) for word in words):
        words = ["bash", "-c", " ".join(double_quoted(word) for word in words)]
    for bad, called in (("'", "a single quote"), ("\n", "a line break"), ("\0", "NUL")):
        if any(bad in word for word in spec.words):
            raise ParameterError(
                f"job {spec.name!r}: its command holds {called}, and no quoting gets that through LSF: "
                f"{' '.join(spec.words)!r}"
            )
    return words


def double_quoted(word: str) -> str:
    """A word for a shell's line, with double quotes where it needs any."""
    if SAFE.fullmatch(word):
        return word
    escaped = "".join(f"\\{letter}" if letter in '\\"$`' else letter for letter in word)
    return f'"{escaped}"'


@dataclass
class LsfScheduler:
    """LSF through its commands.

    Parameters
    ----------
    submit_timeout_s
        How long ``bsub`` may take.
    late_s
        How long a job is looked for that may exist although ``bsub`` did not answer.
    """

    submit_timeout_s: float | None = 30.0
    late_s: float = 5.0
    name = "lsf"

    def submit(self, spec: JobSpec) -> Job:
        """Run ``bsub``."""
        argv = bsub_argv(spec)
        _make_folder(spec)
        before = self._named(spec)
        try:
            answer = ask(argv, timeout=self.submit_timeout_s, env=spec.env)
        except NoAnswerError as error:
            if before is not None and shutil.which("bsub"):
                job = self._late(spec, before)
                if job is not None:
                    return self._job(job, spec)
            raise SubmitTimeoutError(
                f"job {spec.name!r}: {error}. It may be queued all the same: see `bjobs -J {job_name(spec)}`; "
                "it is not submitted again"
            ) from error
        if answer.code:
            where = f"queue {spec.queue}" if spec.queue else "the default queue"
            raise JobRefusedError(f"job {spec.name!r}: bsub refused it for {where}: {answer.said}")
        match = JOB_ID.search(answer.stdout) or JOB_ID.search(answer.stderr)
        if match is None:
            raise SubmitTimeoutError(
                f"job {spec.name!r}: bsub took it but gave no job id (expected 'Job <…>', found {answer.said!r}): see "
                f"`bjobs -J {job_name(spec)}`"
            )
        return self._job(match[1], spec)

    def reports(self, ids: Iterable[str]) -> dict[str, JobReport] | None:
        """One ``bjobs`` call for all."""
        ids = list(ids)
        if not ids:
            return {}
        try:
            answer = ask(["bjobs", "-a", "-o", FIELDS, *ids])
        except NoAnswerError:
            return None
        found = lsf_reports(answer.stdout)
        if not found and not GONE.search(answer.stdout + answer.stderr):
            return None
        return {job: found.get(job, UNKNOWN_JOB) for job in ids}

    def output(self, job: Job) -> str:
        """``bpeek`` while it runs, then its log file."""
        try:
            answer = ask(["bpeek", job.id])
        except NoAnswerError:
            return log_text(job)
        return answer.stdout if answer.code == 0 and answer.stdout else log_text(job)

    def kill(self, ids: Iterable[str]) -> None:
        """``bkill``, all at once."""
        ids = list(ids)
        if not ids:
            return
        said = ""
        for _ in range(3):
            try:
                answer = ask(["bkill", *ids])
            except NoAnswerError as error:
                said = str(error)
                continue
            # bkill fails where one of them has ended by itself.
            if answer.code == 0 or _all_ended(self.reports(ids)):
                return
            said = answer.said
        raise ChunkloomError(f"jobs {', '.join(ids)} may still run: bkill says {said}. Run `bkill {' '.join(ids)}`")

    def _job(self, job: str, spec: JobSpec) -> Job:
        return Job(job, spec, self, spec.log_dir / f"{spec.stem}_{job}.log")

    def _named(self, spec: JobSpec) -> set[str] | None:
        """Ids of the user's jobs of this name."""
        try:
            answer = ask(["bjobs", "-a", "-noheader", "-J", job_name(spec)])
        except NoAnswerError:
            return None
        return {line.split()[0] for line in answer.stdout.splitlines() if line[:1].isdigit()}

    def _late(self, spec: JobSpec, before: set[str]) -> str | None:
        """The one job of the name that was not there before; None where none, or more than one, has appeared."""
        end = time.monotonic() + self.late_s
        while True:
            new = (self._named(spec) or set()) - before
            if len(new) == 1:
                return new.pop()
            if new or time.monotonic() > end:
                return None
            time.sleep(min(0.5, self.late_s))


def _all_ended(reports: dict[str, JobReport] | None) -> bool:
    return reports is not None and all(report.status.ended or report == UNKNOWN_JOB for report in reports.values())


def _make_folder(spec: JobSpec) -> None:
    try:
        spec.log_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(
            f"job {spec.name!r}: log folder {spec.log_dir} cannot be made: {error.strerror}"
        ) from error
