"""`chunkloom network …` and `serve --network`, as a person runs them."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

from browser import Chromium, chromium  # noqa: F401  a fixture
from chunkloom.network import Chunk, NetworkFile, Part


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    """Eight cubes of 8 voxels' side, in chunks of 10."""
    whole = np.zeros((20, 20, 20), np.uint16)
    for n in range(8):
        z, y, x = (2 + 8 * (n >> i & 1) for i in range(3))
        whole[z : z + 8, y : y + 8, x : x + 8] = 10 + n
    path = tmp_path / "cells.zarr"
    zarr.create_array(path, data=whole, chunks=(10, 10, 10), zarr_format=2)
    return path


def test_extract_connect_inspect_and_check(chunkloom: Any, labels: Path, tmp_path: Path) -> None:
    done = chunkloom("network", "extract", labels, "net.hdf5", "--cell-type", "cell", "--chunk-size-nm", "10")
    assert (done.stdout, done.returncode) == ("net.hdf5: 8 cells of type 'cell' in 8 chunks\n", 0)
    assert "measuring: 8 of 8 chunks" in done.stderr
    done = chunkloom(
        "network", "connect", labels, labels, "net.hdf5", "--tag", "touch", "--pre", "cell", "--post", "cell",
        "--op", "contacts",
    )  # fmt: skip
    # A cube shares faces with three others.
    assert (done.stdout, done.returncode) == ("net.hdf5: 24 connections 'touch' from 12 pairs in contact\n", 0)
    told = json.loads(chunkloom("network", "inspect", "net.hdf5", "--json").stdout)
    assert told["chunk_size_um"] == [0.01, 0.01, 0.01]
    assert [(c["name"], c["cells"], c["chunks"]) for c in told["cells"]] == [("cell", 8, 8)]
    assert told["connections"] == [{"tag": "touch", "pre": "cell", "post": "cell", "connections": 24}]
    assert "connections touch: 24, cell to cell" in chunkloom("network", "inspect", "net.hdf5").stdout
    assert chunkloom("network", "check", "net.hdf5").stdout == "net.hdf5: sound\n"
    with h5py.File(tmp_path / "net.hdf5", "r+") as file:
        del file["placement/cell/0"]
    done = chunkloom("network", "check", "net.hdf5")
    assert (done.returncode, "1 faults" in done.stderr) == (1, True)


def test_compact_and_merge(chunkloom: Any, tmp_path: Path) -> None:
    path = tmp_path / "net.hdf5"
    with NetworkFile.create(path, chunk_size=(1, 1, 1)) as network:
        network.require_placement("cell")
    with Part(path, "a") as part:
        part.append_data("cell", Chunk((0, 0, 0), (1, 1, 1)), np.zeros((3, 3)))
    assert chunkloom("network", "merge", path).stdout == f"{path}: 1 parts merged\n"
    assert len(NetworkFile.open(path, "r").placement("cell")) == 3
    assert "before" in chunkloom("network", "compact", path).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["extract", "nothing.zarr", "net.hdf5", "--cell-type", "a"], "no such path"),
        (["extract", "cells.zarr", "no/net.hdf5", "--cell-type", "a"], "there is no folder"),
        (["extract", "cells.zarr", "net.hdf5", "--cell-type", "a/b"], "cannot be empty, '.', or contain '/'"),
        (["extract", "cells.zarr", "net.hdf5", "--cell-type", "a", "--chunk-size-nm", "0"], "three lengths in nm"),
        (["extract", "cells.zarr", "net.hdf5", "--cell-type", "a", "--chunk-size-nm", "1e-4"], "too small"),
        (["extract", "cells.zarr", "net.hdf5", "--cell-type", "a", "--objects", "o.csv"], "no table of objects"),
        (["extract", "cells.zarr", "cells.zarr/.zarray", "--cell-type", "a"], "is not an HDF5 file"),
        (["extract", "cells.zarr", "cells.zarr", "--cell-type", "a"], "is a folder: expected"),
        (["connect", "cells.zarr", "cells.zarr", "net.hdf5", "--tag", "t", "--pre", "a", "--post", "a"], "no network"),
        (["inspect", "net.hdf5"], "no network file"),
        (["check", "cells.zarr/.zarray"], "is not an HDF5 file"),
        (["export", "net.hdf5", "out"], "no network file"),
    ],
    ids=lambda value: "-".join(value[:1] + value[3:]) if isinstance(value, list) else None,
)  # fmt: skip
def test_what_is_wrong_is_one_line(chunkloom: Any, labels: Path, arguments: list[str], said: str) -> None:
    done = chunkloom("network", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.strip().splitlines()
    assert said in lines[-1]
    assert "Traceback" not in done.stderr
    assert not (labels.parent / "net.hdf5").exists()


def test_a_signal_ends_extraction_and_leaves_no_file(tmp_path: Path) -> None:
    words = [
        sys.executable, "-m", "chunkloom", "network", "extract", "synthetic://em?shape=512,512,512", "net.hdf5",
        "--cell-type", "a", "--op", "threshold:low=120", "--op", "connected_components",
    ]  # fmt: skip
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    time.sleep(2.5)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 143, said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.browser
def test_a_network_is_shown_on_its_em(
    chunkloom: Any,
    started: Any,
    shared: Path,
    tmp_path: Path,
    chromium: Chromium,  # noqa: F811  the fixture
) -> None:
    """Mitochondria of the VNC as cells, connected by the synapses beside them, in Neuroglancer on the EM."""
    vnc = shared / "data" / "vnc.zarr"
    for arguments in (
        ["materialize", vnc / "mitochondria", "grown.zarr", "--op", "dilate:size=[1,81,81]"],
        ["network", "extract", vnc / "mitochondria", "net.hdf5", "--cell-type", "mitochondrion"],
        ["network", "extract", vnc / "synapses", "net.hdf5", "--cell-type", "synapse", "--op", "connected_components"],
        ["network", "connect", vnc / "synapses", "grown.zarr", "net.hdf5", "--tag", "near", "--pre", "mitochondrion",
         "--post", "mitochondrion", "--op", "connected_components"],
    ):  # fmt: skip
        done = chunkloom(*arguments)
        assert done.returncode == 0, done.stderr
    process, ready = started("serve", vnc / "raw", "--network", "net.hdf5")
    assert [folder["name"] for folder in ready["annotations"]] == [
        "cells-mitochondrion", "cells-synapse", "connections-near",
    ]  # fmt: skip
    page = chromium.page()
    page.open(ready["viewer"])
    page.wait_until_drawn()
    image, problems = page.screenshot(save_as=str(tmp_path / "network.png")).astype(int), page.problems()
    asked = page.requested
    page.close()
    assert problems == []
    assert any("cells-mitochondrion/precomputed/spatial0/0_0_0" in url for url in asked)
    # The palette's second and third colour: the two types of cells.
    for color in ((0x4D, 0xC3, 0xFF), (0xFF, 0xD2, 0x4D)):
        assert (np.abs(image - color).max(axis=-1) < 12).sum() > 100, f"nothing of colour {color}"
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130


def test_a_full_disk_is_one_line_and_leaves_no_file(labels: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "chunkloom", "network", "extract", "cells.zarr", "net.hdf5", "--cell-type", "a"]

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))

    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, preexec_fn=limited, timeout=60)
    assert done.returncode == 1, done.stderr
    assert "net.hdf5 could not be written (File too large)" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["cells.zarr"]


def test_an_export_to_a_full_disk_is_one_line(chunkloom: Any, labels: Path, tmp_path: Path) -> None:
    chunkloom("network", "extract", labels, "net.hdf5", "--cell-type", "cell", "--chunk-size-nm", "10")
    done = subprocess.run(
        [sys.executable, "-m", "chunkloom", "network", "export", "net.hdf5", "out"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "cannot be written" in done.stderr
    assert not list(tmp_path.glob("out/*"))


def test_damage_is_never_exported_as_nothing(chunkloom: Any, labels: Path, tmp_path: Path) -> None:
    chunkloom("network", "extract", labels, "net.hdf5", "--cell-type", "cell", "--chunk-size-nm", "10")
    whole = (tmp_path / "net.hdf5").read_bytes()
    for share in (3, 2):
        damaged = bytearray(whole)
        at = len(whole) // share
        damaged[at : at + 6000] = b"\xff" * 6000
        (tmp_path / "bad.hdf5").write_bytes(damaged[: len(whole)])
        checked = chunkloom("network", "check", "bad.hdf5")
        exported = chunkloom("network", "export", "bad.hdf5", f"out{share}")
        for done in (checked, exported):
            assert "Traceback" not in done.stderr
            assert "unexpected" not in done.stderr, done.stderr
        if checked.returncode == 0:
            assert exported.returncode == 0  # the bytes were a hole
