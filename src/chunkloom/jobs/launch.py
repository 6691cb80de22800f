"""Starting a server as a job and finding out where it is: `start_hosts`, the policy over schedulers and queues.

Knows nothing of models or of what the command serves.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from chunkloom.errors import ParameterError
from chunkloom.jobs import lsf, slurm
from chunkloom.jobs.address import ReadyFile, last_marker
from chunkloom.jobs.ledger import Ledger, started_jobs
from chunkloom.jobs.local import LocalScheduler
from chunkloom.jobs.lsf import LsfScheduler
from chunkloom.jobs.queues import candidates, gpu_queue_availability
from chunkloom.jobs.site import SiteProfile
from chunkloom.jobs.slurm import SlurmScheduler
from chunkloom.jobs.spec import (
    Job,
    JobRefusedError,
    JobReport,
    JobSpec,
    JobStartError,
    JobStatus,
    Scheduler,
    SubmitTimeoutError,
)

logger = logging.getLogger(__name__)

READY_POLL_S = 0.5
ASK_FIRST_S, ASK_MOST_S = 0.5, 5.0
WARN_PENDING_S = (30.0, 60.0, 120.0)
# How often in a row a scheduler must say that it knows no such job: one that has just taken it may need a moment.
LOST_AFTER = 3


@dataclass(frozen=True)
class Host:
    """A server that a job runs, and where."""

    job: Job
    url: str
    queue: str | None = None


def scheduler_for(site: SiteProfile) -> Scheduler:
    """The site's scheduler; this machine where the site says so or the scheduler's commands are not here."""
    if site.scheduler == "lsf" and lsf.available():
        return LsfScheduler(submit_timeout_s=site.submit_timeout_s)
    if site.scheduler == "slurm" and slurm.available():
        return SlurmScheduler(submit_timeout_s=site.submit_timeout_s)
    return LocalScheduler()


def submit_job(spec: JobSpec, scheduler: Scheduler, *, ledger: Ledger | None = None) -> Job:
    """Submit a job and wait for nothing. It is ended with this process."""
    return (ledger if ledger is not None else started_jobs()).submit(scheduler, spec)


def queues_to_try(spec: JobSpec, site: SiteProfile, scheduler: Scheduler, *, cycle: bool = True) -> list[str | None]:
    """The candidates for a job: its own queue, else the site's, and where `cycle` says so the others after it."""
    preferred = spec.queue or site.default_queue
    if scheduler.name == "local":
        return [None]
    if not cycle or spec.gpus == 0:
        return [preferred]
    return candidates(preferred, gpu_queue_availability(site))


def start_hosts(
    spec: JobSpec,
    site: SiteProfile,
    *,
    scheduler: Scheduler | None = None,
    queues: Sequence[str | None] | None = None,
    ledger: Ledger | None = None,
) -> Host:
    """Run a server as a job in the first queue that starts it, and wait until it says where it is.

    Parameters
    ----------
    spec
        The job; its queue is overridden by each candidate in turn.
    site
        Times: a job that is still pending after `pending_fallback_s` is ended while more queues are left to try; one
        that runs by then has `startup_timeout_s` more.
    scheduler
        Default: the site's (`scheduler_for`).
    queues
        Candidates. Default: `queues_to_try`.
    ledger
        Where the job is noted, so that it ends with this process. Default: the process's own.

    Raises
    ------
    JobStartError
        No queue took or started it, it ended without an address, or it was submitted and the scheduler did not answer
        (then it is not submitted again). No job of this call is left.
    """
    scheduler = scheduler if scheduler is not None else scheduler_for(site)
    ledger = ledger if ledger is not None else started_jobs()
    names = list(queues) if queues is not None else queues_to_try(spec, site, scheduler)
    if not names:
        raise ParameterError(f"job {spec.name!r}: there is no queue to try: name one, or give the site a default queue")
    refused: list[str] = []
    for number, queue in enumerate(names):
        # A new token: each submission has a ready file of its own.
        attempt = replace(spec, queue=queue, token=secrets.token_hex(4))
        ready = ReadyFile.of(attempt)
        try:
            job = ledger.submit(scheduler, ready.named_in(attempt))
        except SubmitTimeoutError:
            raise
        except JobRefusedError as error:
            logger.warning("%s", error)
            refused.append(str(error))
            continue
        patience = site.startup_timeout_s if number == len(names) - 1 else site.pending_fallback_s
        if scheduler.name == "local":
            patience = 0.0  # it runs already
        try:
            url = _wait(job, ready, site, patience)
        except BaseException:
            ledger.end(job)
            raise
        finally:
            ready.remove()
        if url is not None:
            return Host(job, url, queue)
        ledger.end(job)
        refused.append(f"{queue or 'default queue'}: job {job.id} was still pending")
        logger.warning("job %s (%s) did not start in %s: ended", job.id, spec.name, queue or "the default queue")
    raise JobStartError(f"job {spec.name!r} could not be started: {'; '.join(refused)}")


def _wait(job: Job, ready: ReadyFile, site: SiteProfile, patience_s: float) -> str | None:
    """The job's address, or None where it is still pending after `patience_s`.

    Raises
    ------
    JobStartError
        It ended, was lost, or ran for the site's startup timeout after that without saying where it is.
    """
    begin = time.monotonic()
    deadline, grace = begin + patience_s, False
    warn_at = list(WARN_PENDING_S)
    pause, ask_at, missing = ASK_FIRST_S, begin, 0
    report: JobReport | None = None
    while True:
        url = ready.read(job)
        if url is not None:
            return url
        now = time.monotonic()
        if now >= ask_at or now >= deadline:
            seen = job.observed()
            if seen is not None:
                report = seen
                missing = missing + 1 if seen.status is JobStatus.LOST else 0
            if report is not None and (report.status is JobStatus.RUNNING or report.status.ended):
                url = ready.read(job) or last_marker(job.output())
                if url is not None and not report.status.ended:
                    return url
            if report is not None and (report.status.ended or missing >= LOST_AFTER):
                raise JobStartError(f"job {job.id} ({job.spec.name!r}) {report} before it said where it is{_tail(job)}")
            pause, ask_at = min(pause * 1.5, ASK_MOST_S), time.monotonic() + pause
        if report is not None and report.status is JobStatus.PENDING and warn_at and now - begin >= warn_at[0]:
            logger.warning("job %s (%s) is pending since %.0f s", job.id, job.spec.name, warn_at.pop(0))
        if now >= deadline:
            pending = report is None or report.status in (JobStatus.PENDING, JobStatus.SUSPENDED, JobStatus.LOST)
            if pending and not grace:
                return None
            if grace:
                raise JobStartError(
                    f"job {job.id} ({job.spec.name!r}) runs, but did not say where it is in "
                    f"{site.startup_timeout_s:g} s{_tail(job)}"
                )
            deadline, grace = time.monotonic() + site.startup_timeout_s, True
        time.sleep(max(0.0, min(READY_POLL_S, deadline - time.monotonic())))


def _tail(job: Job, lines: int = 15) -> str:
    """The end of what the job printed, for a message."""
    text = job.output().strip().splitlines()[-lines:]
    log = f" (all of it: {job.log})" if job.log else ""
    return f". It printed{log}:\n" + "\n".join(text) if text else f". It printed nothing{log}"
