"""Many processes and threads on one file: the lock, its holder's name, and parts."""

from __future__ import annotations

import errno
import fcntl
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from chunkloom.network import Chunk, NetworkFile, Part, check, merge_parts
from chunkloom.network import lock as locks
from chunkloom.network.errors import LockedError, ParameterError
from chunkloom.network.lock import WriterLock

APPENDER = """
import sys, threading
import numpy as np
from chunkloom.network import NetworkFile
path, worker, threads, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
network = NetworkFile.open(path)
def work(thread):
    cells = network.require_placement("cell")
    for i in range(times):
        cells.append_data(((worker * 7 + i) % 50, thread, 0), np.full((5, 3), worker * 10_000 + thread * 1000 + i))
        if i % 50 == 0:
            len(cells.load_positions())
many = [threading.Thread(target=work, args=(t,)) for t in range(threads)]
[t.start() for t in many]; [t.join() for t in many]
network.close()
"""


def append_from(path: Path, processes: int, threads: int, times: int, **env: str) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", APPENDER, str(path), str(w), str(threads), str(times)], env={**os.environ, **env}
        )
        for w in range(processes)
    ]
    assert [p.wait() for p in started] == [0] * processes


def assert_all_there(path: Path, processes: int, threads: int, times: int) -> None:
    rows = processes * threads * times * 5
    network = NetworkFile.open(path)
    values = np.sort(network.placement("cell").load_positions()[:, 0])
    expected = [w * 10_000 + t * 1000 + i for w in range(processes) for t in range(threads) for i in range(times)]
    assert np.array_equal(values, np.repeat(np.sort(expected), 5))
    assert check(network) == []
    network.close()
    with h5py.File(path) as file:
        group = file["placement/cell"]
        stored = {int(c): len(group[c]["position"]) for c in group}
        assert {int(c): n for c, n in json.loads(group.attrs["chunks"]).items()} == stored
        assert int(group.attrs["len"]) == sum(stored.values()) == rows
        assert {int(c): v["placed"] for c, v in json.loads(file.attrs["chunks"]).items()} == stored


@pytest.mark.parametrize("locking", ["TRUE", "FALSE"], ids=lambda v: f"HDF5 locking {v}")
def test_processes_and_threads_append_without_loss(tmp_path: Path, locking: str) -> None:
    path = tmp_path / "net.hdf5"
    NetworkFile.create(path).close()
    append_from(path, 3, 2, 20, HDF5_USE_FILE_LOCKING=locking)
    assert_all_there(path, 3, 2, 20)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("locking", ["TRUE", "FALSE"], ids=lambda v: f"HDF5 locking {v}")
def test_four_processes_of_four_threads_append_without_loss(tmp_path: Path, locking: str) -> None:
    path = tmp_path / "net.hdf5"
    NetworkFile.create(path).close()
    append_from(path, 4, 4, 200, HDF5_USE_FILE_LOCKING=locking)
    assert_all_there(path, 4, 4, 200)


def test_threads_share_a_scope(network: NetworkFile) -> None:
    cells = network.require_placement("cell")
    with network.write_scope():
        many = [
            threading.Thread(target=lambda t=t: [cells.append_data((t, i, 0), np.ones((1, 3))) for i in range(20)])
            for t in range(4)
        ]
        for thread in many:
            thread.start()
        for thread in many:
            thread.join()
        assert len(cells) == 80
    assert check(network) == []


def test_only_one_of_several_creates_a_file(tmp_path: Path) -> None:
    code = (
        "import sys; from chunkloom.network import NetworkFile\n"
        "from chunkloom.network.errors import NetworkExistsError\n"
        "try: n = NetworkFile.create(sys.argv[1]); print('made')\n"
        "except NetworkExistsError: n = NetworkFile.open(sys.argv[1])\n"
        "n.require_placement('cell').append_data((0, 0, 0), [[1, 2, 3]]); n.close()"
    )
    path = tmp_path / "net.hdf5"
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, env=os.environ)
        for _ in range(3)
    ]
    out = [p.communicate()[0] for p in started]
    assert sorted(out) == [b"", b"", b"made\n"]
    assert len(NetworkFile.open(path).placement("cell")) == 3


HOLDER = """
import sys, time
from chunkloom.network import NetworkFile
network = NetworkFile.open(sys.argv[1])
with network.write_scope():
    network.require_placement("theirs")
    print("holding", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def held(network: NetworkFile) -> Any:
    """The network, while another process is in a write scope; and that process."""
    network.require_placement("ours")
    network.close()
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, network.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"holding\n"
    yield network, process
    process.kill()
    process.wait()


def test_the_error_names_the_holder(held: Any) -> None:
    network, process = held
    network.timeout = 0.2
    with pytest.raises(LockedError, match=rf"process {process.pid} on {socket.gethostname()}"):
        network.placement("ours").append_data((0, 0, 0), [[1, 2, 3]])


def test_readers_do_not_wait_and_see_acknowledged_writes(held: Any) -> None:
    network, _ = held
    network.timeout = 0.2
    assert sorted(network.placement_names()) == ["ours", "theirs"]


def test_the_lock_of_a_killed_holder_is_free(held: Any) -> None:
    network, process = held
    process.kill()
    process.wait()
    network.placement("ours").append_data((0, 0, 0), [[1, 2, 3]])
    assert sorted(network.placement_names()) == ["ours", "theirs"]


def test_writing_waits_for_the_holder(held: Any) -> None:
    network, process = held
    threading.Timer(0.3, lambda: process.communicate(b"\n")).start()
    network.placement("ours").append_data((0, 0, 0), [[1, 2, 3]])
    assert len(network.placement("ours")) == 1


def test_a_read_scope_sees_one_state_and_writes_of_its_own(network: NetworkFile) -> None:
    cells = network.require_placement("cell")
    cells.append_data((0, 0, 0), [[1, 2, 3]])
    with network.read_scope():
        assert len(cells) == 1
        code = "import sys; from chunkloom.network import NetworkFile\n" + (
            "NetworkFile.open(sys.argv[1]).placement('cell').append_data((0, 0, 0), [[4, 5, 6]])"
        )
        subprocess.run([sys.executable, "-c", code, network.path], check=True, env=os.environ)
        assert len(cells.load_positions()) == 1
        cells.append_data((1, 0, 0), [[7, 8, 9]])  # a write inside a read scope is a write
        assert len(cells.load_positions()) == 3
    assert len(cells) == 3


def test_an_engine_that_writes_in_place_is_waited_for(network: NetworkFile) -> None:
    network.require_placement("cell").append_data((0, 0, 0), [[1, 2, 3]])
    network.close()
    network.timeout = 0.2
    with open(network.path, "rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(LockedError, match="open for writing in another program"):
            network.placement("cell")
    assert len(network.placement("cell")) == 1


def _in_child(path: str, answers: Any) -> None:
    network = NetworkFile.open(path)
    network.timeout = 0.2
    try:
        network.placement("cell").append_data((0, 0, 0), [[1, 2, 3]])
        answers.put("written")
    except LockedError as error:
        answers.put(str(error))


def test_a_forked_child_does_not_share_its_parents_lock(network: NetworkFile) -> None:
    context = multiprocessing.get_context("fork")
    cells, answers = network.require_placement("cell"), context.Queue()
    with network.write_scope():
        child = context.Process(target=_in_child, args=(network.path, answers))
        child.start()
        assert f"process {os.getpid()}" in answers.get(timeout=20)
        child.join()
        cells.append_data((0, 0, 0), [[1, 2, 3]])
    child = context.Process(target=_in_child, args=(network.path, answers))
    child.start()
    assert answers.get(timeout=20) == "written"
    child.join()
    assert len(cells) == 2


# ---- the lock itself


def other_host(path: Path, age: float) -> None:
    text = json.dumps({"host": "elsewhere", "pid": 1, "started": "1", "since": time.time() - age})
    path.write_bytes(b"+" + text.encode().ljust(255))
    os.utime(path, (time.time() - age,) * 2)


def test_a_fresh_holder_on_another_host_is_respected(tmp_path: Path) -> None:
    other_host(tmp_path / "lock", age=5)
    holder = WriterLock(str(tmp_path / "lock")).try_acquire()
    assert holder is not None
    assert holder.host == "elsewhere"


def test_a_silent_holder_on_another_host_is_taken_over(tmp_path: Path) -> None:
    other_host(tmp_path / "lock", age=locks.LEASE + 1)
    assert WriterLock(str(tmp_path / "lock")).try_acquire() is None


@pytest.fixture
def no_flock(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.mark.usefixtures("no_flock")
def test_without_flock_a_created_file_is_the_lock(tmp_path: Path) -> None:
    first, second = (WriterLock(str(tmp_path / "lock")) for _ in range(2))
    assert first.try_acquire() is None
    holder = second.try_acquire()
    assert holder is not None
    assert holder.pid == os.getpid()
    first.release()
    assert second.try_acquire() is None
    second.release()


@pytest.mark.usefixtures("no_flock")
def test_without_flock_dead_holders_are_taken_over(tmp_path: Path) -> None:
    held = tmp_path / "lock.held"
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    text = json.dumps({"host": socket.gethostname(), "pid": dead.pid, "started": "1", "since": 0})
    held.write_bytes(b"+" + text.encode().ljust(255))
    ours = WriterLock(str(tmp_path / "lock"))
    assert ours.try_acquire() is None
    ours.release()
    other_host(held, age=5)
    assert ours.try_acquire() is not None
    other_host(held, age=locks.LEASE + 1)
    assert ours.try_acquire() is None


@pytest.mark.usefixtures("no_flock")
def test_a_file_system_without_flock_can_be_written(network: NetworkFile) -> None:
    network.require_placement("cell").append_data((0, 0, 0), [[1, 2, 3]])
    network.close()
    assert len(network.placement("cell")) == 1


# ---- parts


def fill(part: Part, worker: int) -> None:
    for i in range(10):
        part.append_data("cell", (i, 0, 0), np.full((2, 3), worker * 100 + i), additional={"w": [worker, worker]})


def test_parts_are_merged_in_the_order_of_their_names(network: NetworkFile) -> None:
    network.require_placement("cell").append_data((0, 0, 0), np.full((1, 3), -1), additional={"w": [9]})
    for worker in (1, 0):
        with Part(network.path, f"worker-{worker}") as part:
            fill(part, worker)
            part.chunk_connect("cell", "cell", "links", (0, 0, 0), (1, 0, 0), [0, 4], [1, 3])
    assert merge_parts(network) == 2
    cells = network.placement("cell")
    assert cells.load_positions()[:6, 0].tolist() == [-1, 0, 0, 100, 100, 1]
    assert cells.load_additional("w")[:5].tolist() == [9, 0, 0, 1, 1]
    assert (len(cells), len(network.connectivity("links"))) == (41, 4)
    assert check(network) == []
    assert merge_parts(network) == 0
    assert sorted(p.name for p in Path(network.path).parent.iterdir() if "lock" not in p.name) == ["net.hdf5"]


def test_a_merge_that_is_killed_can_be_run_again(network: NetworkFile, monkeypatch: pytest.MonkeyPatch) -> None:
    with Part(network.path, "a") as part:
        fill(part, 1)

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    for place in ("fsync", "unlink"):
        with monkeypatch.context() as patch:
            patch.setattr(os, place, die)
            with pytest.raises(KeyboardInterrupt):
                merge_parts(network)
    assert merge_parts(network) in (0, 1)
    assert len(network.placement("cell")) == 20
    assert check(network) == []


def test_a_part_is_continued_after_a_kill(network: NetworkFile) -> None:
    part = Part(network.path, "a")
    fill(part, 1)
    with pytest.raises(LockedError, match="open in another process"):
        Part(network.path, "a")
    with pytest.raises(LockedError, match="open in a worker"):
        merge_parts(network)
    part.close()
    with open(part.path, "ab") as file:
        file.write(b"cut sho")
    with Part(network.path, "a") as again:
        again.append_data("cell", (0, 0, 0), np.full((1, 3), 7), additional={"w": [7]})
    merge_parts(network)
    assert len(network.placement("cell")) == 21


@pytest.mark.parametrize("fault", ["cells", "size", "mixed"])
def test_parts_that_do_not_go_together_are_not_merged(network: NetworkFile, fault: str) -> None:

    with Part(network.path, "a") as part:
        part.append_data("cell", (0, 0, 0), np.zeros((2, 3)))
        if fault == "cells":
            part.chunk_connect("cell", "cell", "links", (0, 0, 0), (0, 0, 0), [0], [2])
    with Part(network.path, "b") as part:
        if fault == "size":
            part.append_data("cell", Chunk((1, 0, 0), (7, 7, 7)), np.zeros((2, 3)))
        elif fault == "mixed":
            part.append_data("cell", (0, 0, 0), count=2)
    with pytest.raises(ParameterError):
        merge_parts(network)
    assert network.placement_names() == []
    assert check(network) == []


def test_a_kill_in_a_scope_of_a_part_leaves_whole_appends(network: NetworkFile) -> None:
    code = (
        "import os, sys; import numpy as np; from chunkloom.network import Part\n"
        "part = Part(sys.argv[1], 'a')\n"
        "for i in range(5): part.append_data('cell', (0, 0, 0), np.full((1, 3), i))\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, network.path], env=os.environ, check=False)
    merge_parts(network)
    assert network.placement("cell").load_positions()[:, 0].tolist() == [0, 1, 2, 3, 4]
