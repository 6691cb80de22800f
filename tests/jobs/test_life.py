"""The whole life of a job, the same on this machine, on LSF (a stand-in) and on a real Slurm."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from chunkloom.jobs.launch import start_hosts, submit_job
from chunkloom.jobs.spec import JobReport, JobStartError, JobStatus

from .conftest import local_place, lsf_place, until

READY = """printf "{\\"url\\": \\"http://there:1\\"}" > "$CHUNKLOOM_READY_FILE"; sleep 60"""
MARKER = 'echo "CELLMAP_FLOW_SERVER_IP(http://old:1)CELLMAP_FLOW_SERVER_IP"; echo "CELLMAP_FLOW_SERVER_IP("; sleep 60'


def start(place, shell, queues, **times):
    site = replace(place.site, **times)
    return start_hosts(place.spec(shell), site, scheduler=place.scheduler, queues=queues, ledger=place.ledger)


@pytest.mark.parametrize(
    ("shell", "status", "says"),
    [
        ("echo hello", JobStatus.COMPLETED, ""),
        ("echo hello; exit 3", JobStatus.FAILED, "exit code 3"),
    ],
    ids=["success", "failure"],
)
def test_a_job_ends_as_its_command_does(anywhere, shell, status, says):
    job = submit_job(anywhere.spec(shell, queue=anywhere.run), anywhere.scheduler, ledger=anywhere.ledger)
    assert job.wait(poll_s=0.1) == JobReport(status, says)
    until(lambda: "hello" in job.output())


def test_words_reach_the_command_as_they_are(anywhere):
    words = ["printf", "<%s>", "a b", "", '"$HOME"', "*", "é"]
    spec = anywhere.spec(None, argv=words, queue=anywhere.run)
    job = submit_job(spec, anywhere.scheduler, ledger=anywhere.ledger)
    job.wait(poll_s=0.1)
    assert until(job.output).removeprefix("<< output from stdout >>\n") == '<a b><><"$HOME"><*><é>'


def test_the_environment_reaches_the_job(anywhere):
    spec = anywhere.spec('echo "it is $THIS_ONE"', queue=anywhere.run, env={"THIS_ONE": "a 'value'"})
    job = submit_job(spec, anywhere.scheduler, ledger=anywhere.ledger)
    job.wait(poll_s=0.1)
    assert "it is a 'value'" in until(job.output)


def test_pending_running_and_killed(cluster):
    waiting, running = (
        submit_job(cluster.spec("sleep 60", queue=queue), cluster.scheduler, ledger=cluster.ledger)
        for queue in (cluster.stuck, cluster.run)
    )
    until(lambda: running.observed().status is JobStatus.RUNNING)
    reports = cluster.scheduler.reports([waiting.id, running.id, "99999"])
    assert [report.status for report in reports.values()] == [JobStatus.PENDING, JobStatus.RUNNING, JobStatus.LOST]
    cluster.scheduler.kill([waiting.id, running.id])
    until(
        lambda: {r.status for r in cluster.scheduler.reports([waiting.id, running.id]).values()} == {JobStatus.KILLED}
    )
    assert cluster.active() == set()
    cluster.scheduler.kill([waiting.id, running.id])  # killing what has ended is no error


@pytest.mark.parametrize(
    ("shell", "url"), [(READY, "http://there:1"), (MARKER, "http://old:1")], ids=["file", "marker"]
)
def test_a_server_says_where_it_is(anywhere, shell, url):
    host = start(anywhere, shell, [anywhere.run])
    assert (host.url, host.job.observed().status) == (url, JobStatus.RUNNING)
    assert anywhere.ledger.jobs == [host.job]
    assert not list(anywhere.logs.glob("*.ready")), "the ready file is deleted once it is read"
    anywhere.ledger.end_all()
    until(lambda: not anywhere.active())


def test_a_job_that_ends_without_an_address_is_an_error_at_once(anywhere):
    begin = time.monotonic()
    with pytest.raises(JobStartError, match=r"(?s)exit code 3.*it broke"):
        start(anywhere, "echo it broke; exit 3", [anywhere.run, anywhere.stuck], startup_timeout_s=60)
    assert time.monotonic() - begin < 30
    assert (anywhere.ledger.jobs, anywhere.active()) == ([], set())


def test_a_job_that_runs_and_says_nothing_is_ended(anywhere):
    times = {"pending_fallback_s": 2.5, "startup_timeout_s": 0.5}
    with pytest.raises(JobStartError, match="did not say where it is"):
        start(anywhere, "echo still loading; sleep 60", [anywhere.run, anywhere.stuck], **times)
    until(lambda: not anywhere.active())
    assert anywhere.ledger.jobs == []


def test_the_next_queue_is_tried_where_one_refuses_or_keeps_the_job_waiting(cluster):
    host = start(cluster, READY, [cluster.closed, cluster.stuck, cluster.run])
    assert (host.url, host.queue) == ("http://there:1", cluster.run)
    assert cluster.active() == {host.job.id}


def test_a_job_that_no_queue_starts_is_ended_and_each_reason_told(cluster):
    with pytest.raises(JobStartError) as caught:
        start(cluster, READY, [cluster.closed, cluster.stuck], startup_timeout_s=1)
    for part in ("closed", "refused", "still pending"):
        assert part in str(caught.value)
    assert cluster.active() == set()


def test_another_jobs_ready_file_is_not_believed(tmp_path, request):
    place = lsf_place(request, tmp_path)
    shell = """printf "{\\"url\\": \\"http://x\\", \\"job_id\\": \\"7\\"}" > "$CHUNKLOOM_READY_FILE"; sleep 60"""
    with pytest.raises(JobStartError, match="did not say where it is"):
        start(place, shell, [place.run], startup_timeout_s=0.7)
    assert place.active() == set()


def test_killing_a_local_job_ends_all_it_started(tmp_path, request, monkeypatch):
    place = local_place(request, tmp_path)
    job = submit_job(place.spec("trap '' TERM; sleep 61 & sleep 62"), place.scheduler, ledger=place.ledger)
    until(lambda: len(place.active()) == 3)
    monkeypatch.setattr("chunkloom.jobs.local.TERM_SECONDS", 0.5)
    place.ledger.end(job)
    until(lambda: not place.active())
    assert job.observed().status is JobStatus.KILLED


def test_a_local_job_is_not_taken_for_the_job_it_was_started_in(tmp_path, request, monkeypatch):
    place = local_place(request, tmp_path)
    monkeypatch.setenv("LSB_JOBID", "55")
    job = submit_job(place.spec('echo "id <$LSB_JOBID>"'), place.scheduler, ledger=place.ledger)
    job.wait(0.05)
    assert job.output() == "id <>\n"
