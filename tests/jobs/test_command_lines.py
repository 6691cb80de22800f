"""The exact words given to schedulers. A change here is a change for every site."""

from __future__ import annotations

import pytest

from chunkloom.errors import ParameterError
from chunkloom.jobs.lsf import LsfScheduler, bsub_argv
from chunkloom.jobs.slurm import sbatch_argv, slurm_time
from chunkloom.jobs.spec import Job, JobRefusedError, JobSpec, SubmitTimeoutError

from .conftest import calls

SERVER = JobSpec(
    "mito server",
    shell='chunkloom serve --model "{\\"type\\":\\"script\\"}" -d /data/cell.zarr',
    queue="gpu_h100",
    charge_group="cellmap",
    walltime="08:00",
    log_dir="/logs",
    token="0badcafe",
)
WORKER = JobSpec(
    "worker",
    argv=("chunkloom", "blockwise", "/tasks/a.yaml", "--client"),
    queue="gpu",
    cpus=12,
    walltime="90",
    log_dir="/logs",
    token="0badcafe",
)
MASTER = JobSpec(
    "master",
    argv=("python", "-P", "-m", "chunkloom", "blockwise", "/tasks/a.yaml"),
    gpus=0,
    log_dir="/logs",
    token="0badcafe",
)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            SERVER,
            [
                "bsub",
                "-J",
                "mito_server",
                "-o",
                "/logs/mito_server_%J.log",
                "-P",
                "cellmap",
                "-q",
                "gpu_h100",
                "-gpu",
                "num=1",
                "-n",
                "4",
                "-W",
                "08:00",
                "bash",
                "-c",
                'chunkloom serve --model "{\\"type\\":\\"script\\"}" -d /data/cell.zarr',
            ],
        ),
        (
            WORKER,
            [
                "bsub",
                "-J",
                "worker",
                "-o",
                "/logs/worker_%J.log",
                "-q",
                "gpu",
                "-gpu",
                "num=1",
                "-n",
                "12",
                "-W",
                "90",
                "chunkloom",
                "blockwise",
                "/tasks/a.yaml",
                "--client",
            ],
        ),
        (
            MASTER,
            [
                "bsub",
                "-J",
                "master",
                "-o",
                "/logs/master_%J.log",
                "-n",
                "4",
                "python",
                "-P",
                "-m",
                "chunkloom",
                "blockwise",
                "/tasks/a.yaml",
            ],
        ),
    ],
    ids=["server", "worker", "master"],
)
def test_bsub(spec, words):
    assert bsub_argv(spec) == words


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            SERVER,
            [
                "sbatch",
                "--parsable",
                "--job-name=mito server",
                "--output=/logs/mito_server_%j.log",
                "--comment=chunkloom:0badcafe",
                "--export=ALL",
                "--no-requeue",
                "--account=cellmap",
                "--partition=gpu_h100",
                "--gres=gpu:1",
                "--nodes=1",
                "--ntasks=1",
                "--cpus-per-task=4",
                "--time=08:00:00",
                '--wrap=exec bash -c \'chunkloom serve --model "{\\"type\\":\\"script\\"}" -d /data/cell.zarr\'',
            ],
        ),
        (
            WORKER,
            [
                "sbatch",
                "--parsable",
                "--job-name=worker",
                "--output=/logs/worker_%j.log",
                "--comment=chunkloom:0badcafe",
                "--export=ALL",
                "--no-requeue",
                "--partition=gpu",
                "--gres=gpu:1",
                "--nodes=1",
                "--ntasks=1",
                "--cpus-per-task=12",
                "--time=01:30:00",
                "--wrap=exec chunkloom blockwise /tasks/a.yaml --client",
            ],
        ),
        (
            MASTER,
            [
                "sbatch",
                "--parsable",
                "--job-name=master",
                "--output=/logs/master_%j.log",
                "--comment=chunkloom:0badcafe",
                "--export=ALL",
                "--no-requeue",
                "--nodes=1",
                "--ntasks=1",
                "--cpus-per-task=4",
                "--wrap=exec python -P -m chunkloom blockwise /tasks/a.yaml",
            ],
        ),
    ],
    ids=["server", "worker", "master"],
)
def test_sbatch(spec, words):
    assert sbatch_argv(spec) == words


@pytest.mark.parametrize(
    ("text", "slurm"),
    [("08:00", "08:00:00"), ("8:30", "08:30:00"), ("480", "08:00:00"), ("100:05", "100:05:00"), ("1-0", None)],
)
def test_walltimes_of_slurm_are_not_read_as_minutes_and_seconds(text, slurm):
    assert slurm_time(text) == slurm


@pytest.mark.parametrize("argv", [bsub_argv, sbatch_argv], ids=["bsub", "sbatch"])
def test_a_walltime_that_is_none_is_left_out_with_a_warning(argv):
    spec = JobSpec("one", argv=("true",), walltime="a day")
    with pytest.warns(UserWarning, match="a day"):
        words = argv(spec)
    assert not [word for word in words if word.startswith(("-W", "--time"))]


@pytest.mark.parametrize(
    ("name", "stem", "listed"),
    [("a b/c", "a_b_c", "a_b_c"), ("x[1-5]", "x_1-5", "x_1-5_"), ("--", "job", "job"), ("µ", "job", "µ")],
)
def test_names_are_no_arrays_options_or_folders(name, stem, listed):
    words = bsub_argv(JobSpec(name, argv=("true",), log_dir="/l"))
    assert words[:5] == ["bsub", "-J", listed, "-o", f"/l/{stem}_%J.log"]


def test_words_with_spaces_are_one_line_in_double_quotes_for_lsf():
    words = bsub_argv(JobSpec("one", argv=("echo", "a b", '$x"\\')))
    assert words[-3:] == ["bash", "-c", 'echo "a b" "\\$x\\"\\\\"']


@pytest.mark.parametrize("bad", ["it's", "two\nlines"])
def test_what_no_quoting_gets_through_lsf_is_refused(bad):
    with pytest.raises(ParameterError, match="no quoting"):
        bsub_argv(JobSpec("one", argv=("echo", bad)))


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"argv": ("a",), "shell": "a"},
        {"argv": ()},
        {"argv": "true"},
        {"shell": ""},
        {"shell": "a", "gpus": -1},
        {"shell": "a", "cpus": 0},
        {"shell": "a", "cpus": True},
    ],
    ids=str,
)
def test_a_spec_that_is_none_is_refused(values):
    with pytest.raises(ParameterError):
        JobSpec("one", **values)


def test_lsf_is_asked_once_for_many_jobs(lsf):
    for name in ("a", "b"):
        LsfScheduler().submit(JobSpec(name, argv=("true",), gpus=0, log_dir=lsf))
    (lsf / "calls").unlink()
    reports = LsfScheduler().reports(["100", "101", "555"])
    assert list(reports) == ["100", "101", "555"]
    assert calls(lsf) == [["bjobs", "-a", "-o", "jobid stat exit_code exit_reason delimiter='|'", "100", "101", "555"]]


def test_names_are_looked_up_before_a_submission(lsf):
    LsfScheduler().submit(JobSpec("a", argv=("true",), gpus=0, log_dir=lsf))
    assert [words[0] for words in calls(lsf)] == ["bjobs", "bsub"]
    assert calls(lsf)[0] == ["bjobs", "-a", "-noheader", "-J", "a"]


def test_a_job_that_appears_after_a_time_out_is_recognised(lsf):
    scheduler = LsfScheduler(submit_timeout_s=0.5, late_s=2)
    spec = JobSpec("a", argv=("sleep", "60"), gpus=0, queue="mute", log_dir=lsf)
    job = scheduler.submit(spec)
    assert isinstance(job, Job)
    job.kill()
    assert len(calls(lsf, "bsub")) == 1


def test_a_bsub_without_answer_and_without_job_is_not_repeated(lsf, monkeypatch):
    (lsf / "play" / "bjobs").write_text("")
    with pytest.raises(SubmitTimeoutError, match="not submitted again"):
        LsfScheduler(submit_timeout_s=0.3, late_s=0.2).submit(
            JobSpec("a", argv=("true",), gpus=0, queue="mute", log_dir=lsf)
        )
    assert len(calls(lsf, "bsub")) == 1


def test_success_without_a_job_id_is_an_error_of_its_own(lsf):
    (lsf / "play" / "bsub").write_text("welcome\n")
    with pytest.raises(SubmitTimeoutError, match="no job id"):
        LsfScheduler().submit(JobSpec("a", argv=("true",), log_dir=lsf))


def test_a_refusal_says_why(lsf):
    with pytest.raises(JobRefusedError, match=r"queue nope: nope: No such queue\. Job not submitted"):
        LsfScheduler().submit(JobSpec("a", argv=("true",), queue="nope", log_dir=lsf))


def test_a_scheduler_that_cannot_be_asked_is_no_lost_job(monkeypatch, tmp_path, lsf):
    (lsf.parent / "bin" / "bjobs").write_text("#!/bin/sh\necho 'LSF is down. Please wait ...' >&2; exit 255\n")
    assert LsfScheduler().reports(["1"]) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert LsfScheduler().reports(["1"]) is None
