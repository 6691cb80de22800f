"""The guide's examples run as they stand there."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from chunkloom.network import NetworkFile

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "networks.md"


def test_the_python_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    volumes, example, resource, parts, batch = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    exec(volumes, {})
    assert "Connected(tag='touch'" in capsys.readouterr().out
    names: dict[str, Any] = {}
    exec(example, names)
    assert "int64" in capsys.readouterr().out
    names["network"] = NetworkFile.open("cortex.hdf5")
    exec(resource, names)
    names |= {"rank": 0, "chunk": names["Chunk"]((0, 0, 0)), "positions": names["np"].ones((2, 3))}
    # A part's cells have what the chunk's others have.
    exec(parts.replace("positions)\n", "positions, additional={'label_id': [1, 2]})\n"), names)
    exec(batch, names)
    assert len(NetworkFile.open("cortex.hdf5").placement("granule")) == 403


def commands() -> list[list[str]]:
    """The words of every command of the guide that is run, in order."""
    blocks = re.findall(r"(<!-- not run.*?-->\n)?```sh\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    lines = "".join(text.replace("\\\n", " ") for skipped, text in blocks if not skipped).splitlines()
    return [shlex.split(line) for line in lines]


def test_the_commands_run(tmp_path: Path) -> None:
    said = {}
    for words in commands():
        assert words[0] == "chunkloom"
        call = [sys.executable, "-m", *words]
        if words[1] == "serve":
            served(call, tmp_path)
            continue
        done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        said[words[2]] = done.stdout
    assert said["check"] == "tissue.hdf5: sound\n"
    assert "connections contact" in said["inspect"]
    assert {path.name for path in (tmp_path / "sonata").iterdir()} >= {"nodes.h5", "edges.h5"}
    assert (tmp_path / "tables" / "cells-neuron.parquet").exists()


def served(call: list[str], folder: Path) -> None:
    """Start the server, look at the annotations, end it."""
    ready = folder / "ready.json"
    process = subprocess.Popen([*call, "--ready-file", str(ready)], cwd=folder, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while not ready.exists():
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
        for folder_ in json.loads(ready.read_text())["annotations"]:
            with urllib.request.urlopen(f"{folder_['url']}/info") as answer:
                assert json.load(answer)["@type"] == "neuroglancer_annotations_v1"
    finally:
        process.terminate()
        process.wait(20)
