"""Which Neuroglancer the Python viewer serves: our own build where there is one, else the Python package's."""

from __future__ import annotations

import re
import urllib.error
import urllib.request

import pytest

from chunkloom.viewer import bootstrap, bundle
from chunkloom.viewer.layers import LayerSpec

EM = LayerSpec("em", "http://127.0.0.1:1/em/zarr3", "image", (8, 8, 8), (0, 0, 0), (9, 9, 9), "uint8")


@pytest.fixture(autouse=True)
def stopped():
    import neuroglancer.server

    bootstrap.stop_viewer()
    yield
    bootstrap.stop_viewer()
    neuroglancer.server.global_static_content_source = None


def page(link):
    with urllib.request.urlopen(link, timeout=10) as answer:
        return answer.read().decode()


def test_our_own_build_is_served_where_it_is_built():
    if bundle.built("viewer") is None:
        pytest.skip("the viewer is not built")
    assert bootstrap.client_in_use() == "chunkloom"
    link = bootstrap.viewer_link([EM])
    text = page(link)
    assert "<title>chunkloom</title>" in text
    script = re.search(r'src="\./(index-[^"]+\.js)"', text)[1]
    with urllib.request.urlopen(link + script, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/javascript")
        assert len(answer.read()) > 500_000


@pytest.mark.parametrize("name", ["nothing.js", "..%2findex.html", ".hidden"])
def test_nothing_but_its_files_is_given_out(name):
    with pytest.raises(urllib.error.HTTPError, match="404"):
        page(bootstrap.viewer_link([EM]) + name)


def test_where_it_is_not_built_the_packages_own_client_is_the_page(monkeypatch, tmp_path):
    import neuroglancer.server

    neuroglancer.server.global_static_content_source = None
    monkeypatch.setattr(bundle, "_PACKAGE", tmp_path)
    monkeypatch.setattr(bundle, "_CHECKOUT", tmp_path)
    assert bootstrap.client_in_use() == "neuroglancer"
    text = page(bootstrap.viewer_link([EM]))
    assert "neuroglancer" in text
    assert "<title>chunkloom</title>" not in text
