"""Models from the dashboard: started, seen, tuned, failed, stopped, and shared without mixing settings."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

from chunkloom import open_volume

ONNX = {"type": "onnx", "name": "fibsem-membrane", "path": "fibsem-membrane"}


@pytest.fixture
def opened(dashboard, shared):
    running = dashboard([shared / "data"])
    answer = running.ask("/api/set-data", "POST", {"dataset_path": str(shared / "data/fibsem.zarr/raw")})
    assert answer.status == 200
    return running


def select(running, *entries, **headers):
    return running.ask("/api/models", "POST", {"selected_models": list(entries)}, **headers)


def settled(running, seconds=60, **headers):
    """The session's models once none is starting."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        models = running.ask("/api/models", **headers).json["models"]
        if all(model["state"] != "starting" for model in models):
            time.sleep(0.2)  # the layer is drawn right after
            return models
        time.sleep(0.05)
    raise AssertionError(models)


def source(running, name, session=0):
    viewer = list(running.dashboard.sessions)[session].viewer
    return str(viewer.state.layers[name].layer.source[0].url).partition("|")[0]


def test_a_model_is_started_and_brings_its_own_chain(opened):
    assert select(opened, ONNX).json["models"][0]["state"] == "starting"
    models = settled(opened)
    assert models[0]["state"] == "running", models
    assert models[0]["info"]["output_class"] in ("unit", "signed_unit", "unbounded")
    session = opened.ask("/api/session").json
    assert session["layers"] == ["raw", "fibsem-membrane"]
    assert session["pipeline"]["input_norm"], "the chain of its model.json"
    prediction = open_volume(source(opened, "fibsem-membrane"))
    assert prediction.levels[0].grid.corner_nm == pytest.approx((-5, -5, -5))


def test_a_change_of_postprocessing_changes_the_layer_alone(opened):
    select(opened, ONNX)
    settled(opened)
    chain = opened.ask("/api/pipeline").json["pipeline"]
    raw, before = source(opened, "raw"), source(opened, "fibsem-membrane")
    probability = open_volume(before).read([(0, 20), (0, 30), (0, 30)]).astype(np.float64)
    chain["postprocess"] = [*chain["postprocess"], {"name": "ThresholdPostprocessor", "threshold": 0.3}]
    assert opened.ask("/api/pipeline", "PUT", chain).status == 200
    assert source(opened, "raw") == raw
    after = source(opened, "fibsem-membrane")
    assert after != before
    mask = open_volume(after).read([(0, 20), (0, 30), (0, 30)])
    clear = np.abs(probability - 0.3) > 1e-5
    assert np.array_equal(mask[clear] != 0, (probability > 0.3)[clear])


def test_a_model_that_cannot_start_says_why(opened, tmp_path):
    script = tmp_path / "broken.py"
    script.write_text("raise RuntimeError('no weights here')\n")
    select(opened, {"type": "script", "name": "broken", "script_path": str(script)})
    (model,) = settled(opened)
    assert model["state"] == "failed"
    assert "no weights here" in model["error"]
    assert opened.ask("/api/session").json["layers"] == ["raw"]
    logs = opened.ask("/api/job-logs").json["logs"]["broken"]
    assert any("no weights here" in line for line in logs)


def test_an_entry_that_is_no_model_is_refused_at_once(opened):
    answer = select(opened, {"type": "onyx", "path": "x"})
    assert answer.status == 400
    assert "onnx" in answer.json["error"]


def test_unticking_a_model_stops_its_process_and_removes_its_layer(opened):
    select(opened, ONNX)
    settled(opened)
    session = opened.dashboard.sessions.only()
    (job,) = session.models["fibsem-membrane"].server.job._ledger.jobs
    select(opened)
    assert opened.ask("/api/session").json["layers"] == ["raw"]
    assert gone(job)


def test_two_sessions_share_a_server_and_not_their_chains(dashboard, shared):
    running = dashboard([shared / "data"])
    cookies = [running.browser_cookie() for _ in range(2)]
    for cookie in cookies:
        body = {"dataset_path": str(shared / "data/fibsem.zarr/raw")}
        running.ask("/api/set-data", "POST", body, token=None, Cookie=cookie)
        select(running, ONNX, token=None, Cookie=cookie)
        assert settled(running, token=None, Cookie=cookie)[0]["state"] == "running"
    first, second = list(running.dashboard.sessions)
    assert first.models["fibsem-membrane"].server is second.models["fibsem-membrane"].server
    before = source(running, "fibsem-membrane", 1)
    chain = {"input_norm": [{"name": "MinMaxNormalizer", "max_value": 99}], "postprocess": []}
    running.ask("/api/pipeline", "PUT", chain, token=None, Cookie=cookies[0])
    assert source(running, "fibsem-membrane", 1) == before
    assert source(running, "fibsem-membrane", 0) != before
    select(running, token=None, Cookie=cookies[0])
    assert running.ask("/api/models", token=None, Cookie=cookies[1]).json["models"][0]["state"] == "running"
    (job,) = second.models["fibsem-membrane"].server.job._ledger.jobs
    assert not gone(job)


def test_closing_the_dashboard_leaves_no_process_even_of_a_starting_model(opened):
    select(opened, ONNX)
    server = opened.dashboard.sessions.only().models["fibsem-membrane"].server
    while not server.job._ledger.jobs:
        time.sleep(0.01)
    (job,) = server.job._ledger.jobs
    opened.dashboard.close()
    assert gone(job)


def gone(job):
    """Whether no process of a local job's group is left."""
    try:
        os.killpg(int(job.id), 0)
    except ProcessLookupError:
        return True
    return False


def test_which_ids_are_one_object_reaches_the_layer(opened):
    select(opened, ONNX)
    settled(opened)
    chain = opened.ask("/api/pipeline").json["pipeline"]
    chain["postprocess"] = [
        *chain["postprocess"],
        {"name": "ThresholdPostprocessor", "threshold": 0.5},
        {"name": "LabelPostprocessor"},
        {"name": "MortonSegmentationRelabeling"},
        {"name": "SimpleBlockwiseMerger"},
    ]
    assert opened.ask("/api/pipeline", "PUT", chain).status == 200
    session = opened.dashboard.sessions.only()
    layer = session.viewer.state.layers["fibsem-membrane"].layer
    assert layer.to_json()["type"] == "segmentation"
    open_volume(source(opened, "fibsem-membrane")).read()
    end = time.monotonic() + 30
    while not session.equivalences and time.monotonic() < end:
        time.sleep(0.2)
    assert session.equivalences
    layer = session.viewer.state.layers["fibsem-membrane"].layer
    assert len(list(layer.equivalences.sets())) > 0


def test_advice_warns_of_a_sigmoid_too_many(opened):
    select(opened, ONNX)
    settled(opened)
    (advice,) = opened.ask("/api/model_advice").json["models"]
    assert advice["postprocess_review"]["level"] == "ok"
    assert advice["input_norm_matches"] is True
    chain = opened.ask("/api/pipeline").json["pipeline"]
    chain["postprocess"].append({"name": "SigmoidPostprocessor"})
    opened.ask("/api/pipeline", "PUT", chain)
    (advice,) = opened.ask("/api/model_advice").json["models"]
    assert advice["postprocess_review"]["level"] == "warn"
    assert "sigmoid" in advice["postprocess_review"]["message"]
