"""The steps of a chain (normalizers, postprocessors) as ops."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from chunkloom.chain.spec import PipelineSpec
from chunkloom.chain.steps import SampledNormalizer, Step
from chunkloom.engine.demand import UNCLAIMED
from chunkloom.engine.op import Op
from chunkloom.engine.volume import Array, Kind, Level, Volume
from chunkloom.geometry import Box


@dataclass(frozen=True)
class StepOp(Op):
    """One step of a chain. What it computes is the step's own `process`."""

    step: Step

    pad: ClassVar[Literal["edge", "constant", "cut"]] = "cut"

    @property
    def halo(self) -> tuple[int, int, int]:
        return self.step.halo

    def output_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return self.step.output_info(dtype, 1)[0]

    def output_level(self, level: Level) -> Level:
        if not level.channels:
            return dataclasses.replace(level, dtype=self.output_dtype(level.dtype))
        dtype, channels, _ = self.step.output_info(level.dtype, level.channels[0])
        shape = (channels, *level.shape[1:])
        return dataclasses.replace(level, dtype=dtype, shape=shape, chunk_shape=(channels, *level.chunk_shape[1:]))

    def apply(self, block: Array) -> Array:
        return self.step.process(block)

    def identity(self) -> dict[str, Any]:
        return {"op": "step", **self.step.to_dict()}


@dataclass(frozen=True)
class MaskStepOp(StepOp):
    """A step whose output is labels or a mask."""

    output_kind: ClassVar[Kind | None] = "labels"


def steps_as_ops(steps: Sequence[Step]) -> list[Op]:
    """An op for each step, in order."""
    return [MaskStepOp(step) if step.is_segmentation else StepOp(step) for step in steps]


def resolve_chain(spec: PipelineSpec, volume: Volume) -> PipelineSpec:
    """The chain with statistics of the whole volume taken from it and frozen into the steps that need them.

    They come from the coarsest level, or the one a step names: all of it, or a fixed sample of at most 64 MB.
    """
    from chunkloom.kernels.statistics import sample_boxes

    normalizers, _ = spec.build()
    waiting = [step for step in normalizers if isinstance(step, SampledNormalizer) and not step.resolved]
    if not waiting:
        return spec
    index = len(volume.levels) - 1 if waiting[0].level is None else waiting[0].level
    level = volume.level(index)
    itemsize = level.dtype.itemsize * int(np.prod(level.channels, dtype=np.int64))
    boxes = [Box(lo, hi) for lo, hi in sample_boxes(level.spatial_shape, itemsize)]
    return spec.resolved([volume.read_box(index, box, UNCLAIMED) for box in boxes])
