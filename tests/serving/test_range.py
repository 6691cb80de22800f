"""Parts of chunks and metadata: `Range`, and what HEAD tells of a body."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from chunkloom import Op, Pipeline, array_volume

from .test_app import ask

CHUNK = np.arange(16**3, dtype=np.uint16).reshape(16, 16, 16)
BODY = CHUNK.tobytes()
N = len(BODY)
PATH = "/a/zarr2/s0/0/0/0"


@pytest.fixture
def server(serve):
    return serve({"a": array_volume(CHUNK, chunk=(16, 16, 16))}, codec="none")


@pytest.mark.parametrize("kept", [False, True], ids=["made", "kept"])
@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [
        ("bytes=0-0", 0, 0),
        ("bytes=2-9", 2, 9),
        ("bytes=100-", 100, N - 1),
        ("bytes=-7", N - 7, N - 1),
        (f"bytes=-{N + 1}", 0, N - 1),
        (f"bytes=8000-{N + 500}", 8000, N - 1),
        ("bytes=8000-99999999999999999999999999", 8000, N - 1),
        ("BYTES = 3 - 5", 3, 5),
    ],
)
def test_the_bytes_asked_for_are_sent(server, kept, asked, first, last):
    if kept:
        ask(server, PATH)
    status, headers, body = ask(server, PATH, headers={"Range": asked})
    assert status == 206
    assert headers["content-range"] == f"bytes {first}-{last}/{N}"
    assert body == BODY[first : last + 1]
    assert headers["etag"] == ask(server, PATH)[1]["etag"]
    assert "Content-Range" in headers["access-control-expose-headers"]


@pytest.mark.parametrize("asked", [f"bytes={N}-", f"bytes={N}-{N + 5}", "bytes=-0", "bytes=99999999999999999999999-"])
def test_bytes_that_are_not_there_are_416_with_the_length(server, asked):
    status, headers, body = ask(server, PATH, headers={"Range": asked})
    assert (status, body) == (416, b"")
    assert headers["content-range"] == f"bytes */{N}"


@pytest.mark.parametrize("asked", ["bytes=5-2", "bytes=-", "bytes=a-b", "rows=1-2", "bytes=0-1,4-5", "bytes", ""])
def test_what_is_not_one_range_of_bytes_gets_the_whole(server, asked):
    status, headers, body = ask(server, PATH, headers={"Range": asked})
    assert (status, body) == (200, BODY)
    assert headers["accept-ranges"] == "bytes"


def test_if_range_sends_the_whole_of_another_version(server):
    etag = ask(server, PATH)[1]["etag"]
    assert ask(server, PATH, headers={"Range": "bytes=0-1", "If-Range": etag})[0] == 206
    for other in ('"other"', f"W/{etag}", "Tue, 01 Dec 2026 00:00:00 GMT"):
        assert ask(server, PATH, headers={"Range": "bytes=0-1", "If-Range": other})[0] == 200


def test_a_client_that_has_the_chunk_gets_304_whatever_range_it_asks_for(server):
    etag = ask(server, PATH)[1]["etag"]
    assert ask(server, PATH, headers={"Range": "bytes=0-1", "If-None-Match": etag})[0] == 304


@pytest.mark.parametrize("path", ["/a/zarr2/.zattrs", "/a/zarr3/zarr.json", "/a/n5/attributes.json"])
def test_metadata_has_ranges_too(server, path):
    whole = ask(server, path)[2]
    status, headers, body = ask(server, path, headers={"Range": "bytes=-20"})
    assert (status, body) == (206, whole[-20:])
    assert headers["content-type"] == "application/json"


def test_head_says_the_length_of_a_body_that_is_kept_and_ignores_ranges(serve):
    computed = []

    @dataclasses.dataclass(frozen=True)
    class Counts(Op):
        def apply(self, block):
            computed.append(1)
            return block

    server = serve({"a": Pipeline(array_volume(CHUNK, chunk=(16, 16, 16)), [Counts()])}, codec="none")
    status, headers, _ = ask(server, PATH, method="HEAD")
    assert (status, computed) == (200, [])
    assert headers["accept-ranges"] == "bytes"
    ask(server, PATH)
    status, headers, body = ask(server, PATH, method="HEAD", headers={"Range": "bytes=0-1"})
    assert (status, headers["content-length"], body) == (200, str(N), b"")
    assert len(computed) == 1


def test_head_of_metadata_says_its_length(server):
    whole = ask(server, "/a/zarr2/.zattrs")[2]
    status, headers, body = ask(server, "/a/zarr2/.zattrs", method="HEAD")
    assert (status, headers["content-length"], body) == (200, str(len(whole)), b"")
