"""`chunkloom app`: the built browser app on loopback, isolated, with a volume open in it or without."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.parse
import urllib.request

import numpy as np
import pytest

from chunkloom.viewer import bundle
from chunkloom.viewer.page import page_served


@pytest.fixture
def folder(tmp_path):
    """A page of two files, with a secret beside its folder."""
    page = tmp_path / "page"
    (page / "assets").mkdir(parents=True)
    (page / "index.html").write_text("<!doctype html><title>page</title>")
    (page / "assets" / "a-1.js").write_text("1")
    (tmp_path / "secret.txt").write_text("secret")
    return page


def get(url):
    return urllib.request.urlopen(url, timeout=10)


def test_the_page_is_isolated_and_on_loopback(folder):
    with page_served(folder) as url:
        assert urllib.parse.urlsplit(url).hostname == "127.0.0.1"
        with get(url) as answer:
            assert b"<title>page" in answer.read()
            assert answer.headers["Content-Type"].startswith("text/html")
            assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
            assert answer.headers["Cross-Origin-Embedder-Policy"] == "require-corp"
            assert answer.headers["Cache-Control"] == "no-cache"


def test_scripts_have_their_type_and_are_kept(folder):
    with page_served(folder) as url, get(url + "assets/a-1.js") as answer:
        assert answer.headers["Content-Type"].startswith("text/javascript")
        assert "immutable" in answer.headers["Cache-Control"]


@pytest.mark.parametrize("path", ["../secret.txt", "%2e%2e/secret.txt", "assets/", "assets", "none.js", "//etc/passwd"])
def test_nothing_but_its_files_is_given_out(folder, path):
    with page_served(folder) as url, pytest.raises(urllib.error.HTTPError, match="404"):
        get(url + path)


def test_where_the_app_is_not_built_that_is_known(monkeypatch, tmp_path):
    monkeypatch.setattr(bundle, "_PACKAGE", tmp_path)
    monkeypatch.setattr(bundle, "_CHECKOUT", tmp_path)
    assert bundle.built("app") is None
    assert "npm ci && npm run build" in bundle.HOW_TO_BUILD


def test_the_app_opens_with_a_volume_of_this_machine(started, tmp_path):
    import tensorstore as ts
    import zarr

    if bundle.built("app") is None:
        pytest.skip("the app is not built")
    array = zarr.create_array(tmp_path / "em", shape=(9, 8, 7), chunks=(4, 4, 4), dtype="uint8", zarr_format=2)
    array[:] = np.arange(9 * 8 * 7).reshape(9, 8, 7) % 251
    process, ready = started("app", tmp_path / "em", "--no-browser")
    state = json.loads(urllib.parse.parse_qs(urllib.parse.urlsplit(ready["viewer"]).query)["state"][0])
    read = ts.open({"driver": "zarr3", "kvstore": state["data"] + "/s0/"}).result().read().result()
    assert np.array_equal(read.ravel(), np.arange(9 * 8 * 7) % 251)
    with get(ready["url"]) as answer:
        assert "<title>chunkloom</title>" in answer.read().decode()
    process.send_signal(signal.SIGINT)
    assert process.wait(15) == 130
    assert process.stdout.read().strip() == ready["viewer"]


def test_a_port_that_is_taken_is_named(chunkloom, folder):
    if bundle.built("app") is None:
        pytest.skip("the app is not built")
    with page_served(folder) as url:
        port = urllib.parse.urlsplit(url).port
        done = chunkloom("app", "--no-browser", "--port", port)
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1 port {port}" in done.stderr
