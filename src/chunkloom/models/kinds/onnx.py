"""ONNX models: weights in one file, the rest in the `model.json` beside it. Runs on onnxruntime."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from chunkloom.errors import ModelError
from chunkloom.models.geometry import ModelGeometry
from chunkloom.models.kinds.base import Array, LoadedModel, ModelConfig, channels_first, file_version
from chunkloom.models.modeljson import bundled_models, card_of

FLOATS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


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
        card, found = card_of(self.path)
        weights = self.path if self.path.suffix == ".onnx" else card.weights
        session, forward = onnx_forward(weights, card.geometry)
        return LoadedModel(
            name=self.name or card.name,
            geometry=card.geometry,
            forward=forward,
            device="cuda" if "CUDAExecutionProvider" in session.get_providers() else "cpu",
            version=file_version(weights, found),
            chain=card.chain,
        )


def onnx_forward(weights: Path, geometry: ModelGeometry) -> tuple[Any, Callable[[Array], Array]]:
    """The session of an ONNX file, and its forward from (c, z, y, x) to (c, z, y, x), float32.

    The graph's input may be (1, c, z, y, x), (1, z, y, x) or (z, y, x), and of any size of float.
    """
    session = open_session(weights)
    _check_inputs(weights, session, geometry)
    given, wanted = session.get_inputs()[0], session.get_outputs()[0].name
    dtype, axes = FLOATS[given.type], len(given.shape)

    def forward(block: Array) -> Array:
        placed = block[np.newaxis] if axes == 5 else block if axes == 4 else block[0]
        out = session.run([wanted], {given.name: np.ascontiguousarray(placed, dtype)})[0]
        return channels_first(np.asarray(out)).astype(np.float32, copy=False)

    return session, forward


def open_session(weights: Path) -> Any:
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
    given = inputs[0]
    if given.type not in FLOATS:
        raise ModelError(
            f"{weights}: input {given.name!r} is {given.type}: expected float32, float16 or float64. Export it with "
            "a float input and cast inside the graph, so that normalizers have an effect"
        )
    channels = geometry.input_channels
    layouts: dict[int, tuple[int, ...]] = {5: (1, channels, *geometry.input_shape)}
    if channels == 1:
        layouts |= {4: (1, *geometry.input_shape), 3: geometry.input_shape}
    wanted = layouts.get(len(given.shape))
    if not outputs or wanted is None:
        raise ModelError(
            f"{weights}: input {given.name!r} has shape {given.shape}: expected 5 axes, (1, channels, z, y, x)"
        )
    for axis, (fixed, n) in enumerate(zip(given.shape, wanted, strict=True)):
        if isinstance(fixed, int) and fixed not in (n, -1):
            raise ModelError(
                f"{weights}: input {given.name!r} has shape {given.shape}, model.json says {list(wanted)}: "
                f"they differ on axis {axis}"
            )
