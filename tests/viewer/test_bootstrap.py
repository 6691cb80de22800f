"""The viewer's own server: on loopback, its link, and its end."""

from __future__ import annotations

import gc
import subprocess
import sys
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest

from chunkloom.errors import ServerError
from chunkloom.viewer.bootstrap import new_viewer, stop_viewer, viewer_link
from chunkloom.viewer.layers import LayerSpec

EM = LayerSpec("em", "http://127.0.0.1:1/em/zarr3", "image", (8, 8, 8), (0, 0, 0), (9, 9, 9), "uint8")


def test_link_opens_the_viewer_page_on_loopback():
    link = viewer_link([EM])
    gc.collect()
    assert urlsplit(link).hostname == "127.0.0.1"
    with urllib.request.urlopen(link, timeout=10) as answer:
        assert "neuroglancer" in answer.read().decode()


def test_without_the_token_there_is_no_page():
    link = urlsplit(viewer_link([EM]))
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{link.scheme}://{link.netloc}/v/guess/", timeout=10)


def test_stopped_viewer_answers_no_more_and_another_can_start():
    link = viewer_link([EM])
    stop_viewer()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(link, timeout=10)
    with urllib.request.urlopen(viewer_link([EM]), timeout=10) as answer:
        assert answer.status == 200


def test_viewers_give_nobody_the_users_cloud_tokens():
    assert new_viewer().allow_credentials is False


def test_second_address_is_refused_while_one_is_served():
    new_viewer()
    with pytest.raises(ServerError, match=r"runs on 127\.0\.0\.1"):
        new_viewer(host="127.0.0.2")


def test_address_of_another_machine_is_refused():
    with pytest.raises(ServerError, match=r"cannot bind 192\.0\.2\.1"):
        new_viewer(host="192.0.2.1")


def test_importing_the_viewer_imports_no_neuroglancer():
    code = (
        "import sys, chunkloom.viewer.bootstrap, chunkloom.viewer.scene as s; "
        "sys.exit(sorted({'neuroglancer', 'tornado'} & set(sys.modules)) or 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
