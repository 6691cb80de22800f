"""A fresh network file per test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chunkloom.network import NetworkFile


@pytest.fixture
def network(tmp_path: Path) -> Iterator[NetworkFile]:
    """An empty network file with chunks of 100 x 100 x 100."""
    made = NetworkFile.create(tmp_path / "net.hdf5", chunk_size=(100, 100, 100))
    yield made
    if NetworkFile.exists(made.path):
        made.close()
