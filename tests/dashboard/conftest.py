"""A dashboard on a port of its own, asked as a script does and as a browser does."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

import pytest

TOKEN = "a-token-for-tests"


@dataclass
class Answer:
    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


_opener = urllib.request.build_opener(_Stay)


class Running:
    """A dashboard that answers at `url`."""

    def __init__(self, dashboard: Any, port: int) -> None:
        self.dashboard = dashboard
        self.url = f"http://127.0.0.1:{port}"

    def ask(
        self, path: str, method: str = "GET", body: Any = None, *, token: str | None = TOKEN, **headers: str
    ) -> Answer:
        """Ask with the token, as a script does; header names with _ for -."""
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        if token is not None:
            named["Authorization"] = f"Bearer {token}"
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            named.setdefault("Content-Type", "application/json")
        request = urllib.request.Request(self.url + path, data, named, method=method)
        try:
            with _opener.open(request, timeout=60) as answer:
                return Answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.headers, error.read())

    def browser_cookie(self) -> str:
        """What a browser that opened the link keeps."""
        answer = self.ask(f"/?token={TOKEN}", token=None)
        assert answer.status == 303
        return str(answer.headers["set-cookie"]).partition(";")[0]


@pytest.fixture(autouse=True)
def this_machine(monkeypatch):
    """Model servers run here, also where the commands of a scheduler are installed."""
    monkeypatch.setenv("CHUNKLOOM_SITE", "local")


@pytest.fixture
def dashboard(tmp_path):
    """Start dashboards: ``dashboard(roots=[…], **options) -> Running``."""
    import uvicorn

    from chunkloom.dashboard.app import create_dashboard
    from chunkloom.dashboard.options import DashboardOptions, usual_sources

    started = []

    def start(roots: Any = (), **options: Any) -> Running:
        sources = usual_sources([str(tmp_path), *map(str, roots)], None)
        made = create_dashboard(DashboardOptions(token=TOKEN, sources=sources, **options))
        listening = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(made, log_level="error", lifespan="on", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        made.pool.dashboard_url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        started.append((made, server, thread, listening))
        return Running(made, listening.getsockname()[1])

    yield start
    for made, server, thread, listening in started:
        server.should_exit = True
        thread.join(10)
        made.close()
        listening.close()
    from chunkloom.viewer.bootstrap import stop_viewer

    stop_viewer()


@pytest.fixture
def em(tmp_path):
    """A small volume with a corner and a voxel size that are no whole numbers."""
    import numpy as np

    from chunkloom import array_volume, materialize

    values = np.random.default_rng(1).integers(0, 256, (40, 50, 60)).astype(np.uint8)
    path = tmp_path / "em.zarr"
    materialize(array_volume(values, voxel_size_nm=(10.48, 4, 4), corner_nm=(-5.24, -2, 30)), str(path))
    return path
