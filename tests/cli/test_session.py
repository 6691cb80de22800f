"""`chunkloom yaml` and `cellmap_flow yaml` on the files that existing users have."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request

import numpy as np
import pytest

from chunkloom.models.modeljson import bundled_models

from .test_bad_input import model

NEWER = [sys.executable, "-m", "chunkloom"]
OLDER = [sys.executable, "-c", "from chunkloom.cli.older import main; main()"]


@pytest.fixture
def em(tmp_path):
    """A small volume of noise, 8 nm."""
    import zarr

    group = zarr.create_group(tmp_path / "cell.zarr", zarr_format=2)
    array = group.create_array("em", shape=(20, 20, 20), chunks=(10, 10, 10), dtype="uint8")
    array[:] = np.random.default_rng(1).integers(0, 255, (20, 20, 20))
    array.attrs.update({"resolution": [8, 8, 8], "offset": [-4, -4, -4]})
    labels = group.create_array("gt", shape=(20, 20, 20), chunks=(10, 10, 10), dtype="uint32")
    labels[5:9] = 7
    labels.attrs.update({"resolution": [8, 8, 8], "offset": [-4, -4, -4]})
    return tmp_path / "cell.zarr"


@pytest.fixture
def onnx_model(tmp_path):
    """A model that gives what it reads."""
    return model(tmp_path / "one", input_voxel_size_nm=[8, 8, 8], output_voxel_size_nm=[8, 8, 8])


@pytest.fixture
def session(tmp_path, em, onnx_model):
    """A file of two models, a chain and a further layer."""
    path = tmp_path / "session.yaml"
    path.write_text(
        f"""\
data_path: {em}/em
charge_group: lab
models:
  mito: {{type: ONNX, path: {onnx_model}}}
  the "er" (v2):
    type: onnx
    path: {onnx_model}
json_data:
  input_norm: [{{name: MinMaxNormalizer}}]
  postprocess: []
extra_layers:
  - {{name: ground truth, path: {em}/gt, layer_type: segmentation}}
"""
    )
    return path


def run(words, **more):
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=120, **more)


def test_a_session_is_served_and_shown(started, session, em):
    import zarr

    _process, ready = started("yaml", session, "--no-browser")
    urls = {volume["name"]: volume["urls"]["zarr2"] for volume in ready["volumes"]}
    assert list(urls) == ["raw", "mito", "the-er-v2", "ground-truth"]
    raw = zarr.open_array(em / "em", mode="r")[...]
    for name in ("raw", "mito", "the-er-v2"):
        found = zarr.open_array(f"{urls[name]}/s0", mode="r", zarr_format=2)[...]
        assert np.abs(found.reshape(raw.shape) - raw / 255).max() <= 1e-6  # the chain, and models that change nothing
    labels = zarr.open_array(f"{urls['ground-truth']}/s0", mode="r", zarr_format=2)[...]
    assert np.array_equal(labels, zarr.open_array(em / "gt", mode="r")[...])
    for name in ("mito", "the-er-v2"):
        with urllib.request.urlopen(f"{ready['url']}/__control__/model_info?model={name}") as answer:
            info = json.load(answer)
        assert (info["name"], info["chain_source"], info["models"]) == (name, "given", ["mito", "the-er-v2"])
    with urllib.request.urlopen(ready["viewer"]) as answer:
        assert answer.status == 200


def test_a_session_without_models_shows_the_data(chunkloom, em, tmp_path):
    (tmp_path / "s.yaml").write_text(f"data_path: {em}/em\nmodels: {{}}\n")
    done = chunkloom("yaml", tmp_path / "s.yaml", "--once")
    assert (done.returncode, "raw" in done.stdout) == (0, True), done.stderr


def test_raw_as_it_is_stored(chunkloom, session):
    session.write_text(session.read_text() + "wrap_raw: false\n")
    done = chunkloom("yaml", session, "--once")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^raw +\S+ +\S+ +\d+$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("words", [NEWER, OLDER], ids=["chunkloom", "cellmap_flow"])
def test_a_valid_file(session, words):
    done = run([*words, "yaml", session, "--validate-only"])
    assert done.returncode == 0, done.stderr
    assert "valid" in done.stdout
    assert 'mito: ONNX, the "er" (v2): onnx' in done.stdout


@pytest.mark.parametrize(
    ("words", "code"), [([sys.executable, "-m", "chunkloom"], 2), (OLDER, 1)], ids=["new", "older"]
)
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("type: ONNX", "type: onyx", ["line 4", "models.mito.type", "'onnx'"]),
        ("    path:", "    pth:", ["line 7", 'models.the "er" (v2).pth', "'path'"]),
        ("/em\n", "/nothing\n", ["line 1", "data_path", "nothing"]),
        ("MinMaxNormalizer", "MinMax", ["line 9", "input_norm[0]", "MinMaxNormalizer"]),
        ("/gt,", "/none,", ["line 12", "extra_layers[0].path", "none"]),
        ("/one}", "/two}", ["line 4", "models.mito.path", "two"]),
    ],
    ids=["type", "parameter", "data", "step", "layer", "file"],
)
def test_what_is_wrong_is_one_line(session, words, code, old, new, says):
    session.write_text(session.read_text().replace(old, new, 1))
    done = run([*words, "yaml", session, "--validate-only"])
    assert done.returncode == code
    line = done.stderr.strip().splitlines()[-1]
    assert "Traceback" not in done.stderr
    for word in says:
        assert word in line


def test_types_are_listed_with_their_parameters(chunkloom):
    from chunkloom.models.registry import describe_parameters, model_types

    for words in (["yaml", "--list-types"], ["models"]):
        done = chunkloom(*words)
        assert done.returncode == 0
        for kind, cls in model_types().items():
            _, _, block = f"\n{done.stdout}".partition(f"\n{kind}: ")
            for parameter in describe_parameters(cls):
                assert re.search(rf"^    {parameter.name}\b", block, re.MULTILINE), (kind, parameter.name)


def test_models_of_one_kind_and_bundled_ones(chunkloom):
    done = chunkloom("models", "ONNX")
    assert done.stdout.startswith("onnx: ")
    assert "script:" not in done.stdout
    assert f"Bundled models: {', '.join(bundled_models())}" in chunkloom("models").stdout
    assert chunkloom("models", "onyx").returncode == 2


def test_no_file(chunkloom):
    assert chunkloom("yaml").returncode == 2
    done = chunkloom("yaml", "nothing.yaml")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


SCRIPT = """
import numpy as np, torch
input_voxel_size = output_voxel_size = (8, 8, 8)
input_size, output_size = (24, 24, 24), (8, 8, 8)
output_channels, channels = 1, ["mito"]
model = torch.nn.Conv3d(1, 1, 17)
"""
SESSION = """\
data_path: {data}
charge_group: lab
models:
  mito: {{type: script, script_path: {folder}/mito.py}}
  er:   {{type: huggingface, repo: cellmap/er, revision: 0f3c}}
json_data:
  input_norm: [{{name: MinMaxNormalizer}}]
  postprocess: []
"""
TASK = """\
data_path: {data}
output_path: {folder}/pred.zarr
task_name: mito_run1
charge_group: lab
queue: gpu
workers: 4
cpu_workers: 8
track_progress: true
tmp_dir: {folder}/progress
models: [{{name: mito, type: script, script_path: {folder}/mito.py}}]
output_channels: {{affs: [0, 1, 2], mask: 3}}
bounding_boxes: [{{offset: [0, 0, 0], shape: [8000, 8000, 8000]}}]
"""


@pytest.fixture
def existing(tmp_path, em):
    """Files as existing users have them: ``existing(text) -> path``."""
    from chunkloom.models.registry import model_types

    (tmp_path / "mito.py").write_text(SCRIPT)

    def write(text):
        if "huggingface" not in model_types():
            text = re.sub(".*huggingface.*\n", "", text)
        (tmp_path / "existing.yaml").write_text(text.format(data=em / "em", folder=tmp_path))
        return tmp_path / "existing.yaml"

    return write


@pytest.mark.parametrize("words", [NEWER, OLDER], ids=["chunkloom", "cellmap_flow"])
@pytest.mark.parametrize("text", [SESSION, TASK], ids=["session", "task"])
def test_files_of_existing_users_are_valid(existing, words, text):
    done = run([*words, "yaml", existing(text), "--validate-only"])
    assert done.returncode == 0, done.stderr
    assert "mito: script" in done.stdout


def test_a_task_of_existing_users_is_served_too(existing):
    pytest.importorskip("torch", reason="needs the torch extra")
    done = run([*OLDER, "yaml", existing(TASK), "--once"])
    assert done.returncode == 0, done.stderr
    assert re.search(r"^mito +\S+ +\S+ +\d+$", done.stdout, re.MULTILINE)
    assert "for a blockwise run" in done.stderr
