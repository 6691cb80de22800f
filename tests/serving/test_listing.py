"""What a person, or a program that follows links, finds below an address."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import numpy as np
import pytest

from chunkloom import Pipeline, array_volume

from .test_app import ask

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self.found.append(dict(attrs)["href"])


def links(server, path, headers=None):
    """Absolute paths of the links on a page."""
    status, answered, body = ask(server, path, headers=headers)
    assert (status, answered["content-type"]) == (200, "text/html; charset=utf-8"), body
    parser = Links()
    parser.feed(body.decode())
    return [urlsplit(urljoin(server.url + path, link)).path for link in parser.found]


@pytest.fixture
def server(serve):
    array = np.zeros((40, 40, 40), np.uint8)
    return serve({"a": Pipeline(array_volume(array, chunk=(16, 16, 16))), "b <i>": array_volume(array)})


FORMATS = ["/a/zarr2/", "/a/zarr3/", "/a/n5/", "/a/precomputed/"]


@pytest.mark.parametrize(
    ("path", "below"),
    [
        ("/a/", FORMATS),
        ("/a/n5/", ["/a/n5/s0/", "/a/n5/s1/", "/a/n5/s2/", "/a/n5/attributes.json"]),
        ("/a/n5/s1/", ["/a/n5/s1/attributes.json"]),
        ("/a/zarr2/s0/", ["/a/zarr2/s0/.zarray", "/a/zarr2/s0/.zattrs"]),
        ("/a/precomputed/", [*(f"/a/precomputed/s{i}/" for i in range(3)), "/a/precomputed/info"]),
        ("/a/precomputed/s0/", []),
    ],
)
def test_a_group_with_a_slash_lists_what_is_below(server, path, below):
    assert links(server, path) == below
    assert links(server, path.rstrip("/"), headers=BROWSER) == below


def test_every_link_leads_somewhere(server):
    seen, waiting = set(), ["/"]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        if path.endswith("/"):
            waiting += links(server, path, headers=BROWSER)
        else:
            status, answered, _ = ask(server, path, headers=BROWSER)
            assert (status, answered["content-type"]) == (200, "application/json"), path
    assert len([path for path in seen if path.endswith(".zarray")]) == 4
    assert "/b%20%3Ci%3E/n5/attributes.json" in seen


def test_a_volume_names_its_formats(server):
    status, _, body = ask(server, "/a")
    told = json.loads(body)
    assert status == 200
    assert told["digest"] == server.app.volumes["a"].digest
    assert told["urls"] == {word: f"/a/{word}" for word in ("zarr2", "zarr3", "n5", "precomputed")}


def test_an_address_with_the_digest_is_listed_too(server):
    base = f"/a/@{server.app.volumes['a'].digest}"
    assert links(server, base + "/") == [base + path[2:] for path in FORMATS]
    assert base + "/n5/s0/" in links(server, base + "/n5/")


@pytest.mark.parametrize(
    "path", ["/a/zarr2", "/a/zarr2/s0", "/a/n5", "/a/zarr2/s0/0", "/a/zarr2/s0/0/", "/a/zarr2/s9/"]
)
def test_what_is_no_file_stays_404_for_programs(server, path):
    assert ask(server, path)[0] == 404


def test_a_chunk_is_a_chunk_for_browsers_too(server):
    assert ask(server, "/a/zarr2/s0/0/0/0", headers=BROWSER)[1]["content-type"] == "application/octet-stream"
