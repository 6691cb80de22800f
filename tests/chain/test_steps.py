"""The contract every step keeps: wire names and parameters, text values, dtypes, context, and the schema."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, ClassVar

import numpy as np
import pytest

import chunkloom.chain as chain
from chunkloom.chain import InputNormalizer, PostProcessor, build_step, describe_steps
from chunkloom.errors import ParameterError

TO_DICT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "MinMaxNormalizer": ({}, {"min_value": 0.0, "max_value": 255.0, "invert": False}),
    "ZScoreNormalizer": ({}, {"mean": 0.0, "std": 1.0}),
    "LambdaNormalizer": ({"expression": "x*2-1"}, {"expression": "x*2-1"}),
    "WholeVolumeStandardizer": ({}, {"mean": None, "std": None, "level": None}),
    "WholeVolumePercentile": (
        {},
        {"low_percent": 1.0, "high_percent": 99.0, "low_value": None, "high_value": None, "level": None},
    ),
    "EuclideanDistance": (
        {},
        {"anisotropy": 50, "black_border": True, "parallel": 5, "type": "edt", "activation": "tanh"},
    ),
    "Dilate": ({}, {"size": 1}),
    "CLAHENormalizer": (
        {},
        {"min_value": 0.0, "max_value": 255.0, "radius": 32, "radius_z": 0, "clip_limit": 0.03, "bins": 64},
    ),
    "ChannelSelector": ({}, {"channel": 0}),
    "DefaultPostprocessor": ({}, {"clip_min": -1.0, "clip_max": 1.0, "bias": 1.0, "multiplier": 127.5}),
    "SigmoidPostprocessor": ({}, {}),
    "ThresholdPostprocessor": ({}, {"threshold": 0.5}),
    "LambdaPostprocessor": ({"expression": "x*255"}, {"expression": "x*255"}),
    "ChannelSelection": ({}, {"channels": "0"}),
    "FillHolesPostprocessor": ({}, {"threshold": 0.0}),
    "LabelPostprocessor": ({}, {"channel": 0}),
    "DistanceWatershedPostprocessor": (
        {},
        {"threshold": 0.5, "min_distance": 5, "anisotropy": 1.0, "channel": 0},
    ),
    "MortonSegmentationRelabeling": ({}, {"channel": 0}),
    "AffinityPostprocessor": (
        {},
        {
            "bias": 0.0,
            "neighborhood": "[[1, 0, 0], [0, 1, 0], [0, 0, 1], [3, 0, 0], [0, 3, 0], [0, 0, 3], "
            "[9, 0, 0], [0, 9, 0], [0, 0, 9]]",
        },
    ),
    "SimpleBlockwiseMerger": ({}, {"channel": 0, "face_erosion_iterations": 0}),
}


def every_step() -> dict[str, type[chain.Step]]:
    return {
        name: cls
        for name, cls in {**chain.input_normalizers(), **chain.postprocessors()}.items()
        if cls.__module__.startswith("chunkloom.")
    }


@pytest.mark.parametrize("name", TO_DICT)
def test_wire_form_is_this(name: str) -> None:
    given, expected = TO_DICT[name]
    step = every_step()[name](**given)
    assert step.to_dict() == {"name": name, **expected}
    assert list(step.to_dict()) == ["name", *expected]


def test_every_step_has_its_wire_form_pinned() -> None:
    assert set(every_step()) == set(TO_DICT)


@pytest.mark.parametrize("name", TO_DICT)
def test_wire_form_rebuilds_the_step(name: str) -> None:
    cls = every_step()[name]
    step = cls(**TO_DICT[name][0])
    base = InputNormalizer if issubclass(cls, InputNormalizer) else PostProcessor
    rebuilt = build_step(base, json.loads(json.dumps(step.to_dict())))
    assert type(rebuilt) is cls
    assert rebuilt.to_dict() == step.to_dict()


@pytest.mark.parametrize("name", TO_DICT)
def test_text_values_are_read_like_real_ones(name: str) -> None:
    cls = every_step()[name]
    step = cls(**TO_DICT[name][0])
    as_text = {key: str(value) for key, value in step.to_dict().items() if key != "name"}
    assert cls(**as_text).to_dict() == step.to_dict()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("False", False),
        ("false", False),
        ("0", False),
        (0, False),
        (False, False),
        ("True", True),
        ("on", True),
        (1, True),
    ],
)
def test_a_flag_is_read_by_its_words(value: object, expected: bool) -> None:
    assert chain.MinMaxNormalizer(invert=value).invert is expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: chain.MinMaxNormalizer("abc"), "MinMaxNormalizer: min_value must be a finite number, got"),
        (lambda: chain.MinMaxNormalizer(min_value="nan"), "must be a finite number"),
        (lambda: chain.MinMaxNormalizer(min_value=True), "must be a finite number"),
        (lambda: chain.MinMaxNormalizer(min_value=None), "must be a finite number"),
        (lambda: chain.MinMaxNormalizer(5, 5), "max_value must be greater than min_value"),
        (lambda: chain.MinMaxNormalizer(invert="maybe"), "invert must be true or false, got 'maybe'"),
        (lambda: chain.ZScoreNormalizer(std=0), "std must be greater than 0"),
        (lambda: chain.WholeVolumePercentile(low_percent=-1), "low_percent must be at least 0"),
        (lambda: chain.WholeVolumePercentile(high_percent=101), "high_percent must be at most 100"),
        (lambda: chain.WholeVolumePercentile(50, 50), "high_percent must be greater than low_percent"),
        (lambda: chain.WholeVolumeStandardizer(level=1.5), "level must be a whole number, got 1.5"),
        (lambda: chain.LambdaNormalizer("os"), "the name 'os' is not allowed"),
        (lambda: chain.EuclideanDistance(type="dist"), "type must be one of edt, sdf, got 'dist'"),
        (lambda: chain.EuclideanDistance(activation="elu"), "must be one of tanh, relu, sigmoid"),
        (lambda: chain.Dilate(0), "size must be at least 1"),
        (lambda: chain.CLAHENormalizer(clip_limit=0), "clip_limit must be greater than 0"),
        (lambda: chain.CLAHENormalizer(5, 5), "max_value must be greater than min_value"),
        (lambda: chain.AffinityPostprocessor(neighborhood="1,0,0"), "must be a list of offsets"),
        (lambda: chain.AffinityPostprocessor(neighborhood="[[0,0,0]]"), "must be a list of offsets"),
        (lambda: chain.AffinityPostprocessor(neighborhood="[[1,0]]"), "must be a list of offsets"),
        (lambda: chain.AffinityPostprocessor(neighborhood="[" * 9999), "must be a list of offsets"),
        (lambda: chain.AffinityPostprocessor(neighborhood="__import__('os')"), "must be a list of offsets"),
        (lambda: chain.ChannelSelection(""), "channels must name at least one channel"),
        (lambda: chain.ChannelSelection("-1"), "channels must be at least 0"),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_by_name(make: Any, message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        make()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"name": "MinMaxNormaliser"},
            "unknown input normalizer 'MinMaxNormaliser'; did you mean 'MinMaxNormalizer'",
        ),
        (
            {"name": "MinMaxNormalizer", "min": 1},
            "MinMaxNormalizer has no parameter 'min'; did you mean 'min_value'",
        ),
        ({"name": "LambdaNormalizer"}, "LambdaNormalizer needs the parameter 'expression'"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        build_step(InputNormalizer, data)
    assert message in str(caught.value)


def test_a_step_is_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        chain.ThresholdPostprocessor().threshold = 0.7  # type: ignore[misc]


def test_repr_is_the_call_that_makes_it() -> None:
    assert repr(chain.ThresholdPostprocessor("0.7")) == "ThresholdPostprocessor(threshold=0.7)"  # type: ignore[arg-type]


def test_a_step_of_a_plug_in_is_found_described_and_built() -> None:
    class AddNormalizer(InputNormalizer):
        """Add a number."""

        dtype: ClassVar[Any] = np.float32

        def __init__(self, amount: float, twice: bool = False, note="as given") -> None:  # type: ignore[no-untyped-def]
            self.amount = float(amount)
            self.twice = twice
            self.kept = note

        def _process(self, data: np.ndarray) -> np.ndarray:
            return data + self.amount

    step = build_step(InputNormalizer, {"name": "AddNormalizer", "amount": "2"})
    assert step.process(np.zeros((1, 1, 1), np.uint8)).dtype == np.float32
    assert step.to_dict() == {"name": "AddNormalizer", "amount": 2.0, "twice": False, "note": "as given"}
    assert {
        "class_name": "AddNormalizer",
        "name": "AddNormalizer",
        "params": {"amount": "", "twice": False, "note": "as given"},
    } in describe_steps(InputNormalizer)
    schema = chain.step_schema(AddNormalizer)
    assert schema["description"] == "Add a number."
    assert schema["properties"]["amount"] == {"type": "number"}
    assert schema["properties"]["twice"] == {"type": "boolean", "default": False}
    assert schema["required"] == ["name", "amount"]


def test_context_is_passed_to_a_step_that_takes_it() -> None:
    class CornerPostProcessor(PostProcessor):
        def _process(self, data: np.ndarray, chunk_corner: tuple[int, int, int]) -> np.ndarray:  # type: ignore[override]
            return data + sum(chunk_corner)

    data = np.zeros((1, 1, 1), np.int16)
    assert CornerPostProcessor().process(data, chunk_corner=(1, 2, 3), chunk_num_voxels=8).item() == 6
    assert chain.SigmoidPostprocessor().process(data, chunk_corner=(1, 2, 3), chunk_num_voxels=8).item() == 0.5


def test_an_undeclared_dtype_is_never_float64_by_accident() -> None:
    class HalfPostProcessor(PostProcessor):
        def _process(self, data: np.ndarray) -> np.ndarray:
            return data / 2

    assert HalfPostProcessor().process(np.ones((1, 1, 1), np.int32)).dtype == np.float32
    assert HalfPostProcessor().process(np.ones((1, 1, 1), np.float64)).dtype == np.float64


@pytest.mark.parametrize(
    ("step", "dtype", "channels", "labels"),
    [
        (chain.DefaultPostprocessor(), "uint8", 3, False),
        (chain.SigmoidPostprocessor(), "float32", 3, None),
        (chain.ThresholdPostprocessor(), "uint8", 3, True),
        (chain.LambdaPostprocessor("x"), "float32", 3, None),
        (chain.ChannelSelection("0,2"), "float16", 2, None),
        (chain.MinMaxNormalizer(), "float32", 3, None),
        (chain.Dilate(), "float16", 3, None),
        (chain.ChannelSelector(1), "float16", 1, None),
        (chain.FillHolesPostprocessor(), "uint8", 3, True),
        (chain.LabelPostprocessor(), "uint32", 3, True),
        (chain.DistanceWatershedPostprocessor(), "uint32", 3, True),
        (chain.MortonSegmentationRelabeling(), "uint64", 3, True),
        (chain.AffinityPostprocessor(), "uint64", 1, True),
        (chain.SimpleBlockwiseMerger(), "uint64", 3, True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_output_info(step: chain.Step, dtype: str, channels: int, labels: bool | None) -> None:
    assert step.output_info(np.float16, 3) == (np.dtype(dtype), channels, labels)


def test_every_step_has_one_line_of_help_for_itself_and_each_parameter() -> None:
    for name, cls in every_step().items():
        assert cls.summary().endswith("."), name
        for key, parameter in cls.parameters().items():
            assert parameter.help.endswith("."), f"{name}.{key}"
