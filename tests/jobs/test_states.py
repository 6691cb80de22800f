"""What schedulers' tables mean."""

from __future__ import annotations

import json

import pytest

from chunkloom.jobs.spec import UNKNOWN_JOB, JobStatus
from chunkloom.jobs.states import (
    LSF_STATES,
    lsf_report,
    lsf_reports,
    sacct_reports,
    scontrol_report,
    slurm_report,
    slurm_reports,
    squeue_reports,
)

# The case's words for ours.
WORDS = {"queued": "pending", "done": "completed", "cancelled": "killed"}


def test_the_case_of_job_states(shared):
    case = shared / "cases" / "jobs-states"
    expected = json.loads((case / "expected.json").read_text())
    found = {
        **slurm_reports((case / "squeue.txt").read_text(), (case / "sacct.txt").read_text()),
        **lsf_reports((case / "bjobs.txt").read_text()),
    }
    assert {job: str(report.status) for job, report in found.items()} == {
        job: WORDS.get(state, state) for job, state in expected["states"].items()
    }
    for job, word in expected["reason_must_mention"].items():
        assert word in found[job].reason
    assert found.get("999", UNKNOWN_JOB).status is JobStatus.LOST


@pytest.mark.parametrize(
    ("state", "reason", "code", "status", "says"),
    [
        ("EXIT", "-", "3", "failed", "exit code 3"),
        ("EXIT", "TERM_RUNLIMIT: job killed after reaching LSF run time limit", "140", "failed", "time limit"),
        ("EXIT", "TERM_OWNER: job killed by owner", "130", "killed", "owner"),
        ("EXIT", "TERM_ADMIN: job killed by root or LSF administrator", "", "killed", "administrator"),
        ("EXIT", "-", "-", "failed", ""),
        ("PSUSP", "", "", "suspended", ""),
        ("WAIT", "", "", "pending", ""),
        ("RUNNING", "", "", "lost", "none of its documented states"),
    ],
)
def test_lsf_states(state, reason, code, status, says):
    report = lsf_report(state, reason, code)
    assert str(report.status) == status
    assert says in report.reason


def test_lsf_columns_are_those_of_the_header():
    found = lsf_reports("JOBID|STAT|EXIT_CODE|EXIT_REASON\n7|EXIT|9|TERM_SWAP: job killed | swap\n8|RUN|-|-\n\n")
    assert (found["7"].status, found["8"].status) == (JobStatus.FAILED, JobStatus.RUNNING)
    assert "memory" in found["7"].reason
    assert lsf_reports("5 DONE -\nJob <6> is not found\n").keys() == {"5"}


def test_every_documented_lsf_state_is_known():
    assert set(LSF_STATES) >= {
        "PEND",
        "PROV",
        "PSUSP",
        "RUN",
        "USUSP",
        "SSUSP",
        "DONE",
        "EXIT",
        "UNKWN",
        "WAIT",
        "ZOMBI",
    }


@pytest.mark.parametrize(
    ("state", "code", "status", "says"),
    [
        ("FAILED", "2:0", "failed", "exit code 2"),
        ("FAILED", "0:9", "failed", "signal 9"),
        ("CANCELLED+", "0:15", "killed", "cancelled"),
        ("CANCELLED by 0", "0:0", "killed", "by 0"),
        ("OUT_OF_ME+", "0:125", "lost", "documented"),
        ("PREEMPTED", "0:0", "failed", "another job"),
        ("DEADLINE", "0:0", "failed", "time limit"),
        ("SUSPENDED", "0:0", "suspended", ""),
        ("REQUEUE_HOLD", "0:0", "pending", ""),
        ("COMPLETED", "0:0", "completed", ""),
        ("PD", "", "pending", ""),
        ("TO", "", "failed", "time"),
    ],
)
def test_slurm_states(state, code, status, says):
    report = slurm_report(state, code)
    assert str(report.status) == status
    assert says in report.reason


def test_how_a_job_ended_stands_over_a_queue_that_is_behind():
    assert slurm_reports("5|COMPLETING|None", "5|TIMEOUT|0:0")["5"].status is JobStatus.FAILED
    assert slurm_reports("5|RUNNING|None", "5|PENDING|0:0")["5"].status is JobStatus.RUNNING
    assert slurm_reports("", "5|RUNNING|0:0")["5"].status is JobStatus.RUNNING


def test_steps_of_a_job_are_not_the_job():
    assert sacct_reports("5|FAILED|1:0\n5.batch|COMPLETED|0:0\n5.extern|COMPLETED|0:0\n").keys() == {"5"}


def test_a_pending_job_says_why():
    assert squeue_reports("5|PENDING|Resources")["5"].reason == "Resources"


def test_scontrol_answers_for_one_job():
    text = "JobId=5 JobName=a b JobState=FAILED Reason=NonZeroExitCode Dependency=(null) ExitCode=3:0 Command=x"
    assert scontrol_report(text).reason == "exit code 3"
    assert scontrol_report("slurm_load_jobs error: Invalid job id specified") is None
