"""TensorFlow SavedModels, with the channels last as TensorFlow has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from chunkloom.errors import ModelError
from chunkloom.models.geometry import ModelGeometry
from chunkloom.models.kinds.base import (
    Array,
    LoadedModel,
    ModelConfig,
    Names,
    Shape,
    VoxelSize,
    file_version,
    first_line,
    missing_extra,
    names_of,
)


class TensorFlowModelConfig(ModelConfig):
    """A TensorFlow SavedModel.

    Its input is (1, z, y, x, channels) or (1, z, y, x); the first output of `serving_default` is used.

    Parameters
    ----------
    path
        The folder with `saved_model.pb`.
    input_voxel_size
        nm; z, y, x, or one number for all.
    input_size
        Voxels read by one forward, z, y, x.
    output_size
        Voxels written by one forward. Default: as many as are read.
    output_voxel_size
        nm. Default: the input's.
    channels
        The names of the output channels. Default: one, unnamed.
    name
        What its volume is called. Default: the folder's name.
    scale
        The raw data's level to read, such as "s1". Default: chosen by voxel size.
    """

    cli_name: ClassVar[str] = "tensorflow"

    def __init__(
        self,
        path: str,
        input_voxel_size: VoxelSize,
        input_size: Shape,
        output_size: Shape | None = None,
        output_voxel_size: VoxelSize | None = None,
        channels: Names | None = None,
        name: str | None = None,
        scale: str | None = None,
    ) -> None:
        self.path = Path(path)
        self.name = name
        self.scale = scale
        self.geometry = ModelGeometry(
            input_voxel_size=input_voxel_size,
            output_voxel_size=output_voxel_size or input_voxel_size,
            input_shape=input_size,
            output_shape=output_size or input_size,
            output_channels=max(1, len(names_of(channels or ()))),
            channel_names=names_of(channels or ()),
        )

    def load(self) -> LoadedModel:
        if not (self.path / "saved_model.pb").is_file():
            raise ModelError(f"{self.path}: expected a folder with saved_model.pb")
        try:
            import tensorflow
        except ImportError as error:
            raise missing_extra(f"TensorFlow model {self.path.name}", "TensorFlow", "tensorflow") from error
        try:
            signature = tensorflow.saved_model.load(str(self.path)).signatures["serving_default"]
            (key, spec), *more = signature.structured_input_signature[1].items()
        except Exception as error:
            # TensorFlow has its own errors, and a KeyError for a signature that is not there.
            raise ModelError(f"{self.path}: cannot be loaded: {first_line(error)}") from error
        axes = len(spec.shape)
        if more or axes not in (4, 5):
            raise ModelError(f"{self.path}: its input has {axes} axes: expected one input, (1, z, y, x, channels)")

        def forward(block: Array) -> Array:
            given: Any = np.moveaxis(block[np.newaxis], 1, -1) if axes == 5 else block
            out = signature(**{key: tensorflow.constant(np.ascontiguousarray(given), dtype=spec.dtype)})
            array = np.asarray(next(iter(out.values())).numpy())[0]
            placed = np.moveaxis(array, -1, 0) if array.ndim == 4 else array[np.newaxis]
            return np.asarray(placed, np.float32)

        files = sorted(p for p in self.path.rglob("*") if p.is_file())
        return LoadedModel(
            name=self.name or self.path.resolve().name,
            geometry=self.geometry,
            forward=forward,
            device="as TensorFlow chooses",
            version=file_version(*files),
        )
