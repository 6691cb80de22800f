"""Makes `model/`: a small ONNX model of known weights, its `model.json`, what it makes of a volume by SciPy.

Run `python tests/conformance/make_model_case.py`; needs the package onnx.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

import make_materialize_cases as whole
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from scipy import ndimage

FOLDER = Path(__file__).parent / "model"
INPUT, OUTPUT = (12, 14, 16), (8, 10, 12)


def weights() -> np.ndarray:
    """Two kernels of 5 x 5 x 5, by a formula."""
    index = np.arange(2 * 125, dtype=np.int64)
    return ((index * 37 % 101 - 50) / 2500).astype(np.float32).reshape(2, 1, 5, 5, 5)


def model() -> onnx.ModelProto:
    bias = np.array([0.25, -0.5], np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["raw", "kernel", "bias"], ["logits"]),
            helper.make_node("Sigmoid", ["logits"], ["probability"]),
        ],
        "two_kernels",
        [helper.make_tensor_value_info("raw", TensorProto.FLOAT, [1, 1, *INPUT])],
        [helper.make_tensor_value_info("probability", TensorProto.FLOAT, [1, 2, *OUTPUT])],
        [numpy_helper.from_array(weights(), "kernel"), numpy_helper.from_array(bias, "bias")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    onnx.checker.check_model(made)
    return made


def timed_model() -> onnx.ModelProto:
    """Two layers on 48 x 48 x 48 voxels: as much work for its size as a small real model. For benchmarks."""
    first = (np.arange(8 * 125, dtype=np.int64) * 37 % 101 - 50).astype(np.float32).reshape(8, 1, 5, 5, 5) / 2500
    second = (np.arange(2 * 8 * 27, dtype=np.int64) * 53 % 97 - 48).astype(np.float32).reshape(2, 8, 3, 3, 3) / 500
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["raw", "first"], ["a"]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Conv", ["b", "second"], ["c"]),
            helper.make_node("Sigmoid", ["c"], ["probability"]),
        ],
        "two_layers",
        [helper.make_tensor_value_info("raw", TensorProto.FLOAT, [1, 1, 48, 48, 48])],
        [helper.make_tensor_value_info("probability", TensorProto.FLOAT, [1, 2, 42, 42, 42])],
        [numpy_helper.from_array(first, "first"), numpy_helper.from_array(second, "second")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    onnx.checker.check_model(made)
    return made


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    onnx.save(timed_model(), FOLDER / "two_layers.onnx")
    onnx.save(model(), FOLDER / "two_kernels.onnx")
    described = {
        "format": "chunkloom-model/1",
        "name": "two-kernels",
        "weights": "two_kernels.onnx",
        "input_voxel_size_nm": [8, 8, 8],
        "output_voxel_size_nm": [8, 8, 8],
        "input_shape": [*INPUT],
        "output_shape": [*OUTPUT],
        "input_channels": 1,
        "channels": ["first", "second"],
        "output_dtype": "float32",
        "chain": {
            "input_norm": [{"name": "MinMaxNormalizer", "min_value": 0, "max_value": 255, "invert": False}],
            "postprocess": [],
        },
    }
    (FOLDER / "model.json").write_text(json.dumps(described, indent=2) + "\n")
    src = whole.source(whole.level((19, 23, 21), (8, 8, 8)))
    x = whole.min_max(whole.whole_array(src, 0))[0].astype(np.float64)
    logits = [
        ndimage.correlate(x, kernel[0].astype(np.float64), mode="constant", cval=0) + bias
        for kernel, bias in zip(weights(), (0.25, -0.5), strict=True)
    ]
    expected = (1 / (1 + np.exp(-np.stack(logits)))).astype("<f4")
    case = {
        "about": "Normalized, padded with 0 outside the volume, one forward per chunk of the output's shape.",
        "source": src,
        "tolerance": 1e-4,
        "expected": {
            "channels": [2],
            "chunk": [*OUTPUT],
            "values": base64.b64encode(expected.tobytes()).decode(),
        },
    }
    (FOLDER / "case.json").write_text(json.dumps(case, indent=1) + "\n")


if __name__ == "__main__":
    main()
