"""What must not be possible: hostile pages, callers without rights, sources elsewhere, bodies that are wrong."""

from __future__ import annotations

import http.server
import json
import socket
import threading

import numpy as np
import pytest

from chunkloom import array_volume
from chunkloom.engine.demand import Scheduler
from chunkloom.serving.access import ApiOptions, SourceRules
from chunkloom.serving.app import create_app
from chunkloom.serving.guard import MAX_BODY_BYTES
from chunkloom.serving.run import VolumeServer

from .rest_client import RAW, TOKEN, ask, edit, write_zarr

ROUTES = [
    ("GET", "/api/volumes"),
    ("GET", "/api/volumes/em"),
    ("GET", "/api/ops"),
    ("GET", "/api/schema"),
    ("GET", "/api/plan?volume=em"),
    ("GET", "/api/cache"),
    ("GET", "/api/queue"),
    ("GET", "/api/events"),
    ("GET", "/api/openapi.json"),
    ("GET", "/api/docs"),
    ("GET", "/metrics"),
    ("GET", "/docs"),
    ("GET", "/api/nothing"),
    ("OPTIONS", "/api/volumes"),
    ("POST", "/api/volumes"),
    ("PUT", "/api/volumes/em"),
    ("DELETE", "/api/volumes/em"),
    ("DELETE", "/api/cache"),
]
EDITS = [route for route in ROUTES if route[0] in ("POST", "PUT", "DELETE")]


class Elsewhere:
    """A web server that remembers what it was asked, and sends everybody on to `location` where it has one."""

    def __init__(self, location=None):
        self.asked = asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                self.send_response(302 if location else 404)
                if location:
                    self.send_header("Location", location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_HEAD = do_GET  # noqa: N815

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def elsewhere():
    started = []

    def start(location=None):
        started.append(Elsewhere(location))
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with `data`, which may be opened, and `secret.zarr`, which may not."""
    place = tmp_path_factory.mktemp("place")
    write_zarr(place / "data/a.zarr")
    write_zarr(place / "secret.zarr")
    (place / "data/link").symlink_to(place / "secret.zarr")
    return place


@pytest.fixture(scope="module")
def served(place):
    """One server for all that must leave it as it was: `em` and nothing else is served."""
    api = ApiOptions(allow_edit=True, token=TOKEN, sources=SourceRules.parse([str(place / "data")]))
    app = create_app({"em": array_volume(RAW, chunk=(16, 16, 16))}, scheduler=Scheduler(2), api=api)
    with VolumeServer(app) as server:
        yield server


@pytest.fixture(autouse=True)
def _nothing_is_changed(request):
    yield
    if "served" in request.fixturenames:
        assert list(request.getfixturevalue("served").app.volumes) == ["em"]


@pytest.mark.parametrize(("method", "path"), ROUTES, ids=lambda text: text)
def test_a_rebound_name_reaches_no_route(served, method, path):
    reply = ask(served, path, method, token=TOKEN, headers={"Host": f"evil.com:{served.port}"})
    assert reply.status == 403
    assert "evil.com" in reply.error


@pytest.mark.parametrize(("method", "path"), ROUTES, ids=lambda text: text)
def test_another_sites_page_reaches_no_route_and_gets_no_cors(served, method, path):
    reply = ask(served, path, method, token=TOKEN, headers={"Origin": "http://evil.com"})
    assert reply.status == 403
    assert not [name for name in reply.headers if name.startswith("access-control")]


def test_the_api_gives_no_cors_to_its_own_pages_either(served):
    reply = ask(served, "/api/volumes", headers={"Origin": served.url})
    assert reply.status == 200
    assert not [name for name in reply.headers if name.startswith("access-control")]
    assert reply.headers["cross-origin-resource-policy"] == "same-origin"
    assert reply.headers["cache-control"] == "no-store"
    preflight = ask(served, "/api/volumes", "OPTIONS", headers={"Origin": served.url})
    assert preflight.status == 405
    assert not [name for name in preflight.headers if name.startswith("access-control")]


def test_chunks_stay_readable_from_anywhere(served):
    reply = ask(served, "/em/zarr2/s0/0/0/0", headers={"Origin": "http://neuroglancer.example"})
    assert reply.status == 200
    assert reply.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(("method", "path"), EDITS, ids=lambda text: text)
@pytest.mark.parametrize("token", [None, "wrong", TOKEN[:-1], TOKEN + "x"])
def test_no_edit_without_the_token(served, method, path, token):
    reply = ask(served, path, method, body={}, token=token)
    assert reply.status == 401
    assert reply.headers["www-authenticate"].startswith("Bearer")
    assert TOKEN not in reply.body.decode()


@pytest.mark.parametrize(("method", "path"), EDITS, ids=lambda text: text)
def test_no_edit_without_allow_edit(serve, method, path):
    server = serve({"em": array_volume(RAW)}, api=ApiOptions(token=TOKEN))
    reply = ask(server, path, method, body={}, token=TOKEN)
    assert reply.status == 403
    assert "--allow-edit" in reply.error
    assert list(server.app.volumes) == ["em"]


def test_the_other_header_carries_the_token_too(served):
    assert ask(served, "/api/cache", "DELETE", headers={"X-Chunkloom-Token": TOKEN}).status == 200


@pytest.mark.parametrize(
    "source",
    [
        "/etc",
        "/proc/self/root/etc",
        "{data}/../secret.zarr",
        "{data}/link",
        "{data}/a.zarr|zarr2:../../secret.zarr",
        "zarr2://{data}/../secret.zarr",
        "file://{data}/a.zarr",
        "file:///etc/passwd",
        "http://127.0.0.1:{port}/api/volumes",
        "http://LOCALHOST:{port}/em/zarr2",
        "http://[::1]:{port}/em/zarr2",
        "http://2130706433:{port}/em/zarr2",
        "http://user@127.0.0.1:{port}/em/zarr2",
        "http://169.254.169.254/latest/meta-data",
        "http://169.254.169.254/|zarr3:latest",
        "precomputed://http://169.254.169.254/x",
        "s3://bucket/x",
        "gs://bucket/x",
    ],
)
def test_sources_elsewhere_are_not_opened(served, place, source):
    asked_before = served.app.answered.total()
    text = source.format(data=place / "data", port=served.port)
    reply = edit(served, "/api/volumes", "POST", {"name": "a", "source": text})
    assert reply.status == 403, reply.body
    assert reply.error
    assert served.app.answered.total() == asked_before


def test_a_group_that_lists_an_array_elsewhere_is_not_opened(served, place):
    group = place / "data/group.zarr"
    group.mkdir()
    (group / ".zgroup").write_text('{"zarr_format": 2}')
    scale = [{"type": "scale", "scale": [1, 1, 1]}]
    multiscale = {
        "version": "0.4",
        "axes": [{"name": axis, "type": "space", "unit": "nanometer"} for axis in "zyx"],
        "datasets": [{"path": "../../secret.zarr", "coordinateTransformations": scale}],
    }
    (group / ".zattrs").write_text(json.dumps({"multiscales": [multiscale]}))
    reply = edit(served, "/api/volumes", "POST", {"name": "a", "source": str(group)})
    assert reply.status in (403, 422)


@pytest.mark.parametrize("path", ["/data/x.zarr", "/data/x.n5", "/data/x", "/data/x.h5", "/data/x.tif"])
def test_redirects_out_of_an_allowed_place_are_not_followed(serve, elsewhere, path):
    inside = elsewhere()
    allowed = elsewhere(inside.url + "/secret")
    api = ApiOptions(allow_edit=True, token=TOKEN, sources=SourceRules.parse([allowed.url + "/data"]))
    server = serve({}, api=api)
    reply = edit(server, "/api/volumes", "POST", {"name": "a", "source": allowed.url + path})
    assert reply.status in (403, 422)
    assert inside.asked == []


def test_a_source_below_an_allowed_url_is_opened(serve):
    other = serve({"raw": array_volume(RAW, chunk=(16, 16, 16))})
    api = ApiOptions(allow_edit=True, token=TOKEN, sources=SourceRules.parse([other.url + "/raw"]))
    server = serve({}, api=api)
    spec = {"name": "a", "source": f"HTTP://127.0.0.1:{other.port}/raw/zarr2/", "ops": [{"op": "invert"}]}
    assert edit(server, "/api/volumes", "POST", spec).status == 201
    assert np.array_equal(server.app.volumes["a"].volume.read(), 65535 - RAW)
    assert edit(server, "/api/volumes", "POST", {**spec, "name": "b", "source": other.url}).status == 403


def test_made_up_data_is_always_allowed(serve):
    pytest.importorskip("chunkloom.engine.sources.synthetic")
    server = serve({}, api=ApiOptions(allow_edit=True, token=TOKEN))
    reply = edit(server, "/api/volumes", "POST", {"name": "a", "source": "synthetic://em"})
    assert reply.status == 201


def test_code_cannot_be_sent(served, place):
    script = place / "data/model.py"
    script.write_text(f"open({str(place / 'ran')!r}, 'w')")
    source = str(place / "data/a.zarr")
    for model in (str(script), {"type": "script", "script_path": str(script)}, {"type": "Script", "path": str(script)}):
        reply = edit(served, "/api/volumes", "POST", {"name": "a", "source": source, "model": model})
        assert reply.status == 403
        assert "--allow-code" in reply.error
    assert not (place / "ran").exists()


def test_ops_that_run_code_are_offered_with_allow_code_only():
    import dataclasses

    from chunkloom import Op
    from chunkloom.serving.schema import offered_ops

    @dataclasses.dataclass(frozen=True)
    class Runs(Op):
        code: str

        name = "test-runs-code"
        runs_code = True

    assert "test-runs-code" not in offered_ops(allow_code=False)
    assert "python" not in offered_ops(allow_code=False)
    assert "test-runs-code" in offered_ops(allow_code=True)


MALFORMED = {
    "nothing": b"",
    "not JSON": b"{",
    "a list": b"[]",
    "a number": b"1",
    "null": b"null",
    "text": b'"x"',
    "not UTF-8": b"\xff\xfe{}",
    "deep": b"[" * 100_000,
    "a very long number": b"1" * 100_000,
    "NaN": b'{"name":"a","source":"SOURCE","ops":[{"op":"threshold","low":NaN}]}',
    "infinity": b'{"name":"a","source":"SOURCE","ops":[{"op":"threshold","low":1e999}]}',
    "a huge number": b'{"name":"a","source":"SOURCE","ops":[{"op":"threshold","low":1' + b"0" * 400 + b"}]}",
    "half a surrogate": b'{"name":"a","source":"\\ud800"}',
    "NUL in source": b'{"name":"a","source":"SOURCE\\u0000"}',
    "no name": {"source": "SOURCE"},
    "no source": {"name": "a"},
    "source a number": {"name": "a", "source": 1},
    "source empty": {"name": "a", "source": ""},
    "source of a megabyte": {"name": "a", "source": "x" * 900_000},
    "no such source": {"name": "a", "source": "SOURCE/none"},
    "reserved name": {"name": "api", "source": "SOURCE"},
    "name with a slash": {"name": "a/b", "source": "SOURCE"},
    "name with dots": {"name": "..", "source": "SOURCE"},
    "name of a digest": {"name": "@a", "source": "SOURCE"},
    "name empty": {"name": "", "source": "SOURCE"},
    "name with a newline": {"name": "a\n", "source": "SOURCE"},
    "name too long": {"name": "a" * 300, "source": "SOURCE"},
    "extra member": {"name": "a", "source": "SOURCE", "chain": []},
    "ops an object": {"name": "a", "source": "SOURCE", "ops": {}},
    "op a text": {"name": "a", "source": "SOURCE", "ops": ["invert"]},
    "op without a name": {"name": "a", "source": "SOURCE", "ops": [{}]},
    "unknown op": {"name": "a", "source": "SOURCE", "ops": [{"op": "tresh"}]},
    "unknown parameter": {"name": "a", "source": "SOURCE", "ops": [{"op": "invert", "low": 1}]},
    "missing parameter": {"name": "a", "source": "SOURCE", "ops": [{"op": "threshold"}]},
    "text for a number": {"name": "a", "source": "SOURCE", "ops": [{"op": "threshold", "low": "1"}]},
    "a bool for a number": {"name": "a", "source": "SOURCE", "ops": [{"op": "threshold", "low": True}]},
    "low above high": {"name": "a", "source": "SOURCE", "ops": [{"op": "clip", "low": 2, "high": 1}]},
    "no such dtype": {"name": "a", "source": "SOURCE", "ops": [{"op": "cast", "dtype": "O"}]},
    "a dtype of parts": {"name": "a", "source": "SOURCE", "ops": [{"op": "cast", "dtype": "u1,u1"}]},
    "code": {"name": "a", "source": "SOURCE", "ops": [{"op": "python", "code": "1"}]},
    "too many ops": {"name": "a", "source": "SOURCE", "ops": [{"op": "invert"}] * 101},
    "select a text": {"name": "a", "source": "SOURCE", "select": "c=1"},
    "select below 0": {"name": "a", "source": "SOURCE", "select": {"c": -1}},
    "select of no axis": {"name": "a", "source": "SOURCE", "select": {"q": 1}},
    "model a number": {"name": "a", "source": "SOURCE", "model": 1},
    "model without a type": {"name": "a", "source": "SOURCE", "model": {}},
    "no such model": {"name": "a", "source": "SOURCE", "model": "SOURCE/model.onnx"},
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_body_is_422_with_a_reason_in_one_line(served, place, body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    reply = edit(served, "/api/volumes", "POST", data.replace(b"SOURCE", str(place / "data/a.zarr").encode()))
    # A path of no possible file is refused before anything is looked at.
    assert reply.status == (403 if b"u0000" in data else 422)
    assert 0 < len(reply.error) <= 1000
    assert "Traceback" not in reply.error


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_body_that_a_form_could_send_is_refused(served, kind):
    """A form of another site's page needs no leave to send these types."""
    reply = ask(served, "/api/volumes", "POST", body={}, token=TOKEN, headers={"Content-Type": kind})
    assert reply.status == 415


def test_a_body_announced_too_large_is_413(served):
    reply = edit(served, "/api/volumes", "POST", b" " * (MAX_BODY_BYTES + 1))
    assert reply.status == 413


def test_a_body_that_grows_too_large_is_413(served):
    """Its size is not announced, and it is far larger than is kept."""
    with socket.create_connection((served.host, served.port), timeout=30) as connection:
        head = (
            f"POST /api/volumes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        connection.sendall(head.encode())
        for _ in range(8 * MAX_BODY_BYTES // 0x10000):
            connection.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        connection.sendall(b"0\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 413")


def test_a_body_of_the_largest_size_is_read(served):
    assert edit(served, "/api/volumes", "POST", b"{}".ljust(MAX_BODY_BYTES)).status == 422


def test_two_hosts_or_none_are_refused(served):
    for lines in ("", "Host: localhost\r\nHost: evil.com\r\n"):
        with socket.create_connection((served.host, served.port), timeout=30) as connection:
            connection.sendall(f"GET /api/volumes HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode())
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "path", ["/api/../em", "/api/volumes/..%2f..%2fetc", "/api/volumes/%00", "//api/volumes", "/API/volumes"]
)
def test_other_spellings_of_paths_reach_nothing(served, path):
    reply = ask(served, path)
    assert reply.status in (400, 404)
