"""Session files: what they mean, and errors that name the key, the line and what is accepted."""

from __future__ import annotations

import textwrap

import pytest

from chunkloom.chain.spec import PipelineSpec
from chunkloom.config.yaml import ExtraLayer, load_config, parse_config
from chunkloom.errors import ConfigError

EXAMPLE = """\
data_path: /data/cell.zarr/em
charge_group: lab
models:
  mito: {type: script, script_path: /models/mito.py}
  er:   {type: huggingface, repo: cellmap/er, revision: 0f3c}
json_data:
  input_norm: [{name: MinMaxNormalizer}]
  postprocess: []
"""

TASK = """\
data_path: /data/cell.zarr/em
output_path: /out/pred.zarr
task_name: mito_run1
charge_group: lab
queue: gpu
workers: 4
cpu_workers: 8
track_progress: true
tmp_dir: /scratch/progress
models: [{name: mito, type: script, script_path: /models/mito.py}]
output_channels: {affs: [0, 1, 2], mask: 3}
bounding_boxes: [{offset: [0, 0, 0], shape: [8000, 8000, 8000]}]
"""


def parsed(text):
    return parse_config(textwrap.dedent(text), "c.yaml")


def test_a_session():
    config = parsed(EXAMPLE)
    assert (config.data_path, config.charge_group, config.queue) == ("/data/cell.zarr/em", "lab", None)
    assert [entry.to_dict() for entry in config.models] == [
        {"type": "script", "name": "mito", "script_path": "/models/mito.py"},
        {"type": "huggingface", "name": "er", "repo": "cellmap/er", "revision": "0f3c"},
    ]
    assert config.chain == PipelineSpec.from_steps_data([{"name": "MinMaxNormalizer"}], [])
    assert (config.wrap_raw, config.resample, config.extra_layers, config.warnings) == (True, None, (), ())


def test_a_blockwise_task():
    config = parsed(TASK)
    assert [entry.name for entry in config.models] == ["mito"]
    assert config.chain is None
    assert config.blockwise == {
        "output_path": "/out/pred.zarr",
        "task_name": "mito_run1",
        "workers": 4,
        "cpu_workers": 8,
        "track_progress": True,
        "tmp_dir": "/scratch/progress",
        "output_channels": {"affs": [0, 1, 2], "mask": 3},
        "bounding_boxes": [{"offset": [0, 0, 0], "shape": [8000, 8000, 8000]}],
    }


def test_models_may_be_listed_without_names_or_left_out():
    config = parsed("data_path: d\nmodels:\n  - {type: onnx, path: a.onnx}\n  - {type: onnx, path: b.onnx, name: b}\n")
    assert [entry.name for entry in config.models] == [None, "b"]
    for text in ("", "models:", "models: []", "models: {}"):
        assert parsed(f"data_path: d\n{text}\n").models == ()


def test_entry_keys_that_are_no_parameters():
    (entry,) = parsed("data_path: d\nmodels: {m: {type: onnx, path: a, resample: true, env: gpu}}").models
    assert (entry.resample, entry.env, entry.parameters) == (True, "gpu", {"path": "a"})


def test_extra_layers():
    config = parsed(
        """\
        data_path: d
        wrap_raw: false
        extra_layers:
          - {name: gt, path: /gt.zarr, layer_type: segmentation, disable_meshes: true}
          - {name: lm, path: /lm.n5, layer_type: image, shader: "void main() {}", blend: additive}
        """
    )
    assert config.wrap_raw is False
    assert config.extra_layers == (
        ExtraLayer("gt", "/gt.zarr", "segmentation", None, "default", True),
        ExtraLayer("lm", "/lm.n5", "image", "void main() {}", "additive", False),
    )


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("json_data: {input_norm: {MinMaxNormalizer: {min_value: 1}}, postprocess: {}}", {"min_value": 1}),
        ("json_data: {input_norm: {MinMaxNormalizer: }}", {}),
        ("json_data: {input_norm: [{name: MinMaxNormalizer, min_value: '1'}]}", {"min_value": "1"}),
        ('json_data: \'{"input_norm": [{"name": "MinMaxNormalizer"}]}\'', {}),
    ],
    ids=["older", "older-without-parameters", "text-values", "json-text"],
)
def test_chains_in_every_form(text, step):
    assert parsed(f"data_path: d\n{text}").chain.input_norm == [{"name": "MinMaxNormalizer", **step}]


def test_a_step_that_is_no_more_is_left_out_of_an_older_chain_with_a_warning():
    config = parsed("data_path: d\njson_data:\n  input_norm: {}\n  postprocess:\n    CustomCode: {code: x}\n")
    assert config.chain == PipelineSpec()
    assert "line 5" in config.warnings[0]
    assert "CustomCode" in config.warnings[0]


def test_numbers_where_text_is_meant():
    config = parsed("data_path: d\ncharge_group: 123\nwalltime: 8:00\n")
    assert (config.charge_group, config.walltime) == ("123", "480")  # minutes, as YAML reads it and schedulers take it


def test_keys_that_mean_nothing_are_passed_over_with_a_warning():
    (warning,) = parsed("data_path: d\nmodelz: {}\n").warnings
    assert "c.yaml, line 2: 'modelz'" in warning
    assert "'models'" in warning


def test_a_key_that_stands_twice_is_a_warning():
    (warning,) = parsed("data_path: d\nqueue: a\nqueue: b\n").warnings
    assert "queue stands on lines 2 and 3" in warning


BAD = {
    "nothing": ("", ["holds nothing"]),
    "list": ("- a\n", ["holds list"]),
    "no-yaml": ("data_path: [\n", ["line 2", "not YAML"]),
    "tab": ("a:\n\tb: 1\n", ["line 2", "not YAML"]),
    "no-data": ("data_pth: d\n", ["data_path is missing", "data_pth"]),
    "data-number": ("data_path: 3\n", ["line 1", "data_path", "3"]),
    "data-empty": ("data_path: ''\n", ["line 1", "data_path"]),
    "models-text": ("data_path: d\nmodels: m\n", ["line 2", "models"]),
    "model-text": ("data_path: d\nmodels:\n  m: x.py\n", ["line 3", "models.m"]),
    "no-type": ("data_path: d\nmodels:\n  m:\n    path: x\n", ["line 3", "models.m", "--list-types"]),
    "type-number": ("data_path: d\nmodels:\n  m:\n    type: 3\n", ["line 4", "models.m.type"]),
    "names-twice": (
        "data_path: d\nmodels:\n- {name: a, type: x}\n- {name: a, type: x}\n",
        ["line 4", "models[1]", "'a'"],
    ),
    "resample": (
        "data_path: d\nmodels:\n  m: {type: x, resample: 1}\n",
        ["line 3", "models.m.resample", "true or false"],
    ),
    "wrap-raw": ("data_path: d\nwrap_raw: yes please\n", ["line 2", "wrap_raw", "true or false"]),
    "queue": ("data_path: d\nqueue: [a]\n", ["line 2", "queue"]),
    "chain-number": ("data_path: d\njson_data: 3\n", ["line 2", "json_data"]),
    "step": (
        "data_path: d\njson_data:\n  input_norm:\n  - {name: MinMaxNormalizer}\n  - {name: MinMaxNormaliser}\n",
        ["line 5", "json_data.input_norm[1]", "MinMaxNormalizer"],
    ),
    "parameter": (
        "data_path: d\njson_data:\n  postprocess:\n  - name: ThresholdPostprocessor\n    treshold: 1\n",
        ["line 4", "json_data.postprocess[0]", "'threshold'"],
    ),
    "value": (
        "data_path: d\njson_data:\n  input_norm: {MinMaxNormalizer: {min_value: low}}\n",
        ["line 3", "MinMaxNormalizer", "min_value"],
    ),
    "bomb": ("data_path: d\njson_data: {input_norm: [{name: LambdaNormalizer, expression: 9**9**9}]}\n", ["line 2"]),
    "layers": ("data_path: d\nextra_layers: {a: b}\n", ["line 2", "extra_layers"]),
    "layer-key": (
        "data_path: d\nextra_layers:\n- name: a\n  path: p\n  layer_type: image\n  blnd: x\n",
        ["line 6", "extra_layers[0].blnd", "'blend'"],
    ),
    "layer-type": (
        "data_path: d\nextra_layers:\n- {name: a, path: p, layer_type: labels}\n",
        ["line 3", "layer_type", "segmentation"],
    ),
    "layer-path": ("data_path: d\nextra_layers:\n- {name: a, layer_type: image}\n", ["line 3", "path"]),
    "layers-twice": (
        "data_path: d\nextra_layers:\n" + "- {name: a, path: p, layer_type: image}\n" * 2,
        ["line 4", "'a'"],
    ),
    "object": ("data_path: !!python/object/apply:os.system [true]\n", ["line 1", "not YAML"]),
    "aliases": (
        "data_path: d\na: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
        ["more than"],
    ),
    "itself": ("data_path: d\na: &a [*a]\n", ["holds itself"]),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_named_with_its_line(case):
    text, words = BAD[case]
    with pytest.raises(ConfigError) as raised:
        parse_config(text, "c.yaml")
    message = str(raised.value)
    assert message.startswith("c.yaml")
    for word in words:
        assert word in message


@pytest.mark.parametrize("path", [3, None, ["a"]])
def test_a_path_is_text_or_a_path(path):
    with pytest.raises(ConfigError, match="path"):
        load_config(path)


def test_files(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing\.yaml: cannot be read"):
        load_config(tmp_path / "nothing.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path)
    (tmp_path / "large.yaml").write_text("a: " + "x" * (1 << 20))
    with pytest.raises(ConfigError, match="larger than"):
        load_config(tmp_path / "large.yaml")
    (tmp_path / "c.yaml").write_text(EXAMPLE)
    assert load_config(str(tmp_path / "c.yaml")).charge_group == "lab"
