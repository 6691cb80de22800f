"""Cellpose: a 2-D network over the slices of a block."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from chunkloom.errors import ModelError
from chunkloom.models.geometry import ModelGeometry
from chunkloom.models.kinds.base import (
    Array,
    LoadedModel,
    ModelConfig,
    VoxelSize,
    file_version,
    first_line,
    missing_extra,
)

OUTPUTS = {"cellprob": ("cellprob",), "flows": ("flow_y", "flow_x", "cellprob"), "mask": ("mask",)}


class CellposeModelConfig(ModelConfig):
    """Cellpose over the z slices of a volume.

    Parameters
    ----------
    voxel_size
        nm; z, y, x, or one number for all.
    pretrained_model
        The name of a Cellpose model, or the file of one of your own.
    output
        "cellprob", "flows" (flow_y, flow_x, cellprob), or "mask" (1 inside any cell).
    slices_per_chunk
        Slices computed together.
    slice_size
        Voxels of a slice computed together, y and x, with the context.
    context
        Voxels read around each piece of a slice and cut off again.
    batch_size
        Pieces that Cellpose gives to the network together.
    diameter
        Of a cell, in voxels. Default: Cellpose's own.
    name
        What its volume is called.
    scale
        The raw data's level to read, such as "s1". Default: chosen by voxel size.
    """

    cli_name: ClassVar[str] = "cellpose"

    def __init__(
        self,
        voxel_size: VoxelSize,
        pretrained_model: str = "cpsam",
        output: Literal["cellprob", "flows", "mask"] = "cellprob",
        slices_per_chunk: int = 8,
        slice_size: int = 512,
        context: int = 32,
        batch_size: int = 8,
        diameter: float | None = None,
        name: str | None = None,
        scale: str | None = None,
    ) -> None:
        if output not in OUTPUTS:
            raise ModelError(f"cellpose: output is {output!r}: expected one of {', '.join(OUTPUTS)}")
        if slice_size <= 2 * context:
            raise ModelError(f"cellpose: slice_size {slice_size} leaves nothing between a context of {context}")
        self.pretrained_model = pretrained_model
        self.output = output
        self.batch_size = batch_size
        self.diameter = diameter
        self.context = context
        self.name = name
        self.scale = scale
        inner = slice_size - 2 * context
        self.geometry = ModelGeometry(
            input_voxel_size=voxel_size,
            output_voxel_size=voxel_size,
            input_shape=(slices_per_chunk, slice_size, slice_size),
            output_shape=(slices_per_chunk, inner, inner),
            output_channels=len(OUTPUTS[output]),
            channel_names=OUTPUTS[output],
        )

    def load(self) -> LoadedModel:
        try:
            from cellpose import core, models
        except ImportError as error:
            raise missing_extra(f"cellpose model {self.pretrained_model!r}", "cellpose", "cellpose") from error
        gpu = bool(core.use_gpu())
        try:
            model = models.CellposeModel(gpu=gpu, pretrained_model=self.pretrained_model)
        except Exception as error:
            # Cellpose raises what its download or torch raises.
            raise ModelError(f"cellpose model {self.pretrained_model!r}: {first_line(error)}") from error
        options: dict[str, Any] = {"batch_size": self.batch_size, "diameter": self.diameter}
        if "channels" in inspect.signature(model.eval).parameters:
            options["channels"] = [0, 0]  # needed before version 4, for grey images
        c = self.context

        def forward(block: Array) -> Array:
            pieces = list(block[0])
            masks, flows, *_ = model.eval(pieces, **options)
            found = np.stack([_planes(self.output, m, f) for m, f in zip(masks, flows, strict=True)], axis=1)
            return found[:, :, c : found.shape[2] - c, c : found.shape[3] - c].astype(np.float32)

        own = Path(self.pretrained_model)
        return LoadedModel(
            name=self.name or f"cellpose-{own.stem}",
            geometry=self.geometry,
            forward=forward,
            device="cuda" if gpu else "cpu",
            version=f"{own.name}-{self.diameter}-" + (file_version(own) if own.is_file() else "released"),
        )


def _planes(output: str, mask: Array, flow: list[Array]) -> Array:
    """(channels, y, x) of one slice, from what Cellpose gives: flow is [picture, (2, y, x) flow, probability, …]."""
    if output == "mask":
        return (mask > 0)[np.newaxis]
    if output == "flows":
        return np.concatenate([flow[1], flow[2][np.newaxis]])
    return flow[2][np.newaxis]
