"""Jobs on Slurm: `sbatch_argv` is the one place where an sbatch line is built."""

from __future__ import annotations

import re
import shlex
import shutil
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace

from chunkloom.errors import ChunkloomError, ParameterError
from chunkloom.jobs.commands import NoAnswerError, ask
from chunkloom.jobs.local import log_text
from chunkloom.jobs.spec import (
    UNKNOWN_JOB,
    Job,
    JobRefusedError,
    JobReport,
    JobSpec,
    JobStatus,
    SubmitTimeoutError,
    walltime_minutes,
)
from chunkloom.jobs.states import sacct_reports, scontrol_report, squeue_reports

# Answers of a controller that is there; anything else is no answer.
UNKNOWN_ID = "Invalid job id"
# The controller or its network, not a refusal.
UNREACHABLE = re.compile(r"Unable to contact slurm controller|Socket timed out|Connection refused|Zero Bytes", re.I)


def available() -> bool:
    """Slurm's commands are on the path."""
    return shutil.which("sbatch") is not None


def slurm_time(walltime: str) -> str | None:
    """A walltime (``HH:MM``, or minutes) as ``HH:MM:00``: Slurm reads ``08:00`` as eight minutes."""
    minutes = walltime_minutes(walltime)
    return None if minutes is None else f"{minutes // 60:02d}:{minutes % 60:02d}:00"


def sbatch_argv(spec: JobSpec) -> list[str]:
    """The words that submit the job. The comment sets this submission apart from others of the same name."""
    log_dir = str(spec.log_dir).replace("%", "%%")
    words = [
        "sbatch",
        "--parsable",
        f"--job-name={spec.name}",
        f"--output={log_dir}/{spec.stem}_%j.log",
        f"--comment={comment(spec)}",
        "--export=ALL",
        "--no-requeue",
    ]
    if spec.charge_group:
        words.append(f"--account={spec.charge_group}")
    if spec.queue:
        words.append(f"--partition={spec.queue}")
    if spec.gpus:
        words.append(f"--gres=gpu:{spec.gpus}")
    words += ["--nodes=1", "--ntasks=1", f"--cpus-per-task={spec.cpus}"]
    if spec.walltime:
        time_limit = slurm_time(spec.walltime)
        if time_limit is None:
            warnings.warn(
                f"walltime {spec.walltime!r} is neither HH:MM nor minutes: left to the partition", stacklevel=2
            )
        else:
            words.append(f"--time={time_limit}")
    # exec: the shell that wraps the command must not outlive it, nor swallow its signals.
    return [*words, f"--wrap=exec {shlex.join(spec.words)}"]


def comment(spec: JobSpec) -> str:
    """What `sbatch_argv` puts in the job's comment."""
    return f"chunkloom:{spec.token}"


@dataclass
class SlurmScheduler:
    """Slurm through its commands, with accounting or without.

    Parameters
    ----------
    submit_timeout_s
        How long ``sbatch`` may take.
    late_s
        How long a job is looked for that may exist although ``sbatch`` did not answer.
    """

    submit_timeout_s: float | None = 30.0
    late_s: float = 5.0
    name = "slurm"

    def submit(self, spec: JobSpec) -> Job:
        """Run ``sbatch``."""
        try:
            spec.log_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ParameterError(
                f"job {spec.name!r}: log folder {spec.log_dir} cannot be made: {error.strerror}"
            ) from error
        try:
            answer = ask(sbatch_argv(spec), timeout=self.submit_timeout_s, env=spec.env)
        except NoAnswerError as error:
            return self._late(spec, str(error))
        if answer.code:
            if UNREACHABLE.search(answer.stderr):
                return self._late(spec, answer.said)
            where = f"partition {spec.queue}" if spec.queue else "the default partition"
            raise JobRefusedError(f"job {spec.name!r}: sbatch refused it for {where}: {answer.said}")
        match = re.match(r"(\d+)", answer.stdout.strip())
        return self._job(match[1], spec) if match else self._late(spec, f"sbatch gave no job id but {answer.said!r}")

    def reports(self, ids: Iterable[str]) -> dict[str, JobReport] | None:
        """One ``squeue`` call for all, and one ``sacct`` call for those that it has forgotten."""
        ids = list(ids)
        if not ids:
            return {}
        try:
            answer = ask(["squeue", "--noheader", "--states=all", f"--jobs={','.join(ids)}", "--format=%i|%T|%r"])
        except NoAnswerError:
            return None
        if answer.code and UNKNOWN_ID not in answer.stderr:
            return None
        found = squeue_reports(answer.stdout)
        missing = [job for job in ids if job not in found]
        if missing:
            found.update(self._accounted(missing))
        return {job: self._explained(job, found.get(job, UNKNOWN_JOB)) for job in ids}

    def output(self, job: Job) -> str:
        """The log file so far."""
        return log_text(job)

    def kill(self, ids: Iterable[str]) -> None:
        """``scancel``, all at once."""
        ids = list(ids)
        if not ids:
            return
        said = ""
        for _ in range(3):
            try:
                answer = ask(["scancel", *ids])
            except NoAnswerError as error:
                said = str(error)
                continue
            if answer.code == 0 or UNKNOWN_ID in answer.stderr:
                return
            said = answer.said
            time.sleep(0.5)
        raise ChunkloomError(f"jobs {', '.join(ids)} may still run: scancel says {said}. Run `scancel {' '.join(ids)}`")

    def _job(self, job: str, spec: JobSpec) -> Job:
        return Job(job, spec, self, spec.log_dir / f"{spec.stem}_{job}.log")

    def _late(self, spec: JobSpec, said: str) -> Job:
        """The job that a submission without an answer may have made all the same."""
        end = time.monotonic() + self.late_s
        while True:
            try:
                answer = ask(["squeue", "--noheader", "--states=all", "--me", "--format=%i|%k"])
            except NoAnswerError:
                answer = None
            for line in answer.stdout.splitlines() if answer is not None else ():
                job, _, text = line.partition("|")
                if text.strip() == comment(spec):
                    return self._job(job.strip(), spec)
            if time.monotonic() > end:
                raise SubmitTimeoutError(
                    f"job {spec.name!r}: {said}. It may be queued all the same: see `squeue --me --name={spec.name}`; "
                    "it is not submitted again"
                )
            time.sleep(min(0.5, self.late_s))

    def _accounted(self, ids: list[str]) -> dict[str, JobReport]:
        """What accounting says; nothing where there is none."""
        try:
            what = (f"--jobs={','.join(ids)}", "--format=JobID,State,ExitCode")
            answer = ask(["sacct", "--noheader", "--parsable2", "--allocations", *what])
        except NoAnswerError:
            return {}
        return sacct_reports(answer.stdout) if answer.code == 0 else {}

    def _explained(self, job: str, report: JobReport) -> JobReport:
        """``squeue`` shows no exit code: that of a failed job is asked for."""
        if report != JobReport(JobStatus.FAILED, "failed"):
            return report
        try:
            answer = ask(["scontrol", "--oneliner", "show", "job", job])
        except NoAnswerError:
            return report
        found = scontrol_report(answer.stdout)
        return replace(report, reason=found.reason) if found and found.status is JobStatus.FAILED else report
