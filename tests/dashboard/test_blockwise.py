"""A whole-volume run from the builder's pipeline: checked, written, submitted, and equal to what was shown."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from chunkloom import open_volume

MODEL = {"id": "m", "name": "fibsem-membrane", "params": {"type": "onnx", "path": "fibsem-membrane"}}


@pytest.fixture
def running(dashboard, shared, tmp_path):
    made = dashboard([shared / "data"])
    made.ask("/api/set-data", "POST", {"dataset_path": str(shared / "data/fibsem.zarr/raw")})
    made.ask("/api/blockwise-config", "POST", {"blockwise_tasks_dir": str(tmp_path / "tasks"), "nb_workers": 1})
    return made


@pytest.fixture
def pipeline(shared, tmp_path):
    box = {"offset": [-5, -5, -5], "shape": [240, 240, 240]}
    return {
        "inputs": [{"id": "i", "dataset_path": str(shared / "data/fibsem.zarr/raw"), "bounding_boxes": [box]}],
        "normalizers": [
            {"name": "MinMaxNormalizer", "params": {"min_value": 0, "max_value": 255}},
            {"name": "LambdaNormalizer", "params": {"expression": "x*2-1"}},
        ],
        "models": [MODEL],
        "postprocessors": [{"name": "SigmoidPostprocessor", "params": {}}],
        "outputs": [{"id": "o", "dataset_path": str(tmp_path / "out.zarr")}],
        "blockwise_config": {"tmp_dir": str(tmp_path / "tmp"), "nb_workers": 1},
        "edges": [],
    }


def ask(running, step, **body):
    return running.ask(f"/api/blockwise/{step}", "POST", body).json


@pytest.mark.parametrize("missing", ["inputs", "outputs", "models", "blockwise_config"])
def test_what_is_missing_is_named(running, pipeline, missing):
    assert ask(running, "validate", pipeline=pipeline)["valid"] is True
    answer = ask(running, "validate", pipeline={**pipeline, missing: []})
    assert answer["valid"] is False
    assert missing.rstrip("s").split("_")[0] in answer["error"]


def test_a_task_file_holds_the_pipeline_and_is_checked(running, pipeline, tmp_path):
    made = ask(running, "generate", pipeline=pipeline, job_name="my run!")
    assert made["success"] is True, made
    (path,) = made["task_paths"]
    assert Path(path).parent == tmp_path / "tasks"
    config = yaml.safe_load(Path(path).read_text())
    assert config["models"]["fibsem-membrane"] == MODEL["params"]
    assert config["json_data"]["postprocess"] == [{"name": "SigmoidPostprocessor"}]
    assert config["task_name"].startswith("my_run_")
    assert ask(running, "precheck", yaml_paths=[path])["success"] is True
    assert not (tmp_path / "out.zarr").exists()


def test_boxes_apart_have_a_file_each(running, pipeline):
    boxes = [{"offset": [0, 0, 0], "shape": [80, 80, 80]}, {"offset": [160, 0, 0], "shape": [80, 80, 80]}]
    pipeline["inputs"][0] |= {"bounding_boxes": boxes, "separate_bounding_boxes_zarrs": True}
    made = ask(running, "generate", pipeline=pipeline)
    configs = [yaml.safe_load(Path(path).read_text()) for path in made["task_paths"]]
    assert [config["output_path"].rpartition("/")[2] for config in configs] == ["box_1", "box_2"]
    assert [config["bounding_boxes"] for config in configs] == [[boxes[0]], [boxes[1]]]


def test_only_its_own_task_files_are_read_and_only_allowed_places_written(
    running, pipeline, tmp_path, tmp_path_factory
):
    other = tmp_path_factory.mktemp("other") / "task.yaml"
    other.write_text("secret: 1\n")
    answer = ask(running, "precheck", yaml_paths=[str(other)])
    assert answer["success"] is False
    assert "secret" not in answer["error"]
    pipeline["outputs"][0]["dataset_path"] = str(other.parent / "out.zarr")
    answer = ask(running, "generate", pipeline=pipeline)
    assert answer["success"] is False
    assert "--allow-root" in answer["error"]


@pytest.mark.timeout(180)
def test_a_submitted_run_writes_what_the_viewer_showed(running, pipeline, tmp_path):
    pytest.importorskip("daisy", reason="needs the blockwise extra")
    answer = ask(running, "submit", pipeline=pipeline, job_name="run")
    assert answer["success"] is True, answer
    end = time.monotonic() + 120
    log = Path(answer["log_path"])
    while "blocks" not in log.read_text() or not list((tmp_path / "out.zarr").glob("*/s0/.zarray")):
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.3)
    (array,) = (tmp_path / "out.zarr").glob("*/s0")
    running.ask("/api/models", "POST", {"selected_models": [{"name": MODEL["name"], **MODEL["params"]}]})
    while running.ask("/api/models").json["models"][0]["state"] == "starting":
        assert time.monotonic() < end
        time.sleep(0.1)
    time.sleep(0.5)
    source = running.ask("/api/session").json["layer_sources"]["fibsem-membrane"].partition("|")[0]
    shown = open_volume(source).read([(0, 24), (0, 24), (0, 24)])
    while True:
        written = open_volume(array).read([(0, 24), (0, 24), (0, 24)])
        if np.allclose(written, shown, atol=1e-5) or time.monotonic() > end:
            break
        time.sleep(0.5)
    assert np.allclose(written, shown, atol=1e-5), log.read_text()
