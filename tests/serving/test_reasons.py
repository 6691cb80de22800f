"""What a client is told of a failure: op, level and voxels, and never a path of the server."""

from __future__ import annotations

import dataclasses
import logging

import pytest

from chunkloom import Op, Pipeline, array_volume, open_volume, ops
from chunkloom.serving.reasons import told

from .test_app import ARRAY, ask
from .test_passthrough import BLOSC, zarr2


@pytest.mark.parametrize("level", [0, 1])
def test_a_failing_op_is_named_with_level_and_voxels(serve, level):
    @dataclasses.dataclass(frozen=True)
    class Fails(Op):
        def apply(self, block):
            raise OSError("cannot open /home/somebody/weights.bin")

    server = serve({"a": Pipeline(array_volume(ARRAY, chunk=(16, 16, 16)), [ops.Invert(), Fails()])})
    status, _, body = ask(server, f"/a/zarr2/s{level}/1/0/0")
    text = body.decode()
    assert status == 500
    assert f"chunk a/{level}/1.0.0" in text
    assert "op 'Fails' failed at level 0, voxels " in text
    assert "OSError: cannot open" in text
    assert "somebody" not in text


@pytest.mark.parametrize("word", ["zarr2", "n5"])
@pytest.mark.parametrize("codec", [None, "none"], ids=["passed on", "encoded again"])
def test_a_broken_chunk_says_what_is_wrong_and_the_log_where(serve, tmp_path, caplog, codec, word):
    path = zarr2(tmp_path / "patient 4711" / "a.zarr", BLOSC)
    (path / "0/0/0").write_bytes(b"not blosc")
    server = serve({"em": Pipeline(open_volume(path))}, codec=codec)
    with caplog.at_level(logging.WARNING):
        status, _, body = ask(server, f"/em/{word}/s0/0/0/0")
    assert status == 500
    assert b"chunk em/0/0.0.0" in body
    assert b"damaged" in body or b"cannot be decoded" in body or b"9 bytes" in body
    assert b"4711" not in body
    assert str(tmp_path).encode() not in body
    assert "patient 4711" in caplog.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data/lab/em.zarr/0/0 is damaged", "em/0/0 is damaged"),
        ("/data/lab/.zattrs is gone", "em/.zattrs is gone"),
        ("[Errno 2] No such file: '/tmp/x/model.onnx'", "[Errno 2] No such file: '(a path)'"),
        ("C:\\Users\\me\\x.py failed", "(a path) failed"),
        ("cannot open '/data/my scans/patient 7'", "cannot open '(a path)'"),
        ("3/4 of them, and/or 1/2/3: fine", "3/4 of them, and/or 1/2/3: fine"),
        ("expected http://example.org/a/b", "expected http://example.org/a/b"),
    ],
)
def test_paths_are_left_out(text, expected):
    assert told(text, ["/data/lab/em.zarr"], "em") == expected
