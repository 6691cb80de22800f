"""Setting the chain: all or nothing, and unchanged means untouched."""

from __future__ import annotations

import pytest

MINMAX = {"name": "MinMaxNormalizer", "min_value": 10, "max_value": 200}


@pytest.fixture
def opened(dashboard, em):
    running = dashboard()
    answer = running.ask("/api/set-data", "POST", {"dataset_path": str(em)})
    assert answer.status == 200, answer.body
    return running


def viewer(running):
    return next(iter(running.dashboard.sessions)).viewer


def put(running, input_norm=(), postprocess=(), **more):
    return running.ask(
        "/api/pipeline", "PUT", {"input_norm": list(input_norm), "postprocess": list(postprocess), **more}
    )


def test_the_answer_says_the_chain_its_digest_and_the_layers(opened):
    answer = put(opened, [MINMAX])
    assert answer.status == 200
    assert answer.json["success"] is True
    assert answer.json["pipeline"] == {"input_norm": [MINMAX], "postprocess": []}
    assert len(answer.json["digest"]) == 16
    assert answer.json["layers"] == ["raw"]


def test_the_raw_layer_shows_the_data_through_the_normalizers(opened, em):
    import numpy as np

    from chunkloom import open_volume

    put(opened, [MINMAX])
    source = str(viewer(opened).state.layers["raw"].layer.source[0].url).partition("|")[0]
    shown = open_volume(source).read()
    stored = open_volume(em).read().astype(np.float32)
    assert np.allclose(shown, (stored.clip(10, 200) - 10) / 190, atol=1e-6)


def test_an_unchanged_chain_leaves_the_viewer_alone(opened):
    put(opened, [MINMAX])
    before = viewer(opened).state.to_json()
    put(opened, [MINMAX])
    assert viewer(opened).state.to_json() == before


def test_a_shader_set_by_hand_stays_until_the_input_changes(opened):
    mine = "void main() { emitRGB(vec3(1.0, 0.0, 0.0)); }"
    with viewer(opened).txn() as state:
        state.layers["raw"].layer.shader = mine
    put(opened, [], [{"name": "SigmoidPostprocessor"}])
    assert viewer(opened).state.layers["raw"].layer.shader == mine
    put(opened, [MINMAX])
    assert viewer(opened).state.layers["raw"].layer.shader != mine


@pytest.mark.parametrize(
    ("steps", "word"),
    [
        ([{"name": "MinMaxNormaliser"}], "MinMaxNormalizer"),
        ([{**MINMAX, "max": 3}], "max_value"),
        ([{"name": "LambdaNormalizer", "expression": "__import__('os')"}], "expression"),
        ([{"min_value": 3}], "name"),
    ],
    ids=["unknown step", "unknown parameter", "an expression that is no arithmetic", "no name"],
)
def test_a_chain_that_cannot_be_built_changes_nothing(opened, steps, word):
    put(opened, [MINMAX])
    before = viewer(opened).state.to_json()
    answer = put(opened, steps)
    assert answer.status == 400
    assert answer.json["success"] is False
    assert word in answer.json["error"]
    assert opened.ask("/api/pipeline").json["pipeline"]["input_norm"] == [MINMAX]
    assert viewer(opened).state.to_json() == before


@pytest.mark.parametrize(
    "body", [None, {}, {"input_norm": {}, "postprocess": []}, {"input_norm": [1], "postprocess": []}]
)
def test_a_body_of_another_form_is_refused(opened, body):
    answer = opened.ask("/api/pipeline", "PUT", body)
    assert answer.status == 400
    assert answer.json["success"] is False


def test_the_older_routes_still_work_and_say_their_successor(opened):
    answer = opened.ask(
        "/api/process", "POST", {"input_norm": {"MinMaxNormalizer": {"min_value": 1}}, "postprocess": {}}
    )
    assert answer.status == 200
    assert answer.headers["deprecation"].startswith("@")
    assert 'rel="successor-version"' in answer.headers["link"]
    nodes = {
        "input_normalizers": [{"name": "MinMaxNormalizer", "params": {"max_value": 100}}],
        "postprocessors": [{"name": "SigmoidPostprocessor", "params": {}}],
    }
    applied = opened.ask("/api/pipeline/apply", "POST", nodes)
    assert (applied.json["normalizers_applied"], applied.json["postprocessors_applied"]) == (1, 1)
    bad = opened.ask("/api/pipeline/apply", "POST", {"input_normalizers": [{"name": "Nope", "params": {}}]})
    assert bad.status == 400
    assert bad.json["valid"] is False


def test_the_builders_canvas_is_kept(opened):
    canvas = {"inputs": [{"id": "a", "dataset_path": "x", "position": {"x": 1, "y": 2}}], "edges": []}
    put(opened, [MINMAX], builder=canvas)
    assert opened.ask("/api/pipeline").json["builder"] == canvas


def test_statistics_of_the_volume_are_taken_from_it(opened, em):
    import numpy as np

    from chunkloom import open_volume

    put(opened, [{"name": "WholeVolumeStandardizer"}])
    source = str(viewer(opened).state.layers["raw"].layer.source[0].url).partition("|")[0]
    shown = open_volume(source).read()
    stored = open_volume(em).read().astype(np.float64)
    assert np.allclose(shown, (stored - stored.mean()) / stored.std(), atol=1e-4)


def test_two_sessions_set_chains_without_touching_each_other(dashboard, em):
    running = dashboard()
    cookies = [running.browser_cookie() for _ in range(2)]
    for cookie in cookies:
        running.ask("/api/set-data", "POST", {"dataset_path": str(em)}, token=None, Cookie=cookie)
    body = {"input_norm": [MINMAX], "postprocess": []}
    running.ask("/api/pipeline", "PUT", body, token=None, Cookie=cookies[0])
    chains = [running.ask("/api/pipeline", token=None, Cookie=cookie).json["pipeline"] for cookie in cookies]
    assert chains[0]["input_norm"] == [MINMAX]
    assert chains[1]["input_norm"] == []
    sources = [s.viewer.state.layers["raw"].layer.source[0].url for s in running.dashboard.sessions]
    assert sources[0] != sources[1]


def test_data_outside_the_allowed_places_is_refused(dashboard, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    answer = dashboard().ask("/api/set-data", "POST", {"dataset_path": str(other)})
    assert answer.status == 400
    assert "--allow-root" in answer.json["error"]


def test_a_path_that_is_no_volume_is_said_in_words(dashboard, tmp_path):
    answer = dashboard().ask("/api/set-data", "POST", {"dataset_path": str(tmp_path / "nothing.zarr")})
    assert answer.status == 404
    assert "nothing.zarr" in answer.json["error"]
