"""Each kind of model served tile by tile is one forward of the same network over the whole padded volume."""

from __future__ import annotations

import base64
import importlib.metadata
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from chunkloom import array_volume
from chunkloom.chain.spec import PipelineSpec
from chunkloom.engine.cache import ChunkCache
from chunkloom.errors import MissingExtraError, ModelError, ParameterError
from chunkloom.inference.op import predict
from chunkloom.inference.runner import ModelRunner
from chunkloom.models.registry import build_model, parse_model

torch = pytest.importorskip("torch", reason="needs the torch extra")
from models import local_hub, made  # noqa: E402

NORM = PipelineSpec.from_json_data({"input_norm": [{"name": "MinMaxNormalizer"}], "postprocess": []})
DATA = np.random.default_rng(11).integers(0, 255, (23, 37, 41)).astype(np.uint8)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    pytest.importorskip("huggingface_hub", reason="needs the huggingface extra")
    from huggingface_hub import constants

    served = local_hub.LocalHub(tmp_path / "hub")
    made.cellmap_export(_folder(tmp_path / "hub" / "owner" / "made"), made.network())
    monkeypatch.setattr(constants, "ENDPOINT", served.url)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", served.url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr("huggingface_hub.file_download.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    yield served
    served.shutdown()
    served.server_close()


def _folder(path):
    path.mkdir(parents=True)
    return path


def entry_of(kind, folder):
    """The entry of `made.network()` as each kind keeps it."""
    model = made.network()
    if kind == "script":
        return {"type": kind, "script_path": str(made.script(folder))}
    if kind == "onnx":
        made.card(folder, made.onnx(folder, model).name)
        return {"type": kind, "path": str(folder)}
    if kind == "torchscript":
        made.card(folder, made.torchscript(folder, model).name)
        return {"type": kind, "path": str(folder)}
    if kind == "exported":
        torch.export.save(torch.export.export(model, made.example()), str(folder / "model.pt2"))
        made.card(folder, "model.pt2")
        return {"type": kind, "path": str(folder)}
    if kind == "fly":
        sizes = {"input_size": list(made.INPUT), "output_size": list(made.OUTPUT)}
        path = made.torchscript(folder, model)
        return {"type": kind, "checkpoint_path": str(path), "channels": ["a", "b"], "input_voxel_size": 8, **sizes}
    if kind == "cellmap":
        return {"type": kind, "folder_path": str(made.cellmap_export(folder / "export", model))}
    if kind == "huggingface":
        return {"type": kind, "repo": "owner/made", "revision": "v1"}
    assert kind == "finetune"
    # The base has other weights; those of the network are put into it.
    torch.save(model.state_dict(), folder / "full.pt")
    base = {"type": "script", "script_path": str(made.script(folder, seed=9))}
    return {"type": kind, "weights_path": str(folder / "full.pt"), "base_model": base}


def whole(model, array, tile=made.OUTPUT):
    """One forward over the whole array: normalized, then padded with 0 to whole tiles and by the context."""
    up = [-(-n // t) * t - n for n, t in zip(array.shape, tile, strict=True)]
    padded = np.pad(array.astype(np.float32) / 255, [(c, c + u) for c, u in zip(made.CONTEXT, up, strict=True)])
    with torch.inference_mode():
        out = model(torch.from_numpy(padded)[None, None])[0].numpy()
    return out[:, : array.shape[0], : array.shape[1], : array.shape[2]]


def prediction(entry, array, **kw):
    runner = ModelRunner(build_model(entry).load())
    runner.warm_up()
    return predict(array_volume(array, **kw), runner, NORM, cache=ChunkCache())


KINDS = ["script", "onnx", "torchscript", "exported", "fly", "cellmap", "huggingface", "finetune"]


@pytest.mark.parametrize("kind", KINDS)
def test_tiled_equals_whole(kind, tmp_path, request):
    if kind == "huggingface":
        request.getfixturevalue("hub")
    # Data of another voxel size than the model's, with a corner below 0, and sizes that are no multiple of a tile's.
    volume = prediction(entry_of(kind, tmp_path), DATA, voxel_size_nm=(5.24, 4, 4), corner_nm=(-4, -4, -4))
    assert volume.levels[0].shape == (2, *DATA.shape)
    assert volume.levels[0].grid.corner_nm == (-4, -4, -4)
    assert np.abs(volume.read() - whole(made.network(), DATA)).max() <= 1e-5
    one = DATA[:9, :15, :16]
    small = prediction(entry_of(kind, tmp_path), one, voxel_size_nm=(8, 8, 8))
    assert np.abs(small.read() - whole(made.network(), one)).max() <= 1e-5


def block():
    return np.random.default_rng(2).random((1, *made.INPUT), dtype=np.float32)


def test_a_model_without_channel_axes_is_served_with_one_channel(tmp_path):
    pool = torch.nn.AvgPool3d((3, 5, 7), stride=1)  # (1, z, y, x) in and out
    torch.jit.trace(pool, (torch.zeros(1, *made.INPUT),)).save(str(tmp_path / "model.ts"))
    made.card(tmp_path, "model.ts", input_axes="zyx", channels=["mean"])
    volume = prediction({"type": "torchscript", "path": str(tmp_path)}, DATA, voxel_size_nm=(8, 8, 8))
    assert volume.levels[0].shape == (1, *DATA.shape)
    padded = torch.from_numpy(np.pad(DATA.astype(np.float32) / 255, [(1, 20), (2, 20), (3, 20)]))[None]
    assert np.abs(volume.read() - pool(padded).numpy()[:, :23, :37, :41]).max() <= 1e-5


@pytest.mark.parametrize(("element", "fits"), [("float16", True), ("double", True), ("uint8", False)])
def test_onnx_inputs_of_other_types_are_cast_or_refused(element, fits, tmp_path):
    onnx = pytest.importorskip("onnx")
    kind = {"float16": onnx.TensorProto.FLOAT16, "double": onnx.TensorProto.DOUBLE, "uint8": onnx.TensorProto.UINT8}
    given = onnx.helper.make_tensor_value_info("x", kind[element], [1, *made.INPUT])
    out = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, *made.INPUT])
    node = onnx.helper.make_node("Cast", ["x"], ["y"], to=onnx.TensorProto.FLOAT)
    graph = onnx.helper.make_graph([node], "g", [given], [out])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(tmp_path / "model.onnx"))
    made.card(tmp_path, "model.onnx", output_shape=made.INPUT, channels=["a"])
    if fits:
        loaded = build_model({"type": "onnx", "path": str(tmp_path)}).load()
        assert np.abs(loaded.forward(block()) - block()).max() < 1e-3
    else:
        with pytest.raises(ModelError, match=r"'x' is tensor\(uint8\).*float input"):
            build_model({"type": "onnx", "path": str(tmp_path)}).load()


def test_a_hub_model_is_read_from_the_cache_without_the_hub(hub, tmp_path, monkeypatch):
    entry = {"type": "huggingface", "repo": "owner/made", "revision": "v1"}
    first = build_model(entry).load()
    asked = len(hub.asked)
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    second = build_model(entry).load()
    assert len(hub.asked) == asked
    assert second.version == first.version
    with pytest.raises(ModelError, match="not in the cache"):
        build_model({**entry, "repo": "owner/other"}).load()


@pytest.mark.parametrize(
    ("change", "words"), [({"repo": "owner/none"}, "not found"), ({"revision": "v2"}, "no such revision")]
)
def test_what_a_hub_lacks_is_said(hub, change, words):
    with pytest.raises(ModelError, match=words):
        build_model({"type": "huggingface", "repo": "owner/made", **change}).load()


def folded(model, folder, layers, scaling):
    """The model with the adapter's change added, layer by layer, by matrix products."""
    from safetensors.torch import load_file

    tensors = load_file(str(folder / "adapter_model.safetensors"))
    for name in layers:
        a, b = (tensors[f"base_model.model.{name}.lora_{half}.weight"] for half in "AB")
        weight = model.get_submodule(name).weight
        weight.data += (scaling * b.flatten(1) @ a.flatten(1)).view_as(weight)
    return model


@pytest.mark.parametrize("kind", ["script", "torchscript", "cellmap", "exported"])
def test_an_adapter_is_folded_into_its_base(kind, tmp_path):
    model = made.network()
    folder = made.adapter(tmp_path / "adapter", {"0": model[0], "3": model[3]})
    text = base64.b64encode(json.dumps(entry_of(kind, tmp_path)).encode()).decode()
    loaded = build_model({"type": "finetune", "lora_adapter_path": str(folder), "base_model": text}).load()
    expected = folded(made.network(), folder, ["0", "3"], 6 / 2)(torch.from_numpy(block())[None])[0]
    assert np.abs(loaded.forward(block()) - expected.detach().numpy()).max() <= 1e-5
    assert loaded.name == "adapter"


def test_a_finetune_of_a_finetune_adds_both(tmp_path):
    model = made.network()
    one = made.adapter(tmp_path / "one", {"0": model[0]})
    two = made.adapter(tmp_path / "two", {"0": model[0]}, seed=8)
    base = {"type": "finetune", "lora_adapter_path": str(one), "base_model": entry_of("script", tmp_path)}
    loaded = build_model({"type": "finetune", "lora_adapter_path": str(two), "base_model": base}).load()
    expected = folded(folded(made.network(), one, ["0"], 3), two, ["0"], 3)(torch.from_numpy(block())[None])[0]
    assert np.abs(loaded.forward(block()) - expected.detach().numpy()).max() <= 1e-5


def test_an_adapter_of_another_model_is_refused(tmp_path):
    folder = made.adapter(tmp_path / "adapter", {"7": made.network()[0]})
    entry = {"type": "finetune", "lora_adapter_path": str(folder), "base_model": entry_of("script", tmp_path)}
    with pytest.raises(ModelError, match="layer '7'"):
        build_model(entry).load()


def test_full_weights_must_fit(tmp_path):
    torch.save({"0.weight": torch.zeros(4, 1, 3, 3, 3)}, tmp_path / "full.pt")
    entry = {"type": "finetune", "weights_path": str(tmp_path / "full.pt"), "base_model": entry_of("script", tmp_path)}
    with pytest.raises(ModelError, match="does not fit"):
        build_model(entry).load()


def test_weights_that_run_code_are_not_loaded(tmp_path):
    torch.save(made.network(), tmp_path / "whole.pt")  # a pickled module
    entry = {"type": "fly", "checkpoint_path": str(tmp_path / "whole.pt"), "channels": "a", "input_voxel_size": 8}
    with pytest.raises(ModelError, match="ALLOW_PICKLE"):
        build_model(entry).load()


def test_a_third_party_network_gives_what_it_gives_when_called(tmp_path):
    try:
        files = importlib.metadata.files("deepbet") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("needs deepbet, which ships a 3-D U-Net")
    path = next(p for p in files if p.name == "model.pt").locate()
    shape = (32, 32, 32)
    made.card(tmp_path, "model.pt", input_shape=shape, output_shape=shape, channels=["background", "brain"])
    (tmp_path / "model.pt").write_bytes(Path(path).read_bytes())
    volume = prediction({"type": "torchscript", "path": str(tmp_path)}, DATA, voxel_size_nm=(8, 8, 8))
    given = np.zeros((32, 64, 64), np.float32)
    given[:23, :37, :41] = DATA.astype(np.float32) / 255
    direct = torch.jit.load(str(path), map_location="cpu").eval()
    with torch.inference_mode():
        tile = torch.from_numpy(np.ascontiguousarray(given[:32, 32:64, :32]))
        expected = direct(tile[None, None])[0].numpy()
    assert np.abs(volume.read()[:, :, 32:, :32] - expected[:, :23, :5]).max() <= 1e-5


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"type": "fly", "checkpoint_path": "a", "channels": "a"}, "misses input_voxel_size"),
        ({"type": "fly", "checkpoint_path": "a", "channels": "a", "input_voxel_size": "8,x,8"}, "expected a number"),
        ({"type": "finetune", "base_model": "{}"}, "exactly one"),
        ({"type": "finetune", "weights_path": "a", "base_model": "%%"}, "base64"),
        ({"type": "dacapo", "run_name": "a", "iteration": "1.5"}, "whole number"),
        ({"type": "cellpose", "voxel_size": 8, "output": "all"}, "cellprob"),
        ({"type": "onnx", "pth": "a"}, "did you mean 'path'"),
    ],
)
def test_a_wrong_entry_is_said_in_one_line(entry, words):
    with pytest.raises((ParameterError, ModelError), match=words) as caught:
        build_model(entry)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("entry", "extra"),
    [
        ({"type": "cellpose", "voxel_size": 8}, "cellpose"),
        ({"type": "dacapo", "run_name": "a", "iteration": 1}, "dacapo"),
        ({"type": "tensorflow", "path": ".", "input_voxel_size": 8, "input_size": 8}, "tensorflow"),
        ({"type": "huggingface", "repo": "a/b"}, "huggingface"),
        ({"type": "torchscript", "path": "."}, "torch"),
    ],
)
def test_a_missing_package_is_one_line_with_the_command(entry, extra, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "saved_model.pb").touch()
    (tmp_path / "model.ts").touch()
    made.card(tmp_path, "model.ts")
    for name in ("cellpose", "dacapo.experiments", "dacapo", "tensorflow", "huggingface_hub", "torch"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'chunkloom\[{extra}\]'$"):
        build_model(entry).load()


def test_a_file_or_folder_is_of_the_kind_it_holds(tmp_path):
    for kind in ("torchscript", "exported", "cellmap", "onnx"):
        entry = entry_of(kind, _folder(tmp_path / kind))
        where = entry.get("path") or entry["folder_path"]
        assert parse_model(where).to_dict()["type"] == kind


def test_reading_the_kinds_imports_no_framework():
    code = "import sys; from chunkloom.models.registry import models_schema; models_schema()\n"
    code += "print(sorted({'torch', 'onnxruntime', 'huggingface_hub', 'yaml'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_zip_that_reaches_out_of_itself_stays_inside(tmp_path, monkeypatch):
    monkeypatch.setenv("CHUNKLOOM_HOME", str(tmp_path / "home"))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as made_zip:
        made_zip.writestr("../../../evil.txt", "x")
    with pytest.raises(ModelError, match="has none of"):
        build_model({"type": "bioimage", "model": str(tmp_path / "a.zip"), "voxel_size": 8}).load()
    assert not list(tmp_path.glob("evil.txt"))
    assert not list(tmp_path.parent.glob("evil.txt"))
