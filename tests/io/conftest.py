"""Fixtures of the reading tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .servers import FolderServer


@pytest.fixture
def served(tmp_path: Path) -> Iterator[FolderServer]:
    """`tmp_path / "served"` over HTTP."""
    root = tmp_path / "served"
    root.mkdir()
    server = FolderServer(root)
    yield server
    server.close()


@pytest.fixture(autouse=True)
def no_cloud_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials or endpoints of whoever runs the tests, and no memory of what a bucket took before."""
    import os

    from chunkloom.io import remote

    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "STORAGE_EMULATOR", "TENSORSTORE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    remote.forget_credentials()
