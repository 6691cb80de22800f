"""The mean of 3 x 3 x 3 voxels as an ONNX model with two channels, the second the negative of the first."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

SHAPE = (21, 18, 27)
VOXEL_NM = (10.48, 3.24, 8.0)


def box_mean_model(folder: Path) -> Path:
    onnx = pytest.importorskip("onnx", reason="needs the train extra")
    from onnx import TensorProto, helper

    weights = np.full((2, 1, 3, 3, 3), 1 / 27, np.float32)
    weights[1] *= -1
    node = helper.make_node("Conv", ["raw", "w"], ["out"])
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("raw", TensorProto.FLOAT, [1, 1, "z", "y", "x"])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 2, "c", "b", "a"])],
        [helper.make_tensor("w", TensorProto.FLOAT, weights.shape, weights.ravel())],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, folder / "model.onnx")
    card = {
        "format": "chunkloom-model/1",
        "name": "mean",
        "weights": "model.onnx",
        "input_voxel_size_nm": list(VOXEL_NM),
        "output_voxel_size_nm": list(VOXEL_NM),
        "input_shape": [10, 10, 10],
        "output_shape": [8, 8, 8],
        "channels": ["mean", "negative"],
    }
    (folder / "model.json").write_text(json.dumps(card))
    return folder
