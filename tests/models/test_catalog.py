"""Models to choose from: a YAML file, and a Hub served here."""

from __future__ import annotations

import http.server
import json
import threading

import pytest

from chunkloom.errors import ParameterError
from chunkloom.models.catalog import hub_entries, hub_models, read_catalog, refresh_hub_models


def test_a_yaml_file_gives_groups_of_exports(tmp_path):
    path = tmp_path / "models.yaml"
    path.write_text("setup04:\n  mito: /models/mito\n  nuc: /models/nuc\n")
    assert [(e.group, e.name, e.entry["type"], e.entry["folder_path"]) for e in read_catalog(path)] == [
        ("setup04", "mito", "cellmap", "/models/mito"),
        ("setup04", "nuc", "cellmap", "/models/nuc"),
    ]


@pytest.mark.parametrize("text", ["- a", "group: 3", "group: {mito: [1]}", "a: [b"])
def test_a_file_of_another_form_is_refused_by_name(tmp_path, text):
    path = tmp_path / "models.yaml"
    path.write_text(text)
    with pytest.raises(ParameterError, match=r"models\.yaml"):
        read_catalog(path)


@pytest.fixture
def hub():
    answers = {
        "/api/models?author=lab": [{"id": "lab/mito"}, {"id": "lab/empty"}],
        "/lab/mito/resolve/main/metadata.json": {"model_name": "Mito", "out_channels": 1},
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path in answers else 404)
            self.end_headers()
            self.wfile.write(json.dumps(answers.get(self.path)).encode())

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", answers
    server.shutdown()
    server.server_close()


def test_a_hub_is_asked_once_and_then_remembered(hub, monkeypatch):
    monkeypatch.setenv("CHUNKLOOM_HUB_ORGANISATION", "lab")
    assert hub_models() == {}
    assert list(refresh_hub_models(hub[0])) == ["lab/mito"]
    assert [(e.group, e.name, e.entry) for e in hub_entries(hub_models())] == [
        ("lab", "Mito", {"type": "huggingface", "repo": "lab/mito"})
    ]


def test_a_hub_that_fails_leaves_what_was_kept(hub):
    refresh_hub_models(hub[0], "lab")
    assert refresh_hub_models(hub[0], "nobody") == {}
    assert list(hub_models()) == ["lab/mito"]
