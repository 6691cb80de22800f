"""Layers that a person adds, renames and removes; boxes; the session as a file; the log's stream."""

from __future__ import annotations

import logging
import threading
import urllib.request

import pytest
import yaml

from chunkloom import array_volume, materialize


@pytest.fixture
def labels(tmp_path):
    import numpy as np

    path = tmp_path / "labels.zarr"
    ids = np.full((20, 20, 20), 2**40 + 1, np.uint64)
    materialize(array_volume(ids, kind="labels"), str(path))
    return path


@pytest.fixture
def opened(dashboard, em):
    running = dashboard()
    assert running.ask("/api/set-data", "POST", {"dataset_path": str(em)}).status == 200
    return running


def names(running):
    return running.ask("/api/session").json["layers"]


def test_layers_are_added_renamed_and_removed(opened, em, labels):
    body = {"path": str(em), "name": "again", "blend": "additive"}
    assert opened.ask("/api/viewer/add-image-layer", "POST", body).json["success"] is True
    assert opened.ask("/api/viewer/add-segmentation-layer", "POST", {"path": str(labels), "name": "ids"}).status == 200
    assert names(opened) == ["raw", "again", "ids"]
    viewer = next(iter(opened.dashboard.sessions)).viewer
    assert viewer.state.layers["ids"].layer.to_json()["type"] == "segmentation"
    assert viewer.state.layers["again"].layer.blend == "additive"
    renamed = opened.ask("/api/viewer/rename-layer", "POST", {"old_name": "again", "new_name": "em"})
    assert renamed.status == 200
    opened.ask("/api/pipeline", "PUT", {"input_norm": [{"name": "MinMaxNormalizer"}], "postprocess": []})
    assert names(opened) == ["raw", "em", "ids"]
    removed = opened.ask("/api/viewer/remove-layer", "POST", {"name": "em"})
    assert removed.json["removed"] is True
    assert opened.ask("/api/viewer/remove-layer", "POST", {"name": "em"}).json["removed"] is False
    assert names(opened) == ["raw", "ids"]


def test_names_that_are_not_there_or_taken_are_refused(opened, em):
    missing = opened.ask("/api/viewer/rename-layer", "POST", {"old_name": "no", "new_name": "yes"})
    assert missing.status == 404
    assert "'no'" in missing.json["error"]
    opened.ask("/api/viewer/add-image-layer", "POST", {"path": str(em), "name": "again"})
    assert opened.ask("/api/viewer/rename-layer", "POST", {"old_name": "again", "new_name": "raw"}).status == 409
    assert opened.ask("/api/viewer/add-image-layer", "POST", {"path": str(em), "name": "again"}).status == 409


def test_a_layer_of_the_persons_own_stays(opened):
    import neuroglancer

    viewer = next(iter(opened.dashboard.sessions)).viewer
    with viewer.txn() as state:
        state.layers.append(name="notes", layer=neuroglancer.LocalAnnotationLayer(dimensions=state.dimensions))
    opened.ask("/api/pipeline", "PUT", {"input_norm": [{"name": "MinMaxNormalizer"}], "postprocess": []})
    assert names(opened) == ["raw", "notes"]


def test_drawn_boxes_are_whole_voxels_in_nm(opened, em):
    import neuroglancer

    existing = [{"offset": [5.24, 2, 50], "shape": [20.96, 8, 12]}]
    begun = opened.ask("/api/bbx-generator", "POST", {"num_boxes": 2, "existing_bounding_boxes": existing})
    assert begun.json["existing_count"] == 1
    assert opened.ask("/" + begun.json["viewer_url"]).status == 200
    tool = next(iter(opened.dashboard.sessions)).boxes
    with tool.viewer.txn() as state:
        box = neuroglancer.AxisAlignedBoundingBoxAnnotation(
            id="new", point_a=[30.2, 20.1, 4.6], point_b=[9.9, 10.4, 0.4]
        )
        layer = state.layers["bounding boxes"].layer
        layer.annotations = [*layer.annotations, box]
    status = opened.ask("/api/bbx-generator/status").json
    assert status["count"] == 2
    boxes = opened.ask("/api/bbx-generator/finalize", "POST").json["bounding_boxes"]
    assert boxes[0]["offset"] == pytest.approx(existing[0]["offset"])
    assert boxes[0]["shape"] == pytest.approx(existing[0]["shape"])
    # x, y, z in voxels of 4, 4, 10.48 nm from 0; the data's corner is at z -5.24, y -2, x 30 nm.
    assert boxes[1]["offset"] == pytest.approx([-5.24 + 1 * 10.48, -2 + 11 * 4, 30 + 2 * 4])
    assert boxes[1]["shape"] == pytest.approx([4 * 10.48, 10 * 4, 21 * 4])
    assert opened.ask("/api/bbx-generator/finalize", "POST").status == 409


@pytest.mark.parametrize("box", [{}, {"offset": [1, 2], "shape": [1, 1]}, {"offset": [0, 0, 0], "shape": [0, 1, 1]}])
def test_what_is_no_box_is_refused(opened, box):
    answer = opened.ask("/api/bbx-generator", "POST", {"existing_bounding_boxes": [box]})
    assert answer.status == 400
    assert "box" in answer.json["error"]


def test_the_session_is_exported_as_yaml(opened, em, labels):
    chain = {"input_norm": [{"name": "MinMaxNormalizer", "min_value": 3}], "postprocess": []}
    opened.ask("/api/pipeline", "PUT", chain)
    opened.ask("/api/viewer/add-segmentation-layer", "POST", {"path": str(labels), "name": "ids"})
    config = yaml.safe_load(opened.ask("/api/export-config").body)
    assert config == {
        "data_path": str(em),
        "models": {},
        "json_data": chain,
        "wrap_raw": True,
        "extra_layers": [{"name": "ids", "path": str(labels), "layer_type": "segmentation"}],
    }


def test_nothing_to_export_is_said(dashboard):
    answer = dashboard().ask("/api/export-config")
    assert answer.status == 400
    assert "open a volume" in answer.json["error"]


def test_the_log_stream_replays_then_follows_and_keeps_records_whole(dashboard):
    running = dashboard()
    running.ask("/api/session")
    log = logging.getLogger("chunkloom.test")
    log.warning("before\nof two lines")
    request = urllib.request.Request(
        f"{running.url}/api/logs/stream", headers={"Authorization": "Bearer a-token-for-tests"}
    )
    with urllib.request.urlopen(request, timeout=20) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        first = next(line for line in stream if b"before" in line)
        assert b"WARNING chunkloom.test: before" in first
        assert next(stream) == b"data: of two lines\n"
        threading.Timer(0.1, log.error, ("after",)).start()
        assert any(b"ERROR chunkloom.test: after" in line for line in stream)


def test_one_sessions_records_are_not_shown_to_another(dashboard, em):
    running = dashboard()
    one, two = running.browser_cookie(), running.browser_cookie()
    running.ask("/api/set-data", "POST", {"dataset_path": str(em)}, token=None, Cookie=one)

    def kept(cookie):
        request = urllib.request.Request(f"{running.url}/api/logs/stream", headers={"Cookie": cookie})
        with urllib.request.urlopen(request, timeout=20) as stream:
            logging.getLogger("chunkloom.test").error("the end")
            lines = []
            for line in stream:
                lines.append(line)
                if b"the end" in line:
                    return b"".join(lines)
        return b""

    assert b"opened" in kept(one)
    assert b"opened" not in kept(two)
