"""Asking servers what they are: new ones, old ones, and what is no server at all."""

from __future__ import annotations

import http.server
import json
import threading

import pytest

from chunkloom.engine.demand import Scheduler
from chunkloom.errors import ParameterError
from chunkloom.serving.client import fetch_model_info, request_restart
from chunkloom.serving.model_server import Restart, create_model_app
from chunkloom.serving.run import VolumeServer

from .toy_models import toy_model


@pytest.fixture
def answering():
    """A server that answers each path with given bytes: ``answering({"/a": b"{}"}) -> "host:port"``."""
    running = []

    def start(answers):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = answers.get(self.path)
                self.send_response(404 if body is None else 200)
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        running.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"127.0.0.1:{server.server_port}"

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


@pytest.fixture
def came():
    return []


@pytest.fixture
def server(came):
    model = toy_model()

    def apply(request):
        if request["params"].get("bad"):
            raise ParameterError("no such parameter")
        came.append(request)

    app = create_model_app(
        {"toy": model.prediction(model.chain)}, {"toy": model}, scheduler=Scheduler(1), restart=Restart("secret", apply)
    )
    with VolumeServer(app) as running:
        yield running


def test_a_server_says_what_it_is(server):
    for host in (server.url, server.url + "/", server.url.removeprefix("http://")):
        assert fetch_model_info(host)["server"] == "chunkloom"


def test_an_older_server_is_asked_at_its_older_path(answering):
    host = answering({"/__control__/output_probe": json.dumps({"output_channels": 2}).encode()})
    assert fetch_model_info(host) == {"output_channels": 2}


@pytest.mark.parametrize("body", [None, b"", b"<html>", b"[]", b"[" * 9999, b" " * (1 << 20) + b"{}"])
def test_what_is_no_model_server_is_not_available(answering, body):
    answers = {} if body is None else {"/__control__/model_info": body, "/__control__/output_probe": body}
    found = fetch_model_info(answering(answers))
    assert found["available"] is False
    assert found["reason"]


@pytest.mark.parametrize("host", ["127.0.0.1:1", "no such host", "http://[", "file:///etc/passwd"])
def test_what_does_not_answer_is_not_available(host):
    assert fetch_model_info(host, timeout=1)["available"] is False


def test_a_restart_is_asked_for_with_the_token(server, came):
    request_restart(server.url, "secret", {"params": {"lora_r": 4}})
    assert came == [{"restart": True, "params": {"lora_r": 4}}]


@pytest.mark.parametrize(
    ("token", "params", "says"), [("wrong", {}, "401"), ("secret", {"bad": 1}, "no such parameter")]
)
def test_a_refused_restart_says_why(server, came, token, params, says):
    with pytest.raises(ParameterError, match=says):
        request_restart(server.url, token, {"params": params})
    assert came == []
