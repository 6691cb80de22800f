"""What every test gets: a home folder of its own, no stray environment, and the real data where it is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh home for each test, so that no test reads or writes the user's own files."""
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name.startswith(("CHUNKLOOM_", "CELLMAP_FLOW_")) and name != "CHUNKLOOM_SHARED":
            monkeypatch.delenv(name)
    monkeypatch.setenv("CHUNKLOOM_HOME", str(home / ".chunkloom"))
    return home


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data and cases beside the repository; the test is skipped where it is not there."""
    folder = Path(os.environ.get("CHUNKLOOM_SHARED", REPOSITORY.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"real data not found: no folder {folder / 'data'}")
    return folder


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pictures", metavar="FOLDER", help="save the screenshots that the documentation shows")
