"""The geometry of a model from where it is had soonest."""

from __future__ import annotations

import http.server
import json
import os
import threading

import pytest

from chunkloom.models import geometry_cache
from chunkloom.models.geometry import ModelGeometry
from chunkloom.models.geometry_cache import LARGEST, cache_path, geometry_of_server, model_geometry
from chunkloom.models.kinds import ScriptModelConfig

SCRIPT = """
import pathlib
import torch
log = pathlib.Path(__file__).with_name("runs")
log.write_text((log.read_text() if log.exists() else "") + "x")
input_voxel_size = output_voxel_size = (5.24, 4, 4)
input_size, output_size = (20, 22, 24), {output}
channels = ["a"]
model = torch.nn.Conv3d(1, 1, 5)
"""


@pytest.fixture
def script(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "model.py"
    path.write_text(SCRIPT.format(output=(16, 18, 20)))
    return path


def runs(script):
    return len(script.with_name("runs").read_text())


def test_a_script_runs_once(script):
    first = model_geometry(ScriptModelConfig(str(script)))
    assert first == ModelGeometry((5.24, 4, 4), (5.24, 4, 4), (20, 22, 24), (16, 18, 20), 1, ("a",))
    assert model_geometry(ScriptModelConfig(str(script))) == first
    assert runs(script) == 1


def test_a_changed_script_runs_again(script):
    model_geometry(ScriptModelConfig(str(script)))
    script.write_text(SCRIPT.format(output=(14, 18, 20)))
    os.utime(script, ns=(1, 1))
    assert model_geometry(ScriptModelConfig(str(script))).output_shape == (14, 18, 20)


def test_a_damaged_file_of_answers_is_made_anew(script):
    cache_path().parent.mkdir(parents=True)
    cache_path().write_text("{ not json")
    model_geometry(ScriptModelConfig(str(script)))
    assert len(json.loads(cache_path().read_text())) == 1


def test_the_oldest_answers_go_first():
    geometry = ModelGeometry((8,) * 3, (8,) * 3, (8,) * 3, (8,) * 3)
    for i in range(LARGEST + 5):
        geometry_cache._store(f"script:/{i}:1", geometry)
    kept = list(json.loads(cache_path().read_text()))
    assert (len(kept), kept[0], kept[-1]) == (LARGEST, "script:/5:1", f"script:/{LARGEST + 4}:1")


@pytest.fixture
def serving():
    """A server of one model_info, and what it answers."""
    info = {
        "read_shape": [160.0, 160, 160],
        "write_shape": [80, 80, 80],
        "input_voxel_size": [8, 8, 8],
        "output_voxel_size": [8, 8, 8],
        "output_channels": 2,
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/__control__/model_info" else 404)
            self.end_headers()
            self.wfile.write(json.dumps(info).encode())

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", info
    server.shutdown()
    server.server_close()


def test_a_running_server_is_asked_first(serving, script):
    found = model_geometry(ScriptModelConfig(str(script)), serving[0])
    assert (found.input_shape, found.output_shape, found.output_channels) == ((20,) * 3, (10,) * 3, 2)
    assert not script.with_name("runs").exists()


def test_a_server_that_leaves_a_field_out_tells_nothing(serving):
    del serving[1]["output_channels"]
    assert geometry_of_server(serving[0]) is None


def test_a_server_that_is_gone_tells_nothing():
    assert geometry_of_server("http://127.0.0.1:9", timeout=0.5) is None
