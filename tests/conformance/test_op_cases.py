"""The Python engine on the cases of `ops/`, which the browser engine runs too."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HERE = Path(__file__).parent
CASES = sorted((HERE / "ops").glob("*.json"))


def load(path: Path) -> dict[str, Any]:
    case: dict[str, Any] = json.loads(path.read_text())
    return case


@pytest.fixture(scope="module")
def whole_array() -> Any:
    """The formula of the cases."""
    sys.path.insert(0, str(HERE))
    try:
        import make_materialize_cases
    finally:
        sys.path.remove(str(HERE))
    return make_materialize_cases.whole_array


def as_ops(steps: Sequence[dict[str, Any]], volume: Any) -> list[Any]:
    from chunkloom.chain.spec import PipelineSpec
    from chunkloom.engine.op import make_op
    from chunkloom.engine.ops.steps import resolve_chain, steps_as_ops

    ops: list[Any] = []
    for step in steps:
        name, parameters = step["name"], {k: v for k, v in step.items() if k != "name"}
        if name[0].islower():
            ops.append(make_op(name, {k: tuple(v) if isinstance(v, list) else v for k, v in parameters.items()}))
            continue
        is_post = name.endswith("Postprocessor") or name == "ChannelSelection"
        spec = PipelineSpec.from_steps_data([] if is_post else [step], [step] if is_post else [])
        normalizers, postprocessors = resolve_chain(spec, with_ops(volume, ops)).build()
        ops += steps_as_ops([*normalizers, *postprocessors])
    return ops


def with_ops(volume: Any, ops: Sequence[Any]) -> Any:
    from chunkloom.engine.pipeline import Pipeline

    return Pipeline(volume, ops) if ops else volume


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_an_op_gives_what_numpy_and_scipy_give(path: Path, whole_array: Any) -> None:
    from chunkloom.engine.op import known_ops
    from chunkloom.engine.sources.array import array_volume

    case = load(path)
    missing = [s["name"] for s in case["ops"] if s["name"][0].islower() and s["name"] not in known_ops()]
    if missing:
        pytest.skip(f"the Python engine has no op {missing[0]} yet")
    source, expected = case["source"], case["expected"]
    array = whole_array(source, 0)
    level = source["levels"][0]
    volume = array_volume(
        array if source["channels"] else array[0],
        voxel_size_nm=level["voxel_size_nm"],
        corner_nm=level["corner_nm"],
        chunk=level["chunk"],
    )
    got = with_ops(volume, as_ops(case["ops"], volume)).read()
    want = np.frombuffer(base64.b64decode(expected["values"]), expected["dtype"])
    want = want.reshape(*expected["channels"], *level["shape"])
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if case["compare"] == "partition":
        pairs = np.unique(np.stack([got.ravel(), want.ravel()], 1), axis=0)
        assert len(np.unique(pairs[:, 0])) == len(np.unique(pairs[:, 1])) == len(pairs)
    elif case["tolerance"]:
        assert np.all(np.abs(got - want) <= case["tolerance"] * np.maximum(1, np.abs(want)))
    else:
        np.testing.assert_array_equal(got, want)
