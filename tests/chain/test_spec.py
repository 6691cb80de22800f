"""Chains as data: every reader and writer, digests against hashlib, and blobs that were tampered with."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkloom.chain import (
    MinMaxNormalizer,
    PipelineSpec,
    ThresholdPostprocessor,
    WholeVolumeStandardizer,
    chain_is_segmentation,
    chain_num_channels,
    chain_output_dtype,
)
from chunkloom.errors import ParameterError

DATA: dict[str, Any] = {
    "input_norm": [
        {"name": "MinMaxNormalizer", "min_value": 0, "max_value": "255"},
        {"name": "LambdaNormalizer", "expression": "x*2-1"},
    ],
    "postprocess": [{"name": "SigmoidPostprocessor"}, {"name": "ThresholdPostprocessor", "threshold": 0.5}],
}
OLD = {
    "input_norm": {
        "MinMaxNormalizer": {"min_value": 0, "max_value": "255"},
        "LambdaNormalizer": {"expression": "x*2-1", "name": "ignored"},
    },
    "postprocess": {"SigmoidPostprocessor": None, "ThresholdPostprocessor": {"threshold": 0.5}},
}


def blob(data: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(data, separators=(",", ":")).encode()).decode().rstrip("=")


@pytest.mark.parametrize("data", [DATA, json.dumps(DATA), OLD], ids=["mapping", "text", "older form"])
@pytest.mark.parametrize("strict", [False, True])
def test_every_form_is_read_with_values_as_given(data: Any, strict: bool) -> None:
    assert PipelineSpec.from_json_data(data, strict=strict).to_json_data() == DATA


def test_missing_chains_are_empty_unless_strict() -> None:
    assert PipelineSpec.from_json_data({"input_norm": None}) == PipelineSpec()
    with pytest.raises(ParameterError, match="needs the key 'postprocess'; found 'input_norm'"):
        PipelineSpec.from_json_data({"input_norm": []}, strict=True)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "must be an object"),
        ("{", "must be JSON"),
        ("[" * 100_000, "must be JSON"),
        ({"input_norm": "MinMaxNormalizer", "postprocess": []}, "input_norm must be a list of steps"),
        ({"input_norm": [3], "postprocess": []}, r"input_norm\[0\] must be an object"),
        ({"input_norm": [], "postprocess": [{}]}, r"postprocess\[0\] must have the step's class"),
        (
            {"input_norm": [{"name": "A", "params": {}}], "postprocess": []},
            'beside "name", not inside "params"',
        ),
        ({"input_norm": {"A": 3}, "postprocess": []}, "the parameters of 'A' must be an object"),
        ({"input_norm": [{"name": "A", "v": float("nan")}], "postprocess": []}, "a value that JSON cannot"),
        ({"input_norm": [{"name": "A", "v": object()}], "postprocess": []}, "a value that JSON cannot"),
    ],
)
def test_what_is_no_chain_is_refused(data: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        PipelineSpec.from_json_data(data, strict=True)


def test_a_request_must_have_lists_of_known_steps() -> None:
    assert PipelineSpec.from_request(DATA).to_json_data() == DATA
    with pytest.raises(ParameterError, match="as a list of steps"):
        PipelineSpec.from_request(OLD)
    with pytest.raises(ParameterError, match="unknown step 'Sigmoid'; did you mean 'SigmoidPostprocessor'"):
        PipelineSpec.from_request({"input_norm": [], "postprocess": [{"name": "Sigmoid"}]})


def test_builder_nodes_become_flat_steps() -> None:
    nodes = [{"name": "MinMaxNormalizer", "params": {"min_value": 3, "name": "inner"}, "x": 10, "y": 20}]
    spec = PipelineSpec.from_builder_nodes(nodes, [{"name": "SigmoidPostprocessor"}])
    assert spec.input_norm == [{"name": "MinMaxNormalizer", "min_value": 3}]
    assert spec.postprocess == [{"name": "SigmoidPostprocessor"}]


def test_live_steps_become_their_wire_forms() -> None:
    spec = PipelineSpec.from_steps([MinMaxNormalizer(0, 10)], [ThresholdPostprocessor()])
    assert spec.to_json_data() == {
        "input_norm": [{"name": "MinMaxNormalizer", "min_value": 0.0, "max_value": 10.0, "invert": False}],
        "postprocess": [{"name": "ThresholdPostprocessor", "threshold": 0.5}],
    }


def test_numpy_values_are_plain_in_the_data() -> None:
    spec = PipelineSpec.from_steps_data([{"name": "A", "v": np.float32(0.5), "w": np.arange(3)}], [])
    assert spec.input_norm == [{"name": "A", "v": 0.5, "w": [0, 1, 2]}]


def test_a_spec_cannot_be_changed_through_what_it_hands_out() -> None:
    spec = PipelineSpec.from_json_data(DATA)
    spec.input_norm[0]["min_value"] = 9
    spec.to_json_data()["postprocess"].clear()
    assert spec.to_json_data() == DATA
    with pytest.raises(AttributeError):
        spec.input_norm = []  # type: ignore[misc]


def test_digest_is_that_of_the_sorted_compact_json() -> None:
    text = json.dumps(DATA, sort_keys=True, separators=(",", ":"))
    assert PipelineSpec.from_json_data(DATA).digest() == hashlib.sha256(text.encode()).hexdigest()[:16]
    assert PipelineSpec().digest() == hashlib.sha256(b'{"input_norm":[],"postprocess":[]}').hexdigest()[:16]


def test_order_of_steps_counts_and_that_of_parameters_does_not() -> None:
    spec = PipelineSpec.from_json_data(DATA)
    turned = [dict(reversed(step.items())) for step in DATA["input_norm"]]
    assert PipelineSpec.from_steps_data(turned, DATA["postprocess"]) == spec
    assert hash(PipelineSpec.from_steps_data(turned, DATA["postprocess"])) == hash(spec)
    assert PipelineSpec.from_steps_data(DATA["input_norm"][::-1], DATA["postprocess"]) != spec


def test_canonical_chains_of_equal_values_are_equal() -> None:
    as_text = PipelineSpec.from_steps_data([{"name": "MinMaxNormalizer", "max_value": "255"}], [])
    as_number = PipelineSpec.from_steps_data([{"name": "MinMaxNormalizer", "min_value": 0, "max_value": 255.0}], [])
    assert as_text.digest() != as_number.digest()
    assert as_text.canonical().digest() == as_number.canonical().digest()


def test_build_makes_the_steps() -> None:
    norms, posts = PipelineSpec.from_json_data(DATA).build()
    assert [type(step).__name__ for step in (*norms, *posts)] == [
        "MinMaxNormalizer",
        "LambdaNormalizer",
        "SigmoidPostprocessor",
        "ThresholdPostprocessor",
    ]


def test_unknown_steps_of_old_files_are_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    spec = PipelineSpec.from_steps_data([{"name": "Gone"}, {"name": "ZScoreNormalizer"}], [])
    with pytest.raises(ParameterError, match="unknown input normalizer 'Gone'"):
        spec.build()
    assert spec.without_unknown().input_norm == [{"name": "ZScoreNormalizer"}]
    assert "skipping unknown step 'Gone'" in caplog.text


def test_resolved_freezes_the_statistics_into_the_digest() -> None:
    spec = PipelineSpec.from_steps([WholeVolumeStandardizer()], [])
    raw = np.arange(27, dtype=np.uint8).reshape(3, 3, 3)
    one, other = spec.resolved(raw), spec.resolved([raw + 1])
    assert one.input_norm[0]["mean"] == 13
    assert len({spec.digest(), one.digest(), other.digest()}) == 3


# Blobs


def test_blob_is_the_compact_json_in_url_safe_base64() -> None:
    spec = PipelineSpec.from_json_data(DATA)
    extras = {"dashboard_url": "http://h:1", "digest": spec.digest()}
    assert spec.to_url_blob(**extras) == blob({**DATA, **extras})
    assert PipelineSpec.from_url_blob(spec.to_url_blob(**extras)) == (spec, extras)


def test_blob_of_an_older_dashboard_is_read() -> None:
    spec, extras = PipelineSpec.from_url_blob(blob({**OLD, "time": 12.5}))
    assert spec.to_json_data() == DATA
    assert extras == {"time": 12.5}


@given(st.dictionaries(st.text(min_size=1), st.text() | st.integers() | st.booleans(), max_size=3))
def test_any_values_survive_a_blob(parameters: dict[str, Any]) -> None:
    parameters.pop("name", None)
    spec = PipelineSpec.from_steps_data([{"name": "A", **parameters}], [])
    text = spec.to_url_blob()
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert PipelineSpec.from_url_blob(text)[0].input_norm == [{"name": "A", **parameters}]


def test_an_extra_cannot_replace_a_chain() -> None:
    with pytest.raises(ParameterError, match="'postprocess' is the chain's own key"):
        PipelineSpec().to_url_blob(postprocess=[])


GOOD = PipelineSpec.from_json_data(DATA).to_url_blob()


@pytest.mark.parametrize(
    "bad",
    {
        "empty": "",
        "cut": GOOD[:-3],
        "cut by one": GOOD[:-1],
        "foreign character": GOOD[:8] + "!" + GOOD[9:],
        "space": GOOD[:8] + " " + GOOD[8:],
        "standard base64 alphabet": "+/" + GOOD[2:],
        "not ASCII": "é" + GOOD,
        "not UTF-8": base64.urlsafe_b64encode(b"\xff\xfe{}").decode(),
        "not an object": blob([DATA]),
        "a chain missing": blob({"input_norm": []}),
        "a chain of another kind": blob({**DATA, "postprocess": 3}),
        "nested deeply": base64.urlsafe_b64encode(b"[" * 200_000).decode(),
        "very long": "A" * 2_000_000,
    }.items(),
    ids=lambda item: item[0],
)
def test_a_blob_that_cannot_be_read_is_one_clear_error(bad: tuple[str, str]) -> None:
    with pytest.raises(ParameterError) as caught:
        PipelineSpec.from_url_blob(bad[1])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_blob_whose_chain_was_changed_is_refused() -> None:
    digest = PipelineSpec.from_json_data(DATA).digest()
    changed = json.loads(json.dumps(DATA))
    changed["postprocess"][1]["threshold"] = 0.9
    with pytest.raises(ParameterError, match="the chain in the URL was changed"):
        PipelineSpec.from_url_blob(blob({**changed, "digest": digest}))


@given(st.integers(0, len(GOOD) - 1), st.characters(codec="ascii"))
def test_a_changed_character_is_read_as_another_chain_or_refused(position: int, character: str) -> None:
    text = GOOD[:position] + character + GOOD[position + 1 :]
    try:
        spec, _ = PipelineSpec.from_url_blob(text)
        spec.build()
    except ParameterError:
        pass


# What a chain says about its output


def built(*steps: dict[str, Any]) -> Any:
    return PipelineSpec.from_steps_data([], steps).build()[1]


@pytest.mark.parametrize(
    ("steps", "dtype", "channels", "labels"),
    [
        ([], "float32", 4, False),
        ([{"name": "SigmoidPostprocessor"}], "float32", 4, None),
        ([{"name": "ChannelSelection", "channels": "0,2"}], "float32", 2, None),
        ([{"name": "SigmoidPostprocessor"}, {"name": "ThresholdPostprocessor"}], "uint8", 4, True),
        ([{"name": "ThresholdPostprocessor"}, {"name": "DefaultPostprocessor"}], "uint8", 4, False),
        ([{"name": "DefaultPostprocessor"}, {"name": "ChannelSelection", "channels": 1}], "uint8", 1, False),
    ],
)
def test_output_of_a_chain(steps: list[dict[str, Any]], dtype: str, channels: int, labels: bool | None) -> None:
    live = built(*steps)
    assert chain_output_dtype(live, "float32") == np.dtype(dtype)
    assert chain_num_channels(live, 4) == channels
    assert chain_is_segmentation(live) is labels
