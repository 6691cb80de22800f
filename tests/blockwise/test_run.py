"""Whole runs: what is written equals what materialize writes, is gone on with exactly, and a failure is told."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import fake_lsf
import real_slurm
from chunkloom import array_volume, open_volume
from chunkloom.blockwise import load_task, run
from chunkloom.blockwise.run import precheck
from chunkloom.blockwise.work import loaded
from chunkloom.engine.materialize import materialize
from chunkloom.errors import ConflictError


def command(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "chunkloom", "blockwise", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "CHUNKLOOM_SITE": "local", **environment},
    )


@pytest.fixture(scope="module")
def whole(raw):
    """The model's result by hand: 0 outside the data, after normalization."""
    data = open_volume(raw).read().astype(np.float32) / 255
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(data, 1), (3, 3, 3))
    return windows.mean((-3, -2, -1), dtype=np.float64)


def test_the_result_is_the_models_on_the_whole_volume(write_task, whole, raw, tmp_path):
    summary = run(load_task(write_task()), serial=True)
    assert (summary.blocks, summary.done, summary.skipped, summary.failed, summary.complete) == (36, 36, 0, 0, True)
    found = open_volume(tmp_path / "out.zarr" / "mean")
    np.testing.assert_allclose(found.read(), whole, atol=1e-5)
    np.testing.assert_allclose(open_volume(tmp_path / "out.zarr" / "negative").read(), -whole, atol=1e-5)
    assert found.levels[0].grid == open_volume(raw).levels[0].grid


@pytest.mark.parametrize("written", ["zarr2", "zarr3"])
@pytest.mark.parametrize("block", [None, [8, 8, 8], [5, 9, 7], [64, 64, 64]], ids=str)
def test_it_equals_materialize_voxel_for_voxel(write_task, tmp_path, written, block):
    import zarr

    task = load_task(write_task(block_size=block, format=written, output_channels={"both": [0, 1]}))
    assert run(task, serial=True).complete
    materialize(loaded(task).pipeline, tmp_path / "same.zarr", format=written)
    ours, same = zarr.open(tmp_path / "out.zarr" / "both" / "s0"), zarr.open(tmp_path / "same.zarr" / "0")
    assert ours.metadata.zarr_format == int(written[-1])
    np.testing.assert_array_equal(ours[:], same[:])


def test_a_box_off_the_grid_is_written_and_nothing_else(write_task, whole, tmp_path):
    offset, shape = (10.0, 20.0, 30.0), (100.0, 30.0, 90.0)
    box = {"offset": list(offset), "shape": list(shape)}
    assert run(load_task(write_task(bounding_boxes=[box])), serial=True).complete
    found = open_volume(tmp_path / "out.zarr" / "mean").read()
    grid = open_volume(tmp_path / "out.zarr" / "mean").levels[0].grid
    low = [np.arange(n) * v + c for n, v, c in zip(whole.shape, grid.voxel_size_nm, grid.corner_nm, strict=True)]
    inside = [
        (a >= o - 1e-6) & (a + v <= o + s + 1e-6)
        for a, v, o, s in zip(low, grid.voxel_size_nm, offset, shape, strict=True)
    ]
    mask = inside[0][:, None, None] & inside[1][None, :, None] & inside[2]
    assert 0 < mask.sum() < mask.size
    np.testing.assert_allclose(found, np.where(mask, whole, 0), atol=1e-5)


def test_a_box_in_a_store_of_its_own_lies_where_it_was(write_task, whole, tmp_path):
    task = load_task(
        write_task(
            bounding_boxes=[{"offset": [15, 20, 30], "shape": [100, 30, 90]}], separate_bounding_boxes_zarrs=True
        )
    )
    assert run(task, serial=True).complete
    found = open_volume(tmp_path / "out.zarr" / "mean")
    lo = precheck(task).plan.offset
    np.testing.assert_allclose(
        found.read(), whole[tuple(slice(b, b + n) for b, n in zip(lo, found.levels[0].shape, strict=True))], atol=1e-5
    )
    assert found.levels[0].grid.corner_nm == pytest.approx(
        [c + b * v for c, b, v in zip((-5.24, 12.5, 3.24), lo, (10.48, 3.24, 8.0), strict=True)]
    )


def test_valid_says_what_it_leaves_out(write_task, whole, tmp_path):
    done = command(write_task(fit="valid"), "--serial")
    assert done.returncode == 0, done.stderr
    assert f"leaves {21 * 18 * 27 - 16 * 16 * 24} voxels" in done.stderr
    found = open_volume(tmp_path / "out.zarr" / "mean").read()
    np.testing.assert_allclose(found[:16, :16, :24], whole[:16, :16, :24], atol=1e-5)
    assert not found[16:].any()


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_write_what_one_process_does(write_task, whole, tmp_path, workers):
    done = command(write_task(workers=workers, task_name="a:b run"), "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["blocks"], summary["done"], summary["complete"]) == (36, 36, True)
    np.testing.assert_allclose(open_volume(tmp_path / "out.zarr" / "mean").read(), whole, atol=1e-5)
    status = json.loads((tmp_path / "tmp_flow_daisy_progress_a_b_run" / "status.json").read_text())
    assert (status["state"], status["done"]) == ("ended", 36)
    again = command(write_task(workers=workers, task_name="a:b run"), "--json")
    assert (again.returncode, json.loads(again.stdout)["skipped"]) == (0, 36)


def markers(tmp_path: Path) -> list[Path]:
    return [path for path in tmp_path.glob("tmp_flow_daisy_progress_*/predict_*/*") if path.is_file()]


def test_markers_are_named_by_what_they_write_in_nm(write_task, tmp_path):
    assert run(load_task(write_task()), serial=True).complete
    names = {path.name for path in markers(tmp_path)}
    assert len(names) == 36
    assert "-5.24_12.5_3.24-83.84_25.92_64" in names
    assert markers(tmp_path)[0].parent.name == "predict_mean_run"


def test_a_lost_marker_costs_its_block_and_no_other(write_task, tmp_path):
    assert run(load_task(write_task()), serial=True).complete
    markers(tmp_path)[3].unlink()
    summary = run(load_task(write_task()), serial=True)
    assert (summary.done, summary.skipped) == (1, 35)
    summary = run(load_task(write_task(track_progress=False)), serial=True)
    assert (summary.done, summary.skipped) == (36, 0)


@pytest.fixture
def damaged(raw, tmp_path):
    """The raw data with one chunk that cannot be read."""
    shutil.copytree(raw, tmp_path / "damaged.zarr")
    (tmp_path / "damaged.zarr" / "0" / "0" / "0" / "0").write_bytes(b"short")
    return tmp_path / "damaged.zarr"


@pytest.mark.parametrize("mode", ["--serial", "--log-level=warning"], ids=["serial", "worker"])
def test_a_block_that_always_fails_is_told_with_its_traceback_and_the_others_are_done(write_task, damaged, mode):
    done = command(write_task(data_path=str(damaged)), mode, "--json")
    assert done.returncode == 1
    summary = json.loads(done.stdout)
    assert (summary["blocks"], summary["done"] + summary["failed"], summary["left"]) == (36, 36, 0)
    assert 1 <= summary["failed"] <= 8
    assert "Traceback (most recent call last)" in done.stderr
    assert "ChunkReadError" in done.stderr


def test_max_failures_ends_a_run_early(write_task, damaged):
    done = command(write_task(data_path=str(damaged)), "--serial", "--json", "--max-failures", 1)
    summary = json.loads(done.stdout)
    assert (done.returncode, summary["failed"]) == (1, 1)
    assert summary["left"] > 0


def test_a_task_changed_between_runs_is_refused_by_name(write_task, tmp_path):
    run(load_task(write_task()), serial=True)
    with pytest.raises(ConflictError, match=r"output_path"):
        run(load_task(write_task(block_size=[6, 6, 6])), serial=True)
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(ConflictError, match="block_size was"):
        run(
            load_task(write_task(block_size=[6, 6, 6], output_path=str(tmp_path / "other.zarr"))),
            serial=True,
        )


def test_outputs_that_must_be_there_and_are_not(write_task):
    with pytest.raises(ConflictError, match="create: false"):
        precheck(load_task(write_task(create=False)))


def test_a_dry_run_writes_nothing_and_loads_no_model(write_task, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    task = write_task()
    done = command(task, "--dry-run")
    assert done.returncode == 0
    assert "36 blocks of 8 x 8 x 8" in done.stderr
    assert sorted(tmp_path.rglob("*")) == sorted([*before, task])
    code = (
        "import sys; from chunkloom.blockwise import load_task; from chunkloom.blockwise.run import precheck;"
        f"precheck(load_task({str(task)!r})); print('onnxruntime' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


VICTIMS = ("master", "worker", "both")
# How many blocks are finished when the kill comes: one each, and with --long ten each.
MOMENTS = [(victim, 6) for victim in VICTIMS]
MOMENTS += [
    pytest.param(victim, moment, marks=pytest.mark.long)
    for victim in VICTIMS
    for moment in random.Random(3).sample(range(34), 10)
]


@pytest.mark.parametrize(("victim", "moment"), MOMENTS)
def test_a_killed_run_is_gone_on_with_and_computes_only_what_was_in_flight(write_task, whole, tmp_path, victim, moment):
    task = write_task(workers=2)
    counted = tmp_path / "computed"
    plugin = Path(os.environ["CHUNKLOOM_HOME"]) / "plugins"
    plugin.mkdir(parents=True)
    # A plug-in is loaded by masters and workers alike: it slows blocks down, and counts them.
    (plugin / "slow.py").write_text(
        "import os, time\nimport chunkloom.blockwise.work as work\ncompute = work.Prepared.compute\n"
        f"def slow(self, index):\n    with open({str(counted)!r}, 'a') as f: f.write(f'{{index}}\\n')\n"
        "    time.sleep(0.1)\n    return compute(self, index)\nwork.Prepared.compute = slow\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "chunkloom", "blockwise", str(task), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "CHUNKLOOM_SITE": "local"},
    )
    end = time.monotonic() + 60
    while len(markers(tmp_path)) < moment or not workers_of(tmp_path):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.02)
    clients = workers_of(tmp_path)
    for pid in (clients[:1] if victim == "worker" else clients) if victim != "master" else []:
        os.kill(pid, signal.SIGKILL)
    if victim != "worker":
        process.kill()
    process.communicate(timeout=60)
    if victim == "worker":
        assert process.returncode == 0, "the block of a worker that died is tried again"
    until_gone(tmp_path)
    before = len(markers(tmp_path))
    done = command(task, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["skipped"] == before
    assert len(counted.read_text().splitlines()) <= 36 + 2
    np.testing.assert_allclose(open_volume(tmp_path / "out.zarr" / "mean").read(), whole, atol=1e-5)


def workers_of(tmp_path: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"--client" in words and str(tmp_path / "task.yaml").encode() in words:
                found.append(int(entry.name))
    return sorted(found)


def until_gone(tmp_path: Path) -> None:
    end = time.monotonic() + 30
    while workers_of(tmp_path):
        assert time.monotonic() < end, "workers are left"
        time.sleep(0.1)


def test_ctrl_c_leaves_no_worker(write_task, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "chunkloom", "blockwise", str(write_task(workers=2, block_size=[2, 2, 2]))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "CHUNKLOOM_SITE": "local"},
        start_new_session=True,
    )
    end = time.monotonic() + 60
    while len(markers(tmp_path)) < 3:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.02)
    second = command(tmp_path / "task.yaml", "--serial")
    assert (second.returncode, "another run" in second.stderr) == (2, True)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    until_gone(tmp_path)


def test_workers_run_under_slurm(write_task, whole, tmp_path):
    (tmp_path / "site.yaml").write_text(
        "name: test\nscheduler: slurm\ndefault_queue: run\nworker_gpus: 0\nworker_cpus: 1\n"
    )
    with real_slurm.slurm() as conf:
        done = command(write_task(), "--json", CHUNKLOOM_SITE=str(tmp_path / "site.yaml"), SLURM_CONF=str(conf))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["done"] == 36
    np.testing.assert_allclose(open_volume(tmp_path / "out.zarr" / "mean").read(), whole, atol=1e-5)
    assert list(tmp_path.glob("tmp_flow_daisy_progress_run/logs/run_worker_[0-9]*.log"))


def test_workers_run_under_lsf(write_task, whole, tmp_path):
    fake_lsf.install(tmp_path / "lsf", tmp_path / "bin")
    (tmp_path / "site.yaml").write_text("name: test\nscheduler: lsf\ndefault_queue: run\nworker_cpus: 2\n")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = command(
        write_task(workers=2),
        "--json",
        CHUNKLOOM_SITE=str(tmp_path / "site.yaml"),
        PATH=path,
        FAKE_LSF=str(tmp_path / "lsf"),
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(open_volume(tmp_path / "out.zarr" / "mean").read(), whole, atol=1e-5)
    calls = [json.loads(line) for line in (tmp_path / "lsf" / "calls").read_text().splitlines()]
    submitted = [words for words in calls if words[0] == "bsub"]
    assert len(submitted) == 2
    logs = tmp_path / "tmp_flow_daisy_progress_run" / "logs"
    assert submitted[0] == [
        *("bsub", "-J", "run_worker", "-o", f"{logs}/run_worker_%J.log", "-q", "run", "-gpu", "num=1", "-n", "2"),
        *(sys.executable, "-P", "-m", "chunkloom", "blockwise", str(tmp_path / "task.yaml"), "--client"),
    ]


def test_a_volume_of_another_voxel_size_than_the_models(write_task, tmp_path):
    data = np.random.default_rng(1).integers(0, 255, (9, 9, 9), np.uint8)
    materialize(array_volume(data, voxel_size_nm=(8, 8, 8)), tmp_path / "eight.zarr", format="zarr2")
    done = command(write_task(data_path=str(tmp_path / "eight.zarr")), "--dry-run")
    assert done.returncode == 0
    assert "was made for voxels of" in done.stderr


@pytest.mark.parametrize(
    ("change", "line", "says"),
    [
        ({"output_path": "/tmp/out"}, True, "zarr"),
        ({"output_path": None}, False, "output_path is missing"),
        ({"task_name": None}, False, "task_name is missing"),
        ({"workers": 0}, True, "workers"),
        ({"workers": "two"}, True, "whole number"),
        ({"fit": "shrunk"}, True, "did you mean 'shrink'"),
        ({"format": "n5"}, True, "zarr2, zarr3"),
        ({"block_size": [8, 8]}, True, "voxels z, y, x"),
        ({"bounding_boxes": [{"offset": [0, 0, 0]}]}, True, "bounding_boxes[0].shape"),
        ({"bounding_boxes": [{"offset": [1e6, 0, 0], "shape": [8, 8, 8]}]}, False, "holds no whole voxel"),
        ({"separate_bounding_boxes_zarrs": True}, True, "one box"),
        ({"output_channels": ["nothing"]}, False, "mean, negative"),
        ({"output_channels": {"a": 2}}, False, "has 2, from 0"),
        ({"output_channels": ["mean", "mean"]}, True, "twice"),
        ({"track_progress": "yes"}, True, "true or false"),
        ({"models": []}, True, "expected one"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_task_that_does_not_fit_is_refused_before_anything_is_written(write_task, tmp_path, change, line, says):
    done = command(write_task(**change))
    assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1), done.stderr
    assert says in done.stderr
    assert ("task.yaml, line" in done.stderr) == line
    assert not (tmp_path / "out.zarr").exists()
    assert not list(tmp_path.glob("tmp_flow*"))


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.long), 2])
def test_the_sample_model_on_real_em(write_task, shared, tmp_path, workers):
    task = write_task(
        data_path=str(shared / "data" / "fibsem.zarr" / "raw"),
        models=[{"type": "onnx", "path": "fibsem-membrane"}],
        json_data=None,
        workers=workers,
        bounding_boxes=[{"offset": [101, 203, 305], "shape": [300, 600, 1000]}],
    )
    done = command(task, "--json")
    assert done.returncode == 0, done.stderr
    prepared = loaded(load_task(task))
    materialize(prepared.pipeline, tmp_path / "same.zarr", format="zarr2")
    found = open_volume(tmp_path / "out.zarr" / "membrane").read()
    same = open_volume(tmp_path / "same.zarr").read()
    same = same[0] if same.ndim == 4 else same
    box = prepared.plan.regions[0].box
    assert box.shape == (29, 59, 100)
    np.testing.assert_array_equal(found[box.index()], same[box.index()])
    assert np.count_nonzero(found) == np.count_nonzero(found[box.index()]) > 0
