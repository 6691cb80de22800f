"""Ctrl-C, a signal, or an exception nobody catches: no job is left, and none is ended that was not started here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from chunkloom.errors import ChunkloomError
from chunkloom.jobs.cleanup import install_cleanup_handlers
from chunkloom.jobs.launch import submit_job
from chunkloom.jobs.ledger import Ledger
from chunkloom.jobs.spec import Job, JobSpec, JobStartError

from .conftest import Place, calls, local_place, lsf_place, until
from .test_life import READY

QUIET = "sleep 60"


class Starting:
    """`starting.py` as a process."""

    def __init__(self, place: Place, shell: str, queues: list[str | None], *words: str, **times: float) -> None:
        site = {"name": "test", "scheduler": place.scheduler.name, "submit_timeout_s": 20}
        site |= {"pending_fallback_s": 60, "startup_timeout_s": 60, **times}
        spec = place.spec(shell)
        values = {"name": spec.name, "shell": shell, "gpus": 0, "cpus": 1, "log_dir": str(spec.log_dir)}
        values["env"] = dict(spec.env)
        self.process = subprocess.Popen(
            [
                sys.executable,
                str(Path(__file__).parent / "starting.py"),
                *map(json.dumps, (site, values, queues)),
                *words,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def interrupted(self, number: int) -> int:
        """Send the signal as a terminal does, to the whole group; its exit code."""
        os.killpg(self.process.pid, number)
        _, self.said = self.process.communicate(timeout=30)
        return self.process.returncode


def submitting(place, started, foreign):
    until(place.submitting.exists)


def pending(place, started, foreign):
    until(lambda: any(state == "waits" for job, state in place.states().items() if job != foreign))


def running(place, started, foreign):
    until(lambda: any(state == "runs" for job, state in place.states().items() if job != foreign))


def addressed(place, started, foreign):
    assert started.process.stdout.readline() == "http://there:1\n"


MOMENTS = {
    "submitting": (submitting, QUIET, ["slow"]),
    "pending": (pending, QUIET, ["stuck", "run"]),
    "running": (running, QUIET, ["run", "stuck"]),
    "addressed": (addressed, READY, ["run"]),
    "in-the-next-queue": (running, QUIET, ["closed", "stuck", "run"]),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_leaves_no_job_at_any_moment(cluster, moment):
    foreign = cluster.foreign("a server")
    reached, shell, queues = MOMENTS[moment]
    started = Starting(cluster, shell, queues, pending_fallback_s=1 if moment == "in-the-next-queue" else 60)
    reached(cluster, started, foreign)
    assert started.interrupted(signal.SIGINT) == 130, started.said
    until(lambda: cluster.active() == {foreign})
    assert "Traceback" not in started.said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
@pytest.mark.parametrize("moment", ["running", "addressed"])
def test_a_signal_ends_local_jobs(tmp_path, request, number, moment):
    place = local_place(request, tmp_path)
    foreign = place.foreign("a server")
    reached, shell, _ = MOMENTS[moment]
    started = Starting(place, shell, [None])
    reached(place, started, foreign)
    assert started.interrupted(number) == 128 + number
    until(lambda: place.active() == {foreign})


def test_an_exception_nobody_catches_leaves_no_job(anywhere):
    started = Starting(anywhere, READY, [anywhere.run], "--no-handlers")
    assert started.process.wait(30) == 1
    assert "nobody catches" in started.process.stderr.read()
    until(lambda: not anywhere.active())


def test_a_bsub_that_never_answers_is_waited_for_and_its_job_ended(tmp_path, request):
    place = lsf_place(request, tmp_path)
    foreign = place.foreign("a server")
    started = Starting(place, QUIET, ["mute"], submit_timeout_s=1.5)
    until(place.submitting.exists)
    assert started.interrupted(signal.SIGINT) == 130
    until(lambda: place.active() == {foreign})
    assert len(calls(tmp_path / "lsf", "bsub")) == 2, "submitted once, and never again"


class Slow:
    """A scheduler that thinks."""

    name = "slow"

    def __init__(self):
        self.asked, self.killed = threading.Event(), []

    def submit(self, spec):
        self.asked.set()
        time.sleep(0.3)
        return Job("7", spec, self)

    def kill(self, ids):
        self.killed += ids


def test_a_slow_submission_on_another_thread_is_waited_for():
    ledger, scheduler = Ledger(), Slow()
    spec = JobSpec("one", argv=("true",))
    thread = threading.Thread(target=lambda: ledger.submit(scheduler, spec))
    thread.start()
    scheduler.asked.wait(10)
    ledger.close()
    assert scheduler.killed == ["7"]
    with pytest.raises(JobStartError, match="ending"):
        ledger.submit(scheduler, spec)
    thread.join()


def test_a_forked_child_ends_no_job_of_its_parent(tmp_path, request):
    place = local_place(request, tmp_path)
    submit_job(place.spec("sleep 60"), place.scheduler, ledger=place.ledger)
    child = os.fork()
    if child == 0:
        place.ledger.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert len(place.active()) >= 1
    place.ledger.end_all()


def test_handlers_are_for_the_main_thread():
    caught = []

    def install():
        try:
            install_cleanup_handlers(Ledger())
        except ChunkloomError as error:
            caught.append(str(error))

    thread = threading.Thread(target=install)
    thread.start()
    thread.join()
    assert "main thread" in caught[0]
