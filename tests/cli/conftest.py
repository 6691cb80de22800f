"""Running the command line as a person does: in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest


@pytest.fixture
def chunkloom(tmp_path):
    """Run `chunkloom ARGUMENTS` to its end: ``chunkloom("inspect", path)``."""

    def run(*arguments, timeout=120):
        return subprocess.run(
            [sys.executable, "-m", "chunkloom", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=tmp_path,
        )

    return run


@pytest.fixture
def started(tmp_path):
    """Start `chunkloom ARGUMENTS`, wait until it answers: ``started("serve", path) -> (process, ready)``."""
    processes = []

    def start(*arguments, timeout=60):
        file = tmp_path / f"ready-{len(processes)}.json"
        process = subprocess.Popen(
            [sys.executable, "-m", "chunkloom", *map(str, arguments), "--ready-file", str(file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        processes.append(process)
        end = time.monotonic() + timeout
        while not file.exists():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < end, "no ready file"
            time.sleep(0.02)
        return process, json.loads(file.read_text())

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()
