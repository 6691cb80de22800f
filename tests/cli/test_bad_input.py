"""Bad input is one line on stderr, exit 2, and nothing left behind."""

from __future__ import annotations

import json
import os
import socket

import pytest


@pytest.fixture
def raw(tmp_path):
    """A small zarr volume."""
    import zarr

    path = tmp_path / "raw.zarr"
    array = zarr.create_array(path, shape=(20, 20, 20), chunks=(10, 10, 10), dtype="uint8", zarr_format=2)
    array[:] = 1
    return path


def model(folder, **change):
    """A model.json over an ONNX file of one 1 x 1 x 1 convolution, with members changed."""
    onnx = pytest.importorskip("onnx", reason="needs the train extra")
    from onnx import TensorProto, helper

    folder.mkdir()
    value = helper.make_tensor("w", TensorProto.FLOAT, (1, 1, 1, 1, 1), [1.0])
    node = helper.make_node("Conv", ["raw", "w"], ["out"])
    shape = [1, 1, "z", "y", "x"]
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("raw", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, shape)],
        [value],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, folder / "model.onnx")
    card = {
        "format": "chunkloom-model/1",
        "name": "one",
        "weights": "model.onnx",
        "input_voxel_size_nm": [1, 1, 1],
        "output_voxel_size_nm": [1, 1, 1],
        "input_shape": [8, 8, 8],
        "output_shape": [8, 8, 8],
        "channels": ["a"],
        **change,
    }
    (folder / "model.json").write_text(json.dumps(card))
    return folder


def refused(done, *words):
    assert done.returncode == 2, done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in lines[0]


def test_no_such_path(chunkloom, tmp_path):
    refused(chunkloom("serve", tmp_path / "nothing.zarr"), "nothing.zarr")
    refused(chunkloom("inspect", tmp_path / "nothing.zarr"), "nothing.zarr")
    refused(chunkloom("demo", "--once", "--data", tmp_path / "nothing.zarr"), "nothing.zarr")


def test_not_a_volume(chunkloom, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").write_text("hello")
    refused(chunkloom("serve", tmp_path / "folder"), "folder")


def test_no_source(chunkloom):
    refused(chunkloom("serve"), "no source")


def test_unknown_op_with_the_nearest(chunkloom, raw):
    refused(chunkloom("serve", raw, "--op", "treshold:low=1"), "treshold", "threshold")


def test_unknown_parameter_with_the_nearest(chunkloom, raw):
    refused(chunkloom("serve", raw, "--op", "threshold:lo=1"), "'lo'", "low")


def test_unreadable_model(chunkloom, raw, tmp_path):
    broken = model(tmp_path / "broken")
    (broken / "model.onnx").write_bytes(b"not a model")
    refused(chunkloom("serve", raw, "--model", broken), "model.onnx", "cannot load")
    refused(chunkloom("serve", raw, "--model", tmp_path / "none.onnx"), "none.onnx")
    (tmp_path / "bad.py").write_text("model = 1/0\n")
    refused(chunkloom("infer", "script", "--script-path", tmp_path / "bad.py", "-d", raw), "bad.py, line 1", "division")


def test_a_script_that_exits_is_named(chunkloom, raw, tmp_path):
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(3)\n")
    refused(
        chunkloom("infer", "script", "--script-path", tmp_path / "exits.py", "-d", raw), "exits.py, line 2", "sys.exit"
    )


def test_a_declared_shape_that_is_wrong(chunkloom, raw, tmp_path):
    wrong = model(tmp_path / "wrong", output_shape=[4, 4, 4])
    refused(chunkloom("serve", raw, "--model", wrong), "declares an output of shape", "(1, 8, 8, 8)")
    channels = model(tmp_path / "channels", channels=["a", "b"])
    refused(chunkloom("infer", "onnx", "--path", channels, "-d", raw), "declares an output of shape")


def test_a_missing_option_is_named(chunkloom, raw):
    refused(chunkloom("infer", "onnx", "-d", raw), "--path")
    refused(chunkloom("infer", "script", "-d", raw), "--script-path")


def test_unknown_kind_of_model_with_the_nearest(chunkloom, raw):
    refused(chunkloom("infer", "onxx", "-d", raw), "onxx", "onnx")


def test_a_taken_port(chunkloom, raw):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused(chunkloom("serve", raw, "--port", port), str(port))


def test_a_ready_file_that_cannot_be_written(chunkloom, raw, tmp_path):
    refused(chunkloom("serve", raw, "--ready-file", tmp_path / "none" / "ready.json"), "ready.json")


def test_an_unknown_model_name(chunkloom, raw):
    refused(chunkloom("serve", raw, "--model", "fibsem-membrain"), "fibsem-membrain", "fibsem-membrane")


def test_a_value_of_the_wrong_type(chunkloom, raw):
    refused(chunkloom("serve", raw, "--op", "threshold:low=high"), "threshold", "low")
    refused(chunkloom("serve", raw, "--op", "cast:dtype=uint9"), "uint9")


@pytest.mark.parametrize(("dtype", "shape", "reason"), [("c8", (8, 8, 8), "complex64"), ("u1", (0, 8, 8), "no voxels")])
def test_what_is_no_image_is_refused(chunkloom, tmp_path, dtype, shape, reason):
    import zarr

    zarr.create_array(tmp_path / "a.zarr", shape=shape, chunks=(8, 8, 8), dtype=dtype, zarr_format=2)
    refused(chunkloom("serve", tmp_path / "a.zarr"), reason)


def test_an_unknown_log_level(chunkloom, raw):
    refused_with_usage(chunkloom("serve", raw, "--log-level", "nope"), "nope", "warning")


def refused_with_usage(done, *words):
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


SCRIPT = """
import torch
model = torch.nn.{module}
input_voxel_size = output_voxel_size = (1, 1, 1)
input_size = output_size = ({size}, {size}, {size})
output_channels = 1
"""


@pytest.mark.parametrize(
    ("module", "size", "words"),
    [
        ("LazyConv3d(1, 1)", 8, ("lazy",)),
        ("Conv3d(1, 1, 1)", 10**7, ("script", "(1, 10000000, 10000000, 10000000)")),
    ],
    ids=["a module without weights", "a shape beyond any memory"],
)
def test_a_script_that_cannot_run(chunkloom, raw, tmp_path, module, size, words):
    pytest.importorskip("torch", reason="needs the torch extra")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(module=module, size=size))
    refused(chunkloom("infer", "script", "--script-path", script, "-d", raw, "--once"), *words)


def test_a_forward_that_exits(chunkloom, raw, tmp_path):
    pytest.importorskip("torch", reason="needs the torch extra")
    script = tmp_path / "script.py"
    script.write_text(
        SCRIPT.format(module="Identity()", size=8)
        + "class Exits(torch.nn.Module):\n    def forward(self, x):\n        raise SystemExit(3)\nmodel = Exits()\n"
    )
    refused(chunkloom("infer", "script", "--script-path", script, "-d", raw, "--once"), "its forward raises SystemExit")


@pytest.mark.parametrize("kind", ["a pipe", "a link", "a folder"])
def test_a_ready_file_that_is_no_plain_file(chunkloom, raw, tmp_path, kind):
    ready = tmp_path / "ready.json"
    if kind == "a pipe":
        os.mkfifo(ready)
    elif kind == "a link":
        ready.symlink_to(tmp_path / "elsewhere.json")
    else:
        ready.mkdir()
    refused(chunkloom("serve", raw, "--ready-file", ready), "no plain file")
    assert os.path.lexists(ready)
    assert not (tmp_path / "elsewhere.json").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", ""], "no address to listen on"),
        (["--name", ""], "'' cannot be a volume's name"),
        (["--chunk", "100000,100000,100000"], "GiB each"),
        (["--op", "threshold:low=nan"], "expected a number"),
        (["--op", "expression:expression=x[0]"], "shape"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_can_never_work_is_said_at_the_start(chunkloom, raw, words, said):
    refused(chunkloom("serve", raw, *words), said)


def test_inspect_and_serve_refuse_a_compressor_that_nobody_knows_alike(chunkloom, raw):
    path = raw / ".zarray"
    described = json.loads(path.read_text())
    path.write_text(json.dumps({**described, "compressor": {"id": "mystery"}}))
    for command in ("inspect", "serve"):
        refused(chunkloom(command, raw), "mystery")


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("resolution", [1e300, 8, 8]),
        ("size", [2**62, 1, 1]),
        ("voxel_offset", [2**62, 0, 0]),
        ("chunk_sizes", [[0, 1, 1]]),
    ],
)
def test_absurd_numbers_of_precomputed(chunkloom, tmp_path, member, value):
    scale = {"key": "s0", "size": [8, 8, 8], "resolution": [8, 8, 8], "voxel_offset": [0, 0, 0]}
    scale |= {"chunk_sizes": [[8, 8, 8]], "encoding": "raw", member: value}
    info = {"type": "image", "data_type": "uint8", "num_channels": 1, "scales": [scale]}
    (tmp_path / "info").write_text(json.dumps({"@type": "neuroglancer_multiscale_volume", **info}))
    refused(chunkloom("serve", f"precomputed://{tmp_path}"), member)
