"""`Inferencer`: regions of the world through normalizers, a model and postprocessors, for scripts and workers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chunkloom.chain.process import process_chain
from chunkloom.chain.steps import PostProcessor
from chunkloom.engine.volume import Array
from chunkloom.geometry import Roi
from chunkloom.inference.imagedata import ImageDataInterface
from chunkloom.inference.runner import ModelRunner


def predict(idi: ImageDataInterface, output_roi: Any, runner: ModelRunner) -> Array:
    """The model's output over one of its blocks: (channels, z, y, x) float32.

    `output_roi` is nm, of the model's write shape; what is read is that with the model's context on each side.
    """
    geometry = runner.model.geometry
    context = [c * v for c, v in zip(geometry.context, geometry.input_voxel_size, strict=True)]
    data = idi.to_ndarray_ts(Roi.of(output_roi).grow(context, context)).astype(np.float32, copy=False)
    return runner.forward(data if data.ndim == 4 else data[np.newaxis])


def apply_postprocess(data: Array, steps: Sequence[PostProcessor], **context: Any) -> Array:
    """`data` through the steps in order; `context` is `chunk_corner` and `chunk_num_voxels`, for those that ask."""
    for step in steps:
        data = step.process(data, **context)
    return data


class Inferencer:
    """A model and what follows it.

    Parameters
    ----------
    runner
        The model on its device.
    postprocess
        Steps after the model. Default: those of this process's chain, as they are at each call.
    """

    def __init__(self, runner: ModelRunner, postprocess: Sequence[PostProcessor] | None = None) -> None:
        self.runner = runner
        self._postprocess = None if postprocess is None else tuple(postprocess)

    def process_chunk(self, idi: ImageDataInterface, roi: Any) -> Array:
        """One block (nm, the model's write shape) predicted and postprocessed."""
        geometry = self.runner.model.geometry
        steps = process_chain().postprocess if self._postprocess is None else self._postprocess
        region = Roi.of(roi)
        # Which block it is, counted from the data's corner: object ids are those a server gives.
        corner = tuple(
            round((b - o) / w) for b, o, w in zip(region.begin, idi.offset, geometry.write_shape, strict=True)
        )
        return apply_postprocess(
            predict(idi, region, self.runner),
            steps,
            chunk_corner=corner,
            chunk_num_voxels=math.prod(geometry.output_shape),
        )
