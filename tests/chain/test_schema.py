"""The description of the steps, pinned: forms, the command line and the docs are made from it."""

from __future__ import annotations

import json
from pathlib import Path

import chunkloom.chain as chain

SNAPSHOT = Path(__file__).parent / "step_schemas.json"


def own_schemas() -> dict[str, object]:
    steps = {**chain.input_normalizers(), **chain.postprocessors()}
    own = {name: cls for name, cls in steps.items() if cls.__module__.startswith("chunkloom.")}
    return {name: chain.step_schema(cls) for name, cls in sorted(own.items())}


def test_schemas_of_all_steps_are_these() -> None:
    assert own_schemas() == json.loads(SNAPSHOT.read_text())


def test_chain_schema_holds_every_step() -> None:
    schema = json.loads(json.dumps(chain.chain_schema()))
    named = {
        key: {item["title"] for item in schema["properties"][key]["items"]["oneOf"]} for key in schema["properties"]
    }
    assert named["input_norm"] >= {"MinMaxNormalizer", "WholeVolumePercentile"}
    assert named["postprocess"] >= {"SigmoidPostprocessor", "ChannelSelection"}
    assert not named["input_norm"] & named["postprocess"]
    assert schema["required"] == ["input_norm", "postprocess"]


def test_form_description_of_a_step_is_this() -> None:
    described = {entry["class_name"]: entry for entry in chain.describe_steps(chain.InputNormalizer)}
    assert described["MinMaxNormalizer"] == {
        "class_name": "MinMaxNormalizer",
        "name": "MinMaxNormalizer",
        "params": {"min_value": 0.0, "max_value": 255.0, "invert": False},
    }
    assert described["LambdaNormalizer"]["params"] == {"expression": ""}
    assert "SampledNormalizer" not in described
