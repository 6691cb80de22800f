"""What a wheel holds: the package, and the built pages where they are built."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"app": ["index.html", "sw.js", "LICENSES.md", "models/fibsem-membrane/model.onnx"], "viewer": ["index.html"]}


def wheel(folder: Path, pages: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "pip", "wheel", "-v", "--no-deps", "-w", str(folder), str(ROOT)]
    return subprocess.run(
        words, capture_output=True, text=True, check=False, env={**os.environ, "CHUNKLOOM_PAGES": pages}
    )


@pytest.mark.long
def test_a_wheel_carries_the_pages_that_are_built_and_names_those_that_are_not(tmp_path: Path) -> None:
    done = wheel(tmp_path, "")
    assert done.returncode == 0, done.stderr
    (made,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(made).namelist()
    assert "chunkloom/cli/app.py" in names
    assert not any(name.startswith("web/") or "node_modules" in name for name in names)
    for page, files in PAGES.items():
        if (ROOT / "web" / page / "dist" / "index.html").is_file():
            assert [f for f in files if f"chunkloom/pages/{page}/{f}" not in names] == []
        else:
            assert "the wheel lacks" in done.stdout + done.stderr


@pytest.mark.long
def test_a_wheel_that_must_have_pages_is_refused_without_them(tmp_path: Path) -> None:
    if (ROOT / "web" / "app" / "dist" / "index.html").is_file():
        pytest.skip("the pages are built")
    done = wheel(tmp_path, "require")
    assert done.returncode != 0
    assert "npm ci && npm run build" in done.stdout + done.stderr
