"""Advice on a chain from the range of the model's output."""

from __future__ import annotations

import numpy as np
import pytest

from chunkloom.chain.postprocessors import DefaultPostprocessor
from chunkloom.chain.segmentation import AffinityPostprocessor
from chunkloom.serving.probe import (
    output_display_range,
    review_postprocess,
    suggest_input_norm,
    suggest_postprocess_params,
)

AFF = ["aff_z", "aff_y", "aff_x"]


def steps(*names):
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("names", "output_class", "more", "level", "says", "suggests"),
    [
        (["SigmoidPostprocessor"], "unit", {}, "warn", "already ends in a sigmoid", []),
        (["SigmoidPostprocessor", "ThresholdPostprocessor"], "signed_unit", {}, "warn", "already ends in a tanh", []),
        (["ChannelSelection", "SigmoidPostprocessor"], "unit", {}, "warn", "already ends in a sigmoid", []),
        (["SigmoidPostprocessor", "SigmoidPostprocessor"], "unbounded", {}, "warn", "already ends in a sigmoid", []),
        ([], "signed_unit", {}, "suggest", "0 to 255", ["DefaultPostprocessor"]),
        ([], "unbounded", {}, "suggest", "probability", ["SigmoidPostprocessor"]),
        ([], "unit", {}, "ok", "suits", []),
        (["DefaultPostprocessor"], "signed_unit", {}, "ok", "suits", []),
        (["ThresholdPostprocessor"], "unbounded", {}, "ok", "suits", []),
        (["SigmoidPostprocessor"], "unbounded", {}, "ok", "suits", []),
        (
            [],
            "unbounded",
            {"channels": 3, "channel_names": AFF},
            "suggest",
            "affinities",
            ["SigmoidPostprocessor", "DefaultPostprocessor", "AffinityPostprocessor"],
        ),
        (
            ["DefaultPostprocessor"],
            "unit",
            {"channels": 9, "name": "mito_affs"},
            "suggest",
            "affinities",
            ["DefaultPostprocessor", "AffinityPostprocessor"],
        ),
        (["AffinityPostprocessor"], "unit", {"channels": 3, "name": "affs"}, "ok", "suits", []),
        ([], "unit", {"channels": 2, "name": "affs"}, "ok", "suits", []),
    ],
)
def test_a_chain_is_reviewed(names, output_class, more, level, says, suggests):
    advice = review_postprocess(steps(*names), output_class, **more)
    assert (advice.level, advice.suggest) == (level, suggests)
    assert says in advice.message
    assert list(advice.params) == suggests
    assert advice.to_dict()["level"] == level


@pytest.mark.parametrize(("output_class", "low", "high"), [("unit", 0, 1), ("signed_unit", -1, 1)])
def test_the_suggested_cast_spreads_the_range_over_a_byte(output_class, low, high):
    params = suggest_postprocess_params(["DefaultPostprocessor"], output_class)["DefaultPostprocessor"]
    ends = DefaultPostprocessor(**params).process(np.array([[[low, high]]], np.float32))
    assert ends.ravel().tolist() == [0, 255]


@pytest.mark.parametrize(
    ("names", "output_class", "threshold"),
    [
        (["ThresholdPostprocessor"], "unit", 0.5),
        (["ThresholdPostprocessor"], "signed_unit", 0.0),
        (["ThresholdPostprocessor"], "unbounded", 0.0),
        (["SigmoidPostprocessor", "ThresholdPostprocessor"], "unbounded", 0.5),
        (["DefaultPostprocessor", "ThresholdPostprocessor"], "signed_unit", 127.5),
    ],
)
def test_the_suggested_threshold_lies_in_the_middle(names, output_class, threshold):
    assert suggest_postprocess_params(names, output_class)["ThresholdPostprocessor"] == {"threshold": threshold}


def test_suggested_affinities_have_an_offset_a_channel():
    params = suggest_postprocess_params(["AffinityPostprocessor"], "unit", channels=3)["AffinityPostprocessor"]
    made = AffinityPostprocessor(**params)
    assert (made.bias, made.offsets) == (0.5, ((1, 0, 0), (0, 1, 0), (0, 0, 1)))
    assert AffinityPostprocessor().offsets[:3] == made.offsets


@pytest.mark.parametrize(
    ("given", "expected", "confidence"),
    [
        ({"raw_dtype": "uint8", "framework": "DaCapo"}, (0, 255), "high"),
        ({"raw_dtype": "uint16", "source": "cellmap"}, (0, 65535), "high"),
        ({"raw_dtype": "uint16", "data_range": (100, 4000)}, (100, 4000), "low"),
        ({"raw_dtype": "float32"}, (0, 1), "low"),
    ],
)
def test_normalizers_are_suggested_by_where_a_model_comes_from(given, expected, confidence):
    found = suggest_input_norm(**given)
    first, second = found["input_norm"]
    assert (first["min_value"], first["max_value"], second["expression"]) == (*expected, "x*2-1")
    assert (found["order"], found["confidence"]) == (["MinMaxNormalizer", "LambdaNormalizer"], confidence)


def test_normalizers_that_a_model_declares_come_first():
    declared = [{"name": "ZScoreNormalizer", "mean": 3.0, "std": 2.0}]
    found = suggest_input_norm(declared=declared, framework="dacapo")
    assert (found["input_norm"], found["confidence"]) == (declared, "high")


@pytest.mark.parametrize(
    ("chain", "output_class", "expected"),
    [
        ([], "unit", (0, 1)),
        ([], "signed_unit", (-1, 1)),
        ([], "unbounded", None),
        (steps("SigmoidPostprocessor"), "unbounded", (0, 1)),
        (steps("DefaultPostprocessor"), "unbounded", (0, 255)),
        ([{"name": "DefaultPostprocessor", "clip_min": "0", "bias": 0}], "unit", (0, 127.5)),
        ([{"name": "DefaultPostprocessor", "bias": "?"}], "unit", None),
        (steps("ThresholdPostprocessor"), None, (0, 1)),
        (steps("SigmoidPostprocessor", "LambdaPostprocessor"), "unit", None),
        (steps("SigmoidPostprocessor", "ChannelSelection"), "unit", (0, 1)),
        (steps("LabelPostprocessor"), "unit", None),
    ],
)
def test_the_range_to_show(chain, output_class, expected):
    assert output_display_range(chain, output_class) == expected
