"""Places where jobs run: this machine, a stand-in for LSF, and a real Slurm of one node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import fake_lsf
import real_slurm
from chunkloom.jobs.ledger import Ledger
from chunkloom.jobs.local import LocalScheduler
from chunkloom.jobs.lsf import LsfScheduler
from chunkloom.jobs.site import SiteProfile
from chunkloom.jobs.slurm import SlurmScheduler
from chunkloom.jobs.spec import JobSpec, Scheduler


def until(found: Callable[[], object], seconds: float = 20) -> object:
    """Wait until `found` gives something true, and return it."""
    end = time.monotonic() + seconds
    while True:
        value = found()
        if value:
            return value
        assert time.monotonic() < end, f"waited {seconds} s in vain"
        time.sleep(0.05)


@dataclass
class Place:
    """Where jobs run in a test, with ways to see what is there that do not pass through chunkloom."""

    scheduler: Scheduler
    site: SiteProfile
    logs: Path
    states: Callable[[], dict[str, str]]
    foreign: Callable[[str], str]
    """Submit a job of that name from outside; its id."""
    submitting: Path
    """Is there once a submission to `slow` is under way."""
    run: str | None = "run"
    stuck: str | None = "stuck"
    closed: str | None = "closed"
    slow: str | None = "slow"
    ledger: Ledger = field(default_factory=Ledger)

    def spec(self, shell: str, **values) -> JobSpec:
        return JobSpec(**{"name": "a server", "gpus": 0, "cpus": 1, "log_dir": self.logs, "shell": shell, **values})

    def active(self) -> set[str]:
        """Jobs that wait or run."""
        return {job for job, state in self.states().items() if state in ("waits", "runs")}


def profile(scheduler: str, **values) -> SiteProfile:
    times = {"pending_fallback_s": 1.0, "startup_timeout_s": 6.0, "submit_timeout_s": 5.0}
    return SiteProfile(name="test", scheduler=scheduler, **{**times, **values})


@pytest.fixture
def lsf(tmp_path, monkeypatch) -> Path:
    """The stand-in on the path; its folder."""
    folder, programs = tmp_path / "lsf", tmp_path / "bin"
    fake_lsf.install(folder, programs)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_LSF", str(folder))
    return folder


def calls(folder: Path, command: str | None = None) -> list[list[str]]:
    """What the stand-in was called with."""
    lines = (folder / "calls").read_text().splitlines() if (folder / "calls").exists() else []
    return [words for words in map(json.loads, lines) if command in (None, words[0])]


@pytest.fixture(scope="session")
def slurm_conf() -> Iterator[Path]:
    with real_slurm.slurm() as conf:
        yield conf


@pytest.fixture
def slurm(slurm_conf, tmp_path, monkeypatch) -> Path:
    """Slurm, as this process's; its configuration. `sbatch -p slow` takes a second, before Slurm hears of the job."""
    programs = tmp_path / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "sbatch").write_text(
        "#!/bin/bash\n"
        f'case "$*" in *--partition=slow*) touch {tmp_path}/submitting; sleep 1;; esac\n'
        f'exec {shutil.which("sbatch", path=real_slurm.path_with_sbin())} "${{@/--partition=slow/--partition=run}}"\n'
    )
    (programs / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_CONF", str(slurm_conf))
    return slurm_conf


def lsf_place(request, tmp_path) -> Place:
    folder = request.getfixturevalue("lsf")
    words = {"PEND": "waits", "RUN": "runs"}

    def states() -> dict[str, str]:
        table = subprocess.run(["bjobs"], capture_output=True, text=True).stdout.splitlines()[1:]
        return {line.split("|")[0]: words.get(line.split("|")[1], "ended") for line in table}

    def foreign(name: str) -> str:
        said = subprocess.check_output(["bsub", "-J", name, "sleep", "60"], text=True)
        return said.split("<")[1].split(">")[0]

    scheduler = LsfScheduler(submit_timeout_s=5, late_s=1)
    return Place(scheduler, profile("lsf"), tmp_path / "logs", states, foreign, folder / "submitting")


def slurm_place(request, tmp_path) -> Place:
    request.getfixturevalue("slurm")
    words = {"PENDING": "waits", "RUNNING": "runs", "CONFIGURING": "runs", "COMPLETING": "runs"}

    def states() -> dict[str, str]:
        table = subprocess.check_output(["squeue", "-h", "-t", "all", "-o", "%i %T"], text=True).splitlines()
        return {line.split()[0]: words.get(line.split()[1], "ended") for line in table}

    def foreign(name: str) -> str:
        words = ["sbatch", "--parsable", "-J", name, "-o", "/dev/null", "--wrap", "sleep 60"]
        return subprocess.check_output(words, text=True).strip()

    scheduler = SlurmScheduler(submit_timeout_s=5, late_s=1)
    return Place(scheduler, profile("slurm"), tmp_path / "logs", states, foreign, tmp_path / "submitting")


def local_place(request, tmp_path) -> Place:
    """Jobs are known by their log folder, which is in the environment of each."""
    logs, others = tmp_path / "logs", []

    def states() -> dict[str, str]:
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    marked = f"TEST_JOBS={logs}".encode() in (entry / "environ").read_bytes()
                    if marked and (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                        found[entry.name] = "runs"
                except OSError:
                    continue
        return found

    def foreign(name: str) -> str:
        others.append(subprocess.Popen(["sleep", "60"], env={**os.environ, "TEST_JOBS": str(logs)}))
        return str(others[-1].pid)

    request.addfinalizer(lambda: [(one.kill(), one.wait()) for one in others])
    place = Place(LocalScheduler(), profile("local"), logs, states, foreign, tmp_path / "none", None, None, None, None)
    spec = place.spec
    place.spec = lambda shell, **values: spec(shell, **{"env": {"TEST_JOBS": str(logs)}, **values})
    return place


PLACES = {"local": local_place, "lsf": lsf_place, "slurm": slurm_place}


def cleared(place: Place) -> None:
    """End what a test left, and see it gone: the next test counts."""
    place.ledger.end_all()
    if place.scheduler.name != "local":
        place.scheduler.kill(place.active())
    until(lambda: place.scheduler.name == "local" or not place.active())


@pytest.fixture(params=PLACES)
def anywhere(request, tmp_path) -> Iterator[Place]:
    """Each place in turn; the test must leave no job."""
    place = PLACES[request.param](request, tmp_path)
    yield place
    cleared(place)


@pytest.fixture(params=["lsf", "slurm"])
def cluster(request, tmp_path) -> Iterator[Place]:
    """Each place that has queues."""
    place = PLACES[request.param](request, tmp_path)
    yield place
    cleared(place)
