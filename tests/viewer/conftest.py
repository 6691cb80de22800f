"""A viewer per test, a Chromium per module, and volumes on the web."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import chromium  # noqa: F401  a fixture

from chunkloom.viewer.bootstrap import new_viewer, stop_viewer


@pytest.fixture
def viewer() -> Iterator[Any]:
    yield new_viewer()
    stop_viewer()


class _Files(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def end_headers(self) -> None:
        self.send_header("Access-Control-Allow-Origin", "*")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


class VolumeFolder:
    """A folder of zarr arrays written by zarr-python, on the web."""

    def __init__(self, folder: Path, base: str) -> None:
        self.folder, self.base = folder, base

    def add(
        self,
        name: str,
        array: np.ndarray[Any, Any],
        voxel_size_nm: Sequence[float],
        corner_nm: Sequence[float],
        zarr_format: int = 3,
    ) -> str:
        """Write an array (channel first, if it has four axes) with OME metadata, and give its address."""
        import zarr

        channel = array.ndim - 3
        centre = [c + v / 2 for c, v in zip(corner_nm, voxel_size_nm, strict=True)]
        axes = [{"name": "c", "type": "channel"}] * channel
        axes += [{"name": axis, "type": "space", "unit": "nanometer"} for axis in "zyx"]
        placed = [
            {"type": "scale", "scale": [1.0] * channel + list(voxel_size_nm)},
            {"type": "translation", "translation": [0.0] * channel + centre},
        ]
        multiscale = {"name": name, "axes": axes, "datasets": [{"path": "s0", "coordinateTransformations": placed}]}
        word = f"zarr{zarr_format}"
        group = zarr.create_group(self.folder / name / word, zarr_format=zarr_format)
        keys = {"name": "v2" if zarr_format == 2 else "default", "separator": "/"}
        chunks = (*array.shape[:channel], 64, 64, 64)
        group.create_array(
            "s0",
            data=array,
            chunks=tuple(min(c, n) for c, n in zip(chunks, array.shape, strict=True)),
            chunk_key_encoding=keys,
            # A chunk of fill value alone is written too: a missing file is a 404, which these tests count.
            config={"write_empty_chunks": True},
        )
        if zarr_format == 2:
            group.attrs["multiscales"] = [{"version": "0.4", **multiscale}]
        else:
            group.attrs["ome"] = {"version": "0.5", "multiscales": [multiscale]}
        return f"{self.base}/{name}/{word}"


@pytest.fixture
def volumes(tmp_path: Path) -> Iterator[VolumeFolder]:
    handler = functools.partial(_Files, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield VolumeFolder(tmp_path, f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
        thread.join()
