"""Many writes that a file has all of, or none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from chunkloom.network import NetworkFile, check
from chunkloom.network.errors import LockedError, ParameterError


def test_a_batch_is_seen_when_its_block_ends(network: NetworkFile) -> None:
    cells = network.require_placement("cell")
    cells.append_data((0, 0, 0), np.zeros((2, 3)))
    links = network.require_connectivity("cell", "cell", "links")
    with network.at_once() as batch:
        for x in range(3):
            cells.append_data((x, 1, 0), np.full((4, 3), x), additional={"label_id": [x] * 4}, handle=batch)
        links.connect(cells, cells, [0, 1], [1, 0], handle=batch)
        assert (len(cells), len(links)) == (2, 0)
    assert (len(cells), len(cells.load_positions()), len(links)) == (14, 14, 2)
    assert network._handle._journal is None
    assert check(network) == []


def test_a_batch_that_fails_wrote_nothing(network: NetworkFile) -> None:
    cells = network.require_placement("cell")
    cells.append_data((0, 0, 0), np.zeros((2, 3)))

    def write() -> None:
        with network.at_once() as batch:
            cells.append_data((1, 0, 0), np.zeros((2, 3)), handle=batch)
            cells.append_data((2, 0, 0), np.zeros((2, 2)), handle=batch)

    with pytest.raises(ParameterError):
        write()
    assert (len(cells), cells.get_chunk_stats()) == (2, {0: 2})


def test_a_batch_clears_and_fills_in_one_step(network: NetworkFile) -> None:
    cells = network.require_placement("cell")
    cells.append_data((0, 0, 0), np.zeros((2, 3)))
    with network.at_once() as batch:
        cells.clear(handle=batch)
        cells.append_data((0, 0, 0), np.ones((3, 3)), handle=batch)
    assert cells.load_positions().tolist() == np.ones((3, 3)).tolist()
    assert check(network) == []


def test_a_file_opened_for_reading_takes_no_batch(network: NetworkFile) -> None:
    with pytest.raises(ParameterError, match="opened for reading"), NetworkFile.open(network.path, "r").at_once():
        pass


def test_a_write_of_another_thread_in_between_is_not_mixed_in(network: NetworkFile) -> None:
    cells = network.require_placement("cell")

    def write() -> None:
        with network.at_once() as batch:
            cells.append_data((0, 0, 0), np.zeros((2, 3)), handle=batch)
            thread = threading.Thread(target=cells.append_data, args=((0, 0, 0), np.zeros((1, 3))))
            thread.start()
            thread.join()

    with pytest.raises(LockedError, match="meanwhile"):
        write()
    assert len(cells) == 1


KILLED = """
import os, sys, numpy as np
from chunkloom.network import NetworkFile
network = NetworkFile.open(sys.argv[1])
cells = network.placement("cell")
with network.at_once() as batch:
    for x in range(400):
        cells.append_data((x, 1, 0), np.full((50, 3), x), handle=batch)
    os.write(1, b"written\\n")
os.write(1, b"done\\n")
"""


def test_a_kill_leaves_all_of_a_batch_or_nothing(tmp_path: Path) -> None:
    path, seen = tmp_path / "net.hdf5", set()
    for turn in range(8):
        path.unlink(missing_ok=True)
        with NetworkFile.create(path) as network:
            network.require_placement("cell").append_data((0, 0, 0), np.zeros((2, 3)))
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, env=os.environ)
        assert process.stdout is not None
        process.stdout.readline()
        try:
            process.wait(0.009 * turn)  # the checkpoint goes on for some tens of milliseconds
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        with NetworkFile.open(path) as network:
            seen.add(len(network.placement("cell").load_positions()))
            assert check(network) == []
    assert seen <= {2, 20002}
    assert 2 in seen
