"""Which queues could run a job, and the order to try them in."""

from __future__ import annotations

import pytest

from chunkloom.jobs.queues import Availability, QueueState, candidates, gpu_queue_availability, observe
from chunkloom.jobs.site import Queue, SiteProfile, site_profile

from .conftest import calls

BQUEUES = """\
QUEUE_NAME      PRIO STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN  SUSP
gpu_h100         30  Open:Active       -    -    -    -   130    90    40     0
gpu_h200         30  Open:Inact        -    -    -    -     3     3     0     0
gpu_a100         30  Open:Active       -    -    -    -    12     2    10     0
"""
BHOSTS = """\
HOST_NAME          STATUS          JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV
h06u01             ok                 -     96     10     10      0      0      0
h06u02             closed_Full        -     96     96     96      0      0      0
h06u03             unavail            -     96      0      0      0      0      0
h06u04             closed_Adm         -     96      0      0      0      0      0
"""
BHOSTS_GPU = """\
HOST_NAME              ID           MODEL     MUSED      MRSV  NJOBS    RUN   SUSP    RSV   VENDOR
h06u01                  0  NVIDIAH100       70G        0G      1      1      0      0   Nvidia
                        1  NVIDIAH100        0G        0G      0      0      0      0   Nvidia
                        2  NVIDIAH100        0G        0G      0      0      0      0   Nvidia
h06u02                  0  NVIDIAH100        0G        0G      0      0      0      0   Nvidia
h06u03                  0  -                  -         -      0      0      0      0   -
"""

PROGRAM = """#!/bin/sh
words="$(basename $0)${{1:+ $*}}"
echo "$words" >> {folder}/asked
case "$words" in
  "bqueues") cat {folder}/bqueues;;
  "bhosts -w"*) cat {folder}/bhosts;;
  "bhosts -gpu"*) cat {folder}/bhosts_gpu;;
esac
"""


@pytest.fixture
def lsf_tables(tmp_path, monkeypatch):
    for name, text in (("bqueues", BQUEUES), ("bhosts", BHOSTS), ("bhosts_gpu", BHOSTS_GPU)):
        (tmp_path / name).write_text(text)
    (tmp_path / "programs").mkdir()
    for name in ("bqueues", "bhosts"):
        (tmp_path / "programs" / name).write_text(PROGRAM.format(folder=tmp_path))
        (tmp_path / "programs" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}:/usr/bin:/bin")
    return tmp_path


def test_lsf_queues_with_their_hosts_and_gpus(lsf_tables):
    h100, h200, a100 = observe(site_profile("janelia")).queues
    assert h100 == QueueState(
        queue="gpu_h100",
        label="H100",
        status="Open:Active",
        open=True,
        accepting=True,
        pending=90,
        running=40,
        hosts_ok=1,
        hosts_full=1,
        hosts_down=2,
        hosts_total=4,
        gpus_free=2,
        gpus_total=5,
        description="NVIDIA H100",
    )
    assert (h200.open, h200.accepting, a100.pending) == (True, False, 2)
    asked = (lsf_tables / "asked").read_text().splitlines()
    assert asked[:3] == ["bqueues", "bhosts -w h100s", "bhosts -gpu h100s"]


def test_a_queue_that_lsf_does_not_have(lsf_tables):
    site = SiteProfile("x", "lsf", queues=(Queue("gpu_z"),))
    assert (observe(site).queues[0].status, observe(site).queues[0].accepting) == ("no such queue", False)


def test_answers_are_kept_for_a_while(lsf_tables):
    site = SiteProfile("kept", "lsf", queues=(Queue("gpu_h100", host_group="h100s"),))
    first = gpu_queue_availability(site)
    assert gpu_queue_availability(site).queues == first.queues
    assert (lsf_tables / "asked").read_text().splitlines().count("bqueues") == 1
    gpu_queue_availability(site, max_age_s=-1)
    assert (lsf_tables / "asked").read_text().splitlines().count("bqueues") == 2


def test_queues_are_listed_where_nobody_can_be_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = observe(site_profile("janelia")).to_dict()
    assert (found["available"], [queue["queue"] for queue in found["queues"]]) == (
        False,
        ["gpu_h100", "gpu_h200", "gpu_a100"],
    )
    assert found["queues"][0]["gpus_free"] is None


def test_partitions_of_a_real_slurm(slurm):
    run, stuck = observe(site_profile("slurm")).queues
    assert (run.queue, run.accepting, run.hosts_total) == ("run", True, 1)
    assert (stuck.queue, stuck.accepting) == ("stuck", False)


def state(name, accepting=True, free=0, pending=0):
    return QueueState(name, name, accepting=accepting, gpus_free=free, pending=pending)


@pytest.mark.parametrize(
    ("preferred", "cycle", "states", "order"),
    [
        ("a", True, [state("a"), state("b", free=1), state("c", free=4)], ["a", "c", "b"]),
        ("a", True, [state("a"), state("b", pending=9), state("c", pending=2)], ["a", "c", "b"]),
        ("a", True, [state("a", accepting=False), state("b")], ["b", "a"]),
        ("a", True, [state("a"), state("b", accepting=False)], ["a"]),
        ("a", False, [state("a", accepting=False), state("b")], ["a"]),
        ("z", True, [state("a")], ["z", "a"]),
        (None, True, [state("a", free=1), state("b", free=2)], ["b", "a"]),
        (None, True, [], [None]),
        ("a", True, [QueueState("a", "a"), QueueState("b", "b")], ["a"]),
    ],
    ids=[
        "free-gpus",
        "fewest-waiting",
        "preferred-closed",
        "other-closed",
        "no-cycle",
        "unlisted",
        "none",
        "nothing",
        "nobody-to-ask",
    ],
)
def test_the_order_of_candidates(preferred, cycle, states, order):
    assert candidates(preferred, Availability(True, tuple(states)), cycle=cycle) == order


def test_the_stand_in_is_not_asked_for_queues_of_a_job_without_gpus(lsf):
    from chunkloom.jobs.launch import queues_to_try, scheduler_for
    from chunkloom.jobs.spec import JobSpec

    site = site_profile("janelia")
    spec = JobSpec("m", argv=("true",), gpus=0)
    assert queues_to_try(spec, site, scheduler_for(site)) == ["gpu_h100"]
    assert calls(lsf) == []
