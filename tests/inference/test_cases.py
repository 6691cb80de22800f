"""The case infer-halo: a box sum of valid windows, tiled, equals the sum over the whole padded volume."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from chunkloom import array_volume
from chunkloom.chain.spec import PipelineSpec
from chunkloom.inference.op import predict
from chunkloom.inference.runner import ModelRunner
from chunkloom.models.geometry import ModelGeometry
from chunkloom.models.kinds import LoadedModel


def box_sum(radius):
    """Sums over windows of 2 r + 1 voxels, where they fit: exact in float32 for sums under 2**24."""

    def forward(block):
        windows = np.lib.stride_tricks.sliding_window_view(block, [2 * r + 1 for r in radius], (1, 2, 3))
        return windows.sum((-3, -2, -1), dtype=np.float64).astype(np.float32)

    return forward


@pytest.mark.parametrize("name", ["halo", "zero_halo"])
def test_case_infer_halo(shared, name):
    folder = shared / "cases" / "infer-halo"
    case = next(c for c in json.loads((folder / "expected.json").read_text())["cases"] if c["name"] == name)
    radius, block = case["model"]["radius"], tuple(case["output_block"])
    read = tuple(n + 2 * r for n, r in zip(block, radius, strict=True))
    model = LoadedModel("box", ModelGeometry((1,) * 3, (1,) * 3, read, block), box_sum(radius), "cpu", "1")
    found = predict(array_volume(np.load(folder / "raw.npy")), ModelRunner(model), PipelineSpec()).read()[0]
    found = found.astype("<u4")
    assert list(found.shape) == case["array"]["shape"]
    for index, value in case["array"]["values"].items():
        assert found[tuple(json.loads(index))] == value
    assert hashlib.sha256(found.tobytes()).hexdigest() == case["array"]["sha256_c_le"]
