"""Model servers as jobs: started where the site runs them, followed until they answer, fail or are stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from chunkloom.errors import ChunkloomError, ServerError
from chunkloom.jobs.launch import queues_to_try, scheduler_for, start_hosts
from chunkloom.jobs.ledger import Ledger
from chunkloom.jobs.settings import launcher_settings
from chunkloom.jobs.site import site_profile
from chunkloom.jobs.spec import JobSpec
from chunkloom.settings import home

PRINTED = "It printed"


class ServerJob:
    """One model server. `stop` ends it whenever it is called, also while it is being submitted."""

    def __init__(self, name: str, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self._argv = tuple(argv)
        self._environment = dict(environment)
        # One for each: stopping a server must end that one alone, wherever it is on its way.
        self._ledger = Ledger()
        self._last: list[str] = []

    def start(self) -> str:
        """Start it, and return its address once it answers.

        Raises
        ------
        ServerError
            It ended first (the last line it wrote is the reason), no queue took it, or it took too long.
        """
        settings, site = launcher_settings(), site_profile()
        scheduler = scheduler_for(site)
        # A server of this machine is for this machine.
        argv = (*self._argv, "--host", "127.0.0.1") if scheduler.name == "local" else self._argv
        spec = JobSpec(
            f"chunkloom-{self.name}",
            argv=argv,
            gpus=site.server_gpus,
            cpus=site.server_cpus,
            log_dir=log_folder(),
            env=self._environment,
            **settings.over(site),
        )
        try:
            queues = queues_to_try(spec, site, scheduler, cycle=settings.cycle_gpu_queues)
            return start_hosts(spec, site, scheduler=scheduler, queues=queues, ledger=self._ledger).url
        except ChunkloomError as error:
            printed = str(error).partition(PRINTED)[2].splitlines()[1:]
            self._last = printed or [str(error)]
            raise ServerError(self._last[-1].strip().removeprefix("chunkloom: ")) from error

    @property
    def ended(self) -> bool:
        """Whether it ran and runs no more."""
        reports = [job.observed() for job in self._ledger.jobs]
        return any(report is not None and report.status.ended for report in reports)

    def tail(self, lines: int = 200) -> list[str]:
        """The end of its output."""
        for job in self._ledger.jobs:
            return job.output().splitlines()[-lines:]
        return self._last[-lines:]

    def stop(self) -> None:
        """End it, and what it started."""
        self._ledger.close()


def log_folder() -> Path:
    """Where jobs write: seen by all machines of a site, as the home folder is."""
    return home() / "logs"
