"""The browser engine and app, built, for tests that run it in Node and read what it wrote with other readers."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WEB = Path(__file__).resolve().parents[2] / "web"


@pytest.fixture(scope="session")
def engine() -> Path:
    """The engine's built entry module; the test is skipped where Node or its packages are not there."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    if not (WEB / "node_modules").is_dir():
        pytest.skip(f"the browser engine's packages are not installed: run npm ci in {WEB}")
    built = WEB / "engine" / "dist" / "index.js"
    outputs = [built, WEB / "app" / "dist" / "index.html", WEB / "viewer" / "dist" / "index.html"]
    sources = [p for folder in ("engine/src", "app/src", "viewer") for p in (WEB / folder).rglob("*.ts")]
    sources += [WEB / "app" / "index.html", WEB / "app" / "src" / "style.css"]
    newest = max(p.stat().st_mtime for p in sources if "node_modules" not in p.parts)
    if not all(p.is_file() and p.stat().st_mtime >= newest for p in outputs):
        subprocess.run(["npm", "run", "build"], cwd=WEB, check=True, capture_output=True)
        built.touch()
    return built


@pytest.fixture(scope="session")
def node(engine: Path) -> Callable[..., Any]:
    """Runs a script of this folder in Node and gives back the JSON it printed."""

    def run(script: str, *arguments: str, flags: tuple[str, ...] = ()) -> Any:
        path = Path(__file__).parent / script
        done = subprocess.run(
            ["node", *flags, str(path), *arguments], capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
