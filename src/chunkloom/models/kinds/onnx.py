"""ONNX models: weights in one file, the rest in the `model.json` beside it. Runs on onnxruntime."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from chunkloom.errors import ModelError
from chunkloom.models.geometry import ModelGeometry
from chunkloom.models.kinds.base import Array, LoadedModel, ModelConfig, file_version
from chunkloom.models.modeljson import bundled_models, find_model_json, read_model_json


class OnnxModelConfig(ModelConfig):
    """An ONNX file with a `model.json` beside it.

    Parameters
    ----------
    path
        The `.onnx` file, its folder, its `model.json`, or the name of a bundled model.
    name
        What its volume is called. Default: the name in `model.json`.
    scale
        The raw data's level to read, such as "s1". Default: chosen by voxel size.
    """

    cli_name: ClassVar[str] = "onnx"

    def __init__(self, path: str, name: str | None = None, scale: str | None = None) -> None:
        self.path = bundled_models().get(path, Path(path))
        self.name = name
        self.scale = scale

    def load(self) -> LoadedModel:
        found = find_model_json(self.path)
        if found is None:
            if not self.path.exists():
                raise ModelError(f"no such model: {self.path}")
            names = " or ".join(dict.fromkeys([self.path.with_suffix(".json").name, "model.json"]))
            raise ModelError(f"{self.path}: expected {names} beside it, which gives voxel sizes and shapes")
        card = read_model_json(found)
        weights = self.path if self.path.suffix == ".onnx" else card.weights
        session = _session(weights)
        input_name = session.get_inputs()[0].name
        output_name = session.get_outputs()[0].name
        _check_inputs(weights, session, card.geometry)

        def forward(block: Array) -> Array:
            out = session.run([output_name], {input_name: np.ascontiguousarray(block[np.newaxis], np.float32)})[0]
            result: Array = np.asarray(out)[0]
            return result

        return LoadedModel(
            name=self.name or card.name,
            geometry=card.geometry,
            forward=forward,
            device="cuda" if "CUDAExecutionProvider" in session.get_providers() else "cpu",
            version=file_version(weights, found),
            chain=card.chain,
        )


def _session(weights: Path) -> Any:
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS") or 0)
    # Threads that spin between forwards take the cores that reading and encoding need.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    wanted = [
        p for p in ("CUDAExecutionProvider", "CPUExecutionProvider") if p in onnxruntime.get_available_providers()
    ]
    try:
        return onnxruntime.InferenceSession(str(weights), options, providers=wanted)
    except Exception as error:
        # onnxruntime raises classes of its own with no common base but Exception.
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(f"{weights}: onnxruntime cannot load it: {reason}") from error


def _check_inputs(weights: Path, session: Any, geometry: ModelGeometry) -> None:
    inputs, outputs = session.get_inputs(), session.get_outputs()
    if len(inputs) != 1:
        names = ", ".join(i.name for i in inputs)
        raise ModelError(f"{weights}: has {len(inputs)} inputs ({names}): expected one, (1, channels, z, y, x) float32")
    if len(outputs) < 1 or len(inputs[0].shape) != 5:
        raise ModelError(
            f"{weights}: input {inputs[0].name!r} has shape {inputs[0].shape}: expected 5 axes, (1, channels, z, y, x)"
        )
    wanted = (1, geometry.input_channels, *geometry.input_shape)
    for axis, (fixed, n) in enumerate(zip(inputs[0].shape, wanted, strict=True)):
        if isinstance(fixed, int) and fixed not in (n, -1):
            raise ModelError(
                f"{weights}: input {inputs[0].name!r} has shape {inputs[0].shape}, model.json says {list(wanted)}: "
                f"they differ on axis {axis}"
            )
