"""`kill -9` at any moment, then the same call again: the store an uninterrupted run writes, byte for byte."""

from __future__ import annotations

import json
import math
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from chunkloom.engine.materialize import plan_materialize
from chunkloom.engine.writing.record import TO_DO

from .killed_run import made

SCRIPT = Path(__file__).parent / "killed_run.py"
BOX = ((3, 47), (2, 42), (1, 38))
CHUNK_BYTES = 2 * 8 * 8 * 8 * 4
OPTIONS = {"box": BOX, "codec": "none", "concurrency": 2, "name": "v"}
# Room for some of the pieces that wait: the others are on disk.
SPILLING = {**OPTIONS, "memory_limit": 24 * CHUNK_BYTES}


@pytest.fixture(scope="module")
def region():
    return plan_materialize(made(), "a", box=BOX).arrays[0][1]


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """The store of a run that nothing interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    Run(folder, OPTIONS).start(pause=0).finish()
    return files(folder / "store")


def files(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


class Run:
    """Processes that write one store, and what each of them computed."""

    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        self.process, self.logs = None, []

    def start(self, pause=0.002, die_at=None):
        log = self.folder / f"log-{len(self.logs)}"
        log.touch()
        self.logs.append(log)
        told = {"target": str(self.folder / "store"), "log": str(log), "options": self.options, "pause": pause}
        words = [sys.executable, str(SCRIPT), json.dumps({**told, "die_at": die_at})]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return self

    def computed(self, number=-1):
        lines = self.logs[number].read_text().split()
        return [tuple(int(n) for n in line.split(",")) for line in lines]

    def kill_after(self, count):
        """Kill it once it has computed so many chunks (or has ended); whether it still ran."""
        while self.process.poll() is None and self.logs[-1].read_bytes().count(b"\n") < count:
            time.sleep(0.0005)
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()
        return self.process.returncode == -signal.SIGKILL

    def died(self):
        """Wait until it killed itself."""
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == -signal.SIGKILL, (out, err)

    def finish(self):
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, err
        return json.loads(out)

    def spilled(self):
        spill = self.folder / "store.unfinished" / "spill"
        return spill.exists() and spill.stat().st_size > 0

    def unfinished(self, region):
        """Which pieces the record says are not done; all where there is no record yet."""
        found = list((self.folder / "store.unfinished").glob("run-*.map"))
        if not found:
            return np.ones(region.pieces.shape, bool)
        return (np.frombuffer(found[0].read_bytes(), np.uint8) == TO_DO).reshape(region.pieces.shape)


def looks_finished(folder):
    root = folder / "store" / "zarr.json"
    return root.exists() and "chunkloom_unfinished" not in json.loads(root.read_text())["attributes"]


def kill_and_go_on(run, region, kill):
    """One kill, checked, and what the next run may compute."""
    killed = kill(run)
    unfinished = run.unfinished(region)
    if looks_finished(run.folder):
        assert not unfinished.any() or not killed or not (run.folder / "store.unfinished").exists()
    feeding = region.feeding(unfinished)
    before = set(run.computed())
    run.start(pause=0)
    done = run.finish()
    assert done["done"] == region.total
    after = run.computed()
    assert len(after) == len(set(after))
    assert all(feeding[tuple(np.subtract(c, region.chunks.lo))] for c in after)
    return before, after, int(feeding.sum())


def assert_as_uninterrupted(run, whole_run):
    assert files(run.folder / "store") == whole_run
    assert not (run.folder / "store.unfinished").exists()


# Parts of the way at which a run is killed: some while it spills, most while it does not.
SHORT = [(0.05, OPTIONS), (0.5, SPILLING), (0.9, OPTIONS)]
LONG = [(i / 22, OPTIONS) for i in range(22)] + [(i / 9, SPILLING) for i in range(1, 9)]


@pytest.mark.parametrize(("part", "options"), SHORT, ids=lambda v: v if isinstance(v, float) else "")
def test_a_killed_run_is_gone_on_with(part, options, region, whole_run, tmp_path):
    run = Run(tmp_path, options).start()
    spilled = []

    def kill(run):
        killed = run.kill_after(math.ceil(part * region.chunks.size))
        spilled.append(run.spilled())
        return killed

    before, after, feeders = kill_and_go_on(run, region, kill)
    assert_as_uninterrupted(run, whole_run)
    assert len(before) + len(after) <= region.chunks.size + feeders
    assert spilled[0] == (options is SPILLING)


# Two files with the mark, one at the end without it.
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_killed_while_it_writes_metadata_is_gone_on_with(number, when, region, whole_run, tmp_path):
    run = Run(tmp_path, OPTIONS).start(pause=0, die_at=[number, when])
    kill_and_go_on(run, region, lambda run: run.died())
    assert_as_uninterrupted(run, whole_run)


@pytest.mark.long
def test_runs_killed_at_thirty_moments_are_gone_on_with(region, whole_run, tmp_path):
    spilling = killed = 0
    for number, (part, options) in enumerate(LONG):
        folder = tmp_path / str(number)
        folder.mkdir()
        run = Run(folder, options).start()
        state = []

        def kill(run, part=part, state=state):
            state.append(run.kill_after(math.ceil(part * region.chunks.size)))
            state.append(run.spilled())
            return state[0]

        before, after, feeders = kill_and_go_on(run, region, kill)
        assert_as_uninterrupted(run, whole_run)
        assert len(before) + len(after) <= region.chunks.size + feeders
        killed += state[0]
        spilling += state[0] and state[1]
    assert killed == len(LONG) == 30
    assert spilling >= 5, spilling


@pytest.mark.long
def test_one_store_survives_kill_after_kill(region, whole_run, tmp_path):
    rng = random.Random(5)
    run = Run(tmp_path, SPILLING)
    total = 0
    allowed = region.chunks.size
    for _ in range(12):
        run.start()
        run.kill_after(rng.randint(1, region.chunks.size // 2))
        feeding = region.feeding(run.unfinished(region))
        again = {c for c in run.computed() if feeding[tuple(np.subtract(c, region.chunks.lo))]}
        total += len(run.computed())
        allowed += len(again) + 2
    run.start(pause=0)
    run.finish()
    total += len(run.computed())
    assert_as_uninterrupted(run, whole_run)
    assert total <= allowed


def test_the_lock_of_a_dead_run_is_taken_over_and_that_of_a_live_one_is_not(region, whole_run, tmp_path):
    live = Run(tmp_path, OPTIONS).start(pause=0.05)
    while not live.logs[0].read_bytes():
        time.sleep(0.005)
    second = Run(tmp_path, OPTIONS)
    second.logs.append(tmp_path / "log-x")
    second.start(pause=0)
    _, err = second.process.communicate(timeout=60)
    assert second.process.returncode == 1
    assert f"is being written by another run (process {live.process.pid} on" in err
    live.kill_after(0)
    live.start(pause=0).finish()
    assert_as_uninterrupted(live, whole_run)
