"""What is left when a writer is killed, at each moment that matters, and at random ones."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from chunkloom.network import Chunk, NetworkFile, check, checkpoint
from chunkloom.network import handle as handles
from chunkloom.network import journal as journals
from chunkloom.network.errors import FormatError, NetworkNotFoundError, ParameterError
from chunkloom.network.journal import START

WRITER = """
import os, sys
import numpy as np
from chunkloom.network import NetworkFile, Chunk
path, start, scope = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
network = NetworkFile.open(path)
cells = network.require_placement("new")
os.write(1, b"up\\n")
i = start
while True:
    with network.write_scope():
        for _ in range(scope):
            chunk = (i % 40 - 20, i // 40 % 40, 1)
            cells.append_data(chunk, np.full((3, 3), float(i)), rotations=np.full((3, 3), float(i)))
            i += 1
            os.write(1, b"%d\\n" % i)
"""


def kill_once(path: Path, start: int, seconds: float, scope: int) -> int:
    """Run the writer and kill it; returns how many appends it saw return."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(start), str(scope)], stdout=subprocess.PIPE, env=os.environ
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    out = process.stdout.read()
    process.wait()
    whole = out[: out.rfind(b"\n") + 1].split()
    return int(whole[-1]) if whole else start


def base_of(path: Path, chunks: int) -> None:
    """A file of finished chunks."""
    with NetworkFile.create(path, chunk_size=(10, 10, 10)) as network:
        cells = network.require_placement("old")
        with network.write_scope():
            for i in range(chunks):
                cells.append_data((i % 40, i // 40, 0), np.full((2, 3), float(i)))


def assert_whole(path: Path, chunks: int, acknowledged: int) -> int:
    """The file opens, in HDF5 and for us; nothing is lost, doubled or half. Returns the appends it holds."""
    with h5py.File(path) as file:  # whatever happened, the base is a whole file
        assert "placement/old" in file
    network = NetworkFile.open(path, "r")
    assert check(network) == []
    assert sorted(network.placement("old").load_positions()[::2, 0].tolist()) == list(range(chunks))
    if not network.placement_names().count("new"):
        return 0
    cells = network.placement("new")
    found = cells.load_positions()
    assert np.array_equal(found, cells.load_rotations())
    stored = sorted(found[::3, 0].astype(int).tolist())
    assert len(found) == 3 * len(stored) == len(cells)
    assert stored == list(range(len(stored)))  # nothing doubled, no gap
    assert len(stored) >= acknowledged
    return len(stored)


def kill_series(path: Path, chunks: int, times: int, seed: int) -> None:
    base_of(path, chunks)
    rng, stored = random.Random(seed), 0
    for trial in range(times):
        acknowledged = kill_once(path, stored, rng.uniform(0, 0.25), rng.choice((5, 60, 100_000)))
        stored = assert_whole(path, chunks, acknowledged)
        if trial % 5 == 4:
            NetworkFile.open(path).close()
            assert not Path(f"{path}.journal").exists()
            assert assert_whole(path, chunks, stored) == stored


def test_kills_at_random_moments_lose_nothing(tmp_path: Path) -> None:
    kill_series(tmp_path / "net.hdf5", chunks=100, times=4, seed=1)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_hundred_kills_lose_nothing(tmp_path: Path) -> None:
    kill_series(tmp_path / "net.hdf5", chunks=1500, times=100, seed=7)


def rows_of(network: NetworkFile) -> list[float]:
    found: list[float] = network.placement("cell").load_positions()[:, 0].tolist()
    return found


class Killed(BaseException):
    """Stands for a kill: nothing after it runs."""


@pytest.fixture
def journalled(tmp_path: Path) -> Path:
    """A file with one chunk in its base and one append in its journal, as a kill leaves it."""
    path = tmp_path / "net.hdf5"
    with NetworkFile.create(path) as network:
        network.require_placement("cell").append_data((0, 0, 0), np.ones((2, 3)))
    NetworkFile.open(path).placement("cell").append_data((0, 0, 0), np.full((1, 3), 5.0))
    forget(path)
    return path


def forget(path: Path) -> None:
    """What this process knows of a file goes, as if it had been killed."""
    handle = handles.handle_of(path)
    handle._drop()
    while handle._holders:
        handle.release()
    handle._scopes = 0


def test_a_journal_is_read_without_being_written_to(journalled: Path) -> None:
    before = journalled.read_bytes(), Path(f"{journalled}.journal").read_bytes()
    network = NetworkFile.open(journalled, "r")
    assert rows_of(network) == [1, 1, 5]
    assert network.get_chunk_stats()[0]["placed"] == 3
    assert before == (journalled.read_bytes(), Path(f"{journalled}.journal").read_bytes())


@pytest.mark.parametrize("stage", ["copy", "rename", "removal"])
def test_a_kill_inside_a_checkpoint_neither_loses_nor_doubles(
    journalled: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    def die(*_: Any) -> None:
        raise Killed

    network = NetworkFile.open(journalled)
    with monkeypatch.context() as patch:
        if stage == "copy":
            patch.setattr(os, "fsync", die)
        elif stage == "rename":
            patch.setattr(os, "replace", die)
        else:
            patch.setattr(checkpoint, "sync_folder", die)  # after the rename, before the journal goes
        with pytest.raises(Killed):
            network.checkpoint()
    forget(journalled)
    assert Path(f"{journalled}.journal").exists()
    assert rows_of(NetworkFile.open(journalled, "r")) == [1, 1, 5]
    again = NetworkFile.open(journalled)
    again.placement("cell").append_data((0, 0, 0), np.full((1, 3), 6.0))
    forget(journalled)
    assert rows_of(NetworkFile.open(journalled)) == [1, 1, 5, 6]
    NetworkFile.open(journalled).close()
    assert sorted(p.name for p in journalled.parent.iterdir()) == ["net.hdf5"]
    with h5py.File(journalled) as file:
        assert file["placement/cell/0/position"][:, 0].tolist() == [1, 1, 5, 6]


def test_a_record_cut_short_anywhere_is_dropped(journalled: Path) -> None:
    journal = Path(f"{journalled}.journal")
    whole = journal.read_bytes()
    for size in sorted({0, 1, START - 1, START, START + 1, START + 17, len(whole) - 24, len(whole) - 1}):
        journal.write_bytes(whole[:size])
        forget(journalled)
        network = NetworkFile.open(journalled)
        assert rows_of(network) == [1, 1]
        network.placement("cell").append_data((0, 0, 0), np.full((1, 3), 7.0))
        forget(journalled)
        assert rows_of(NetworkFile.open(journalled)) == [1, 1, 7]


def test_a_damaged_record_is_dropped(journalled: Path) -> None:
    journal = Path(f"{journalled}.journal")
    data = bytearray(journal.read_bytes())
    data[-5] ^= 1
    journal.write_bytes(data)
    forget(journalled)
    assert rows_of(NetworkFile.open(journalled)) == [1, 1]


def test_a_file_changed_by_another_program_is_not_mixed_with_a_journal(journalled: Path) -> None:
    import json

    with h5py.File(journalled, "r+") as file:
        provenance = json.loads(file.attrs["bsb_provenance"])
        file.attrs["bsb_provenance"] = json.dumps(provenance | {"state_id": provenance["state_id"] + 1})
    with pytest.raises(FormatError, match="changed by another program"):
        NetworkFile.open(journalled)
    NetworkFile.discard_journal(journalled)
    assert rows_of(NetworkFile.open(journalled)) == [1, 1]


def test_a_journal_of_another_file_is_not_taken(journalled: Path, tmp_path: Path) -> None:
    with NetworkFile.create(tmp_path / "other.hdf5") as other:
        other.require_placement("cell")
    shutil.copyfile(tmp_path / "other.hdf5", journalled)
    with pytest.raises(FormatError, match="belongs to another file"):
        NetworkFile.open(journalled)
    NetworkFile.discard_journal(journalled)
    assert len(NetworkFile.open(journalled).placement("cell")) == 0


def test_a_new_file_forgets_the_journal_of_the_old(journalled: Path) -> None:
    network = NetworkFile.create(journalled, overwrite=True)
    assert network.placement_names() == []
    network.close()
    assert sorted(p.name for p in journalled.parent.iterdir()) == ["net.hdf5"]


def test_a_full_disk_leaves_nothing_half(network: NetworkFile, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = network.require_placement("cell")
    cells.append_data((0, 0, 0), np.ones((1, 3)))

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        with pytest.raises(OSError, match="No space"):
            cells.append_data((0, 0, 0), np.full((1, 3), 2.0))
    assert len(cells) == 1
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="No space"):
            network.checkpoint()
    forget(Path(network.path))
    cells.append_data((0, 0, 0), np.full((1, 3), 3.0))
    network.close()
    assert rows_of(network) == [1, 3]


def test_a_long_journal_becomes_part_of_the_file(network: NetworkFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handles, "CHECKPOINT_BYTES", 20_000)
    cells = network.require_placement("cell")
    copies = 0
    replace = os.replace

    def counted(*args: Any) -> None:
        nonlocal copies
        copies += str(args[0]).endswith("hdf5.new")
        replace(*args)

    monkeypatch.setattr(os, "replace", counted)
    for i in range(400):
        cells.append_data((i, 0, 0), np.ones((10, 3)))
    assert 1 <= copies <= 8
    assert len(cells) == 4000


def test_an_error_inside_a_scope_keeps_what_was_written(network: NetworkFile) -> None:
    cells = network.require_placement("cell")

    def fail() -> None:
        with network.write_scope():
            cells.append_data(Chunk((0, 0, 0)), np.ones((1, 3)))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert len(cells) == 1
    with h5py.File(network.path) as file:
        assert file["placement/cell/0/position"].shape == (1, 3)


def test_checkpoints_leave_no_file_open(network: NetworkFile) -> None:
    cells = network.require_placement("cell")

    def turn(i: int) -> int:
        cells.append_data((i, 0, 0), np.ones((1, 3)))
        len(cells.load_positions())
        network.checkpoint()
        return len(os.listdir("/proc/self/fd"))

    turn(0)
    before = turn(1)
    for i in range(20):
        turn(i)
    assert turn(30) <= before


def test_a_handle_whose_scope_has_ended_writes_nothing(network: NetworkFile) -> None:
    cells = network.require_placement("cell")
    with network.write_scope() as handle:
        cells.append_data((0, 0, 0), np.ones((1, 3)), handle=handle)
    with pytest.raises(ParameterError, match="has ended"):
        cells.append_data((0, 0, 0), np.ones((1, 3)), handle=handle)
    assert len(cells) == 1


def test_records_longer_than_what_is_read_at_once_are_read(
    network: NetworkFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "_WINDOW", 1000)
    cells = network.require_placement("cell")
    for i, n in enumerate((1, 1000, 1, 200, 20, 1)):
        cells.append_data((i, 0, 0), np.full((n, 3), i))
    forget(Path(network.path))
    assert len(cells.load_positions()) == 1223
    network.close()
    assert np.bincount(cells.load_positions()[:, 0].astype(int)).tolist() == [1, 1000, 1, 200, 20, 1]


def test_where_nothing_can_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(NetworkNotFoundError, match="there is no folder"):
        NetworkFile.create(tmp_path / "missing" / "net.hdf5")
