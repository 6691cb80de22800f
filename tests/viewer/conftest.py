"""A viewer and a chunk server per test, a Chromium per module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from browser import chromium  # noqa: F401  a fixture
from chunkloom.engine.volume import Volume
from chunkloom.serving.app import create_app
from chunkloom.serving.run import VolumeServer
from chunkloom.viewer.bootstrap import new_viewer, stop_viewer
from chunkloom.viewer.layers import LayerSpec


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    """No viewer outlives its test."""
    yield
    stop_viewer()


@pytest.fixture
def viewer() -> Any:
    """A viewer without layers."""
    return new_viewer()


class Web:
    """Volumes on the web."""

    def __init__(self, server: VolumeServer) -> None:
        self.server = server

    def layer(self, name: str, volume: Volume, word: str = "zarr3", **look: Any) -> LayerSpec:
        """Serve a volume, and give the layer that shows it."""
        self.server.app.add(name, volume)
        return LayerSpec.of_volume(volume, name=name, url=f"{self.server.url}/{name}/{word}", **look)


@pytest.fixture
def web() -> Iterator[Web]:
    with VolumeServer(create_app({})) as server:
        yield Web(server)
