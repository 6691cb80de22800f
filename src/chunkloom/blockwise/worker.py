"""A worker: a job that takes blocks from the master until there are none; and what starts that job and waits."""

from __future__ import annotations

import sys
import time

from chunkloom.blockwise.run import attempt, index_of
from chunkloom.blockwise.task import BlockwiseTask, load_task
from chunkloom.blockwise.work import loaded
from chunkloom.errors import ChunkloomError
from chunkloom.jobs.spec import JobSpec, JobStatus

A_DAY_S = 86_400.0  # a scheduler under load takes its time, and no worker is urgent
REGION = "CHUNKLOOM_BLOCKWISE_REGION"


def work(task: BlockwiseTask, number: int) -> None:
    """Take blocks of a region from the master named in the environment, until there are none."""
    import daisy.v2 as daisy

    prepared = loaded(task)
    client = daisy.Client()  # type: ignore[no-untyped-call]
    while True:
        with client.acquire_block() as block:
            if block is None:
                return
            index = index_of(block, prepared.plan.block)
            if prepared.plan.owns(number, index) and not attempt(prepared, number, index):
                block.status = daisy.BlockStatus.FAILED


def worker_spec(task: BlockwiseTask, number: int) -> JobSpec:
    """The job of one worker; the master's address is in the environment, which jobs inherit."""
    from chunkloom.jobs.settings import LauncherSettings
    from chunkloom.jobs.site import site_profile

    site, config = site_profile(), task.config
    values = LauncherSettings.load().over(site)
    return JobSpec(
        f"{task.stem}_worker",
        argv=(sys.executable, "-P", "-m", "chunkloom", "blockwise", str(task.path), "--client"),
        queue=config.queue or values["queue"],
        charge_group=config.charge_group or values["charge_group"],
        walltime=config.walltime or values["walltime"],
        gpus=site.worker_gpus,
        cpus=task.cpu_workers or site.worker_cpus,
        log_dir=task.progress_dir / "logs",
        env={REGION: str(number)},
    )


def run_as_job(path: str, number: int) -> None:
    """Submit one worker and block until its job has ended: the master counts this as the worker's life.

    Raises
    ------
    ChunkloomError
        The job failed, was killed or was lost; the message has the end of what it printed.
    """
    from dataclasses import replace

    from chunkloom.jobs.cleanup import install_cleanup_handlers
    from chunkloom.jobs.launch import scheduler_for, submit_job
    from chunkloom.jobs.ledger import started_jobs
    from chunkloom.jobs.site import site_profile

    install_cleanup_handlers()
    task = load_task(path)
    scheduler = scheduler_for(replace(site_profile(), submit_timeout_s=A_DAY_S))
    job = submit_job(worker_spec(task, number), scheduler)
    report = job.wait(poll_s=0.1 if scheduler.name == "local" else 2.0)
    started_jobs().forget(job)
    if report.status is not JobStatus.COMPLETED:
        time.sleep(0.1)
        tail = "\n".join(job.output().strip().splitlines()[-15:])
        raise ChunkloomError(f"worker job {job.id} {report}. It printed ({job.log}):\n{tail}")
