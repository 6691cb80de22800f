"""Stored chunks written anew while they are served, and while they were not: a changed source is a different source."""

from __future__ import annotations

import functools
import http.server
import threading
import time

import numpy as np
import pytest

from chunkloom import Pipeline, array_volume, open_volume, ops
from chunkloom.engine.cache import ChunkCache
from chunkloom.engine.sources import states
from chunkloom.serving import app
from chunkloom.serving.access import ApiOptions

from .rest_client import TOKEN
from .test_app import ask
from .test_passthrough import ARRAY, BLOSC, zarr2

FRESH_S = 0.05
BOX = (slice(10, 20), slice(30, 33), slice(0, 10))
PATH = "/a/{word}/s0/1/3/0"


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    """What was seen counts for less than a test takes."""
    monkeypatch.setattr(states, "FRESH_S", FRESH_S)
    monkeypatch.setattr(app, "FRESH_S", FRESH_S)


def rewrite(path, key="1/3/0"):
    """Another chunk in place of one: its voxels become those of its neighbour."""
    time.sleep(0.02)  # file times of some systems are coarse
    (path / key).write_bytes((path / "1/2/0").read_bytes())
    time.sleep(FRESH_S + 0.02)


WAYS = {
    "passed on": ([], {}, None),
    "encoded again": ([], {"codec": "none"}, None),
    "computed": ([ops.Invert()], {}, None),
    "kept": ([ops.Label(chunk=(10, 10, 10))], {}, None),
    "another grid": ([], {}, (7, 33, 17)),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_chunk_written_anew_is_another_chunk(serve, tmp_path, way):
    made, options, chunk = WAYS[way]
    path = zarr2(tmp_path / "a.zarr", BLOSC)
    server = serve({"a": Pipeline(open_volume(path), made, chunk=chunk, cache=ChunkCache())}, **options)
    asked = "/a/zarr2/s0/1/0/0" if chunk else "/a/zarr2/s0/1/3/0"
    status, headers, body = ask(server, asked)
    again, same, _ = ask(server, asked, headers={"If-None-Match": headers["etag"]})
    assert (status, again, same["etag"]) == (200, 304, headers["etag"])
    rewrite(path)
    status, other, changed = ask(server, asked, headers={"If-None-Match": headers["etag"]})
    assert status == 200
    assert other["etag"] != headers["etag"]
    assert changed != body
    assert ask(server, asked)[2] == changed
    assert ask(server, asked, headers={"If-None-Match": other["etag"]})[0] == 304


@pytest.mark.parametrize("way", WAYS)
def test_a_server_started_again_tells_changed_chunks_from_the_others(serve, tmp_path, way):
    made, options, chunk = WAYS[way]
    path = zarr2(tmp_path / "a.zarr", BLOSC)
    paths = ["/a/zarr2/s0/1/0/0", "/a/zarr2/s0/0/0/0"] if chunk else ["/a/zarr2/s0/1/3/0", "/a/zarr2/s0/0/0/0"]

    def start():
        return serve({"a": Pipeline(open_volume(path), made, chunk=chunk, cache=ChunkCache())}, **options)

    first = start()
    etags = [ask(first, asked)[1]["etag"] for asked in paths]
    rewrite(path)
    second = start()
    statuses = [
        ask(second, asked, headers={"If-None-Match": etag})[0] for asked, etag in zip(paths, etags, strict=True)
    ]
    assert statuses == [200, 304]


def test_coarse_levels_made_of_a_chunk_written_anew_change_too(serve, tmp_path):
    path = zarr2(tmp_path / "a.zarr", BLOSC)
    server = serve({"a": Pipeline(open_volume(path), [ops.Cast("float32")], cache=ChunkCache())}, codec="none")
    last = len(server.app.volumes["a"].volume.levels) - 1
    before = ask(server, f"/a/zarr2/s{last}/0/0/0")
    rewrite(path)
    after = ask(server, f"/a/zarr2/s{last}/0/0/0")
    assert last > 0
    assert after[1]["etag"] != before[1]["etag"]
    assert after[2] != before[2]


def test_the_volume_itself_reads_what_is_stored_now(tmp_path):
    path = zarr2(tmp_path / "a.zarr", BLOSC)
    volume = Pipeline(open_volume(path), [ops.Invert()], cache=ChunkCache())
    volume.read()
    rewrite(path)
    expected = ARRAY.copy()
    expected[BOX] = ARRAY[10:20, 20:23, 0:10]
    assert np.array_equal(volume.read(), 65535 - expected)


@pytest.mark.parametrize("codec", [None, "none"], ids=["passed on", "encoded again"])
@pytest.mark.parametrize("asked", ["etag", "*"])
def test_a_chunk_that_cannot_be_read_any_more_is_an_error_to_those_who_have_it_too(serve, tmp_path, codec, asked):
    path = zarr2(tmp_path / "a.zarr", BLOSC)
    server = serve({"a": Pipeline(open_volume(path))}, codec=codec)
    etag = ask(server, PATH.format(word="zarr2"))[1]["etag"]
    time.sleep(0.02)
    (path / "1/3/0").write_bytes(b"broken")
    time.sleep(FRESH_S + 0.02)
    known = {"If-None-Match": etag if asked == "etag" else "*"}
    assert ask(server, PATH.format(word="zarr2"), headers=known)[0] == 500


def test_a_chunk_that_is_not_there_is_404_whatever_the_client_has(serve, tmp_path):
    path = zarr2(tmp_path / "a.zarr", BLOSC)
    server = serve({"a": Pipeline(open_volume(path))})
    etag = ask(server, PATH.format(word="zarr2"))[1]["etag"]
    (path / "1/3/0").unlink()
    time.sleep(FRESH_S + 0.02)
    for known in (etag, "*"):
        assert ask(server, PATH.format(word="zarr2"), headers={"If-None-Match": known})[0] == 404
    assert ask(server, PATH.format(word="zarr2"), method="HEAD")[0] == 404


@pytest.mark.parametrize("codec", [None, "gzip"], ids=["passed on", "encoded again"])
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_head_says_what_get_would(serve, tmp_path, codec, warm):
    path = zarr2(tmp_path / "a.zarr", BLOSC)
    server = serve({"a": Pipeline(open_volume(path))}, codec=codec)
    for word in ("zarr2", "zarr3"):
        asked = f"/a/{word}/s0/{'c/' if word == 'zarr3' else ''}1/3/0"
        if warm:
            ask(server, asked)
        status, head, body = ask(server, asked, method="HEAD")
        again, get, whole = ask(server, asked)
        assert (status, body) == (again, b"") == (200, b"")
        assert head["etag"] == get["etag"]
        if "content-length" in head:
            assert int(head["content-length"]) == len(whole)
        else:
            assert (codec, warm) == ("gzip", False)
        assert ask(server, asked, method="HEAD", headers={"If-None-Match": get["etag"]})[0] == 304


def test_metadata_written_anew_are_said_and_nothing_is_decoded_by_the_old(serve, tmp_path):
    path = zarr2(tmp_path / "a.zarr", BLOSC)
    volumes = {"a": Pipeline(open_volume(path)), "b": Pipeline(open_volume(path), [ops.Invert()])}
    server = serve(volumes)
    ask(server, "/a/zarr2/s0/1/3/0")
    time.sleep(0.02)
    text = (path / ".zarray").read_text()
    (path / ".zarray").write_text(text + " ")
    time.sleep(FRESH_S + 0.02)
    for asked in ("/a/zarr2/s0/0/0/0", "/b/zarr2/s0/0/0/0"):
        status, _, body = ask(server, asked)
        assert status == 500
        assert b"metadata were written anew" in body
        assert str(tmp_path).encode() not in body


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Has validators that nobody should copy as they are."""

    def end_headers(self):
        self.send_header("ETag", 'W/"a \\"b\\", c"')
        super().end_headers()

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass


@pytest.fixture
def elsewhere(tmp_path):
    """A folder on a web server."""
    handler = functools.partial(Quiet, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield tmp_path, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("codec", [None, "none"], ids=["passed on", "encoded again"])
def test_what_changed_elsewhere_is_seen_when_everything_is_forgotten(serve, elsewhere, codec):
    folder, url = elsewhere
    path = zarr2(folder / "a.zarr", BLOSC)
    api = ApiOptions(allow_edit=True, token=TOKEN)
    server = serve({"a": Pipeline(open_volume(f"{url}/a.zarr"))}, codec=codec, api=api)
    asked = "/a/zarr2/s0/1/3/0"
    _, headers, body = ask(server, asked)
    time.sleep(1.1)  # dates of web servers are of whole seconds
    rewrite(path)
    assert ask(server, asked)[2] == body
    assert ask(server, "/api/cache", method="DELETE", headers={"X-Chunkloom-Token": TOKEN})[0] == 200
    status, other, changed = ask(server, asked, headers={"If-None-Match": headers["etag"]})
    assert (status, other["etag"] != headers["etag"], changed != body) == (200, True, True)


def test_a_validator_of_another_server_makes_a_proper_one_of_ours(serve, elsewhere):
    folder, url = elsewhere
    server = serve({"a": Pipeline(open_volume(f"{url}/{zarr2(folder / 'a.zarr', BLOSC).name}"))})
    etag = ask(server, "/a/zarr2/s0/1/3/0")[1]["etag"]
    assert etag[0] == etag[-1] == '"'
    assert not set(etag[1:-1]) & set('" ,\\')
    assert ask(server, "/a/zarr2/s0/1/3/0", headers={"If-None-Match": etag})[0] == 304


def test_looking_takes_a_small_part_of_the_time(monkeypatch):
    looked = []

    def slow():
        looked.append(1)
        time.sleep(0.02)
        return iter(())

    monkeypatch.setattr(states, "FRESH_S", 0.0)
    found = states.FileStates()
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        found.of("group", slow)
    assert len(looked) == 1


def test_an_array_in_memory_has_no_state():
    volume = Pipeline(array_volume(ARRAY), [ops.Invert()])
    assert volume.state(0, volume.levels[0].box) == ""
