"""The steps of a chain (normalizers, postprocessors) as ops."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from chunkloom.chain.blockwise_merger import SimpleBlockwiseMerger
from chunkloom.chain.spec import PipelineSpec
from chunkloom.chain.steps import SampledNormalizer, Step
from chunkloom.engine.demand import UNCLAIMED
from chunkloom.engine.op import CoarsePolicy, Op
from chunkloom.engine.volume import Array, Kind, Level, Volume
from chunkloom.errors import ParameterError
from chunkloom.geometry import Box
from chunkloom.kernels.seams import Seams


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

    def apply_at(self, block: Array, box: Box, level: int) -> Array:
        # The block ends where the data does, which is at voxel 0 or at the far end.
        before = tuple(min(h, b) for h, b in zip(self.halo, box.lo, strict=True))
        after = tuple(n - m - b for n, m, b in zip(block.shape[-3:], box.shape, before, strict=True))
        return self.step.process_cropped(block, before, after, **self.context(box))

    def context(self, box: Box) -> dict[str, Any]:
        """What the step is told of where it is."""
        return {}

    def identity(self) -> dict[str, Any]:
        return self.describe()

    def describe(self) -> dict[str, Any]:
        return {"op": "step", **self.step.to_dict()}


@dataclass(frozen=True)
class MaskStepOp(StepOp):
    """A step whose output is a mask."""

    output_kind: ClassVar[Kind | None] = "mask"


@dataclass(frozen=True)
class LabelsStepOp(StepOp):
    """A step whose output is labels."""

    output_kind: ClassVar[Kind | None] = "labels"


@dataclass(frozen=True)
class ChunkStepOp(StepOp):
    """A step that is given whole chunks, of the pipeline's grid, and told which."""

    chunk: tuple[int, int, int] | None = None

    coarse: ClassVar[CoarsePolicy] = "downsample"

    @property
    def block(self) -> tuple[int, int, int] | None:
        return self.chunk

    @property
    def seams(self) -> Seams | None:
        seams: Seams | None = getattr(self.step, "seams", None)
        return seams

    def bind(self, source: Volume, chunk: Sequence[int]) -> Self:
        z, y, x = self.chunk or chunk
        # What a step has found is of one volume: each pipeline gets a step of its own.
        step: Any = self.step
        if self.seams is not None:
            step = dataclasses.replace(step)
        return dataclasses.replace(self, step=step, chunk=(z, y, x))

    def note(self, chunk: Sequence[int], made: Array) -> None:
        if isinstance(self.step, SimpleBlockwiseMerger):
            self.step.note(chunk, made)

    def context(self, box: Box) -> dict[str, Any]:
        assert self.chunk is not None, "a pipeline binds the op to a grid before it computes"
        index = tuple(b // n for b, n in zip(box.lo, self.chunk, strict=True))
        return {"chunk_corner": index, "chunk_num_voxels": math.prod(self.chunk)}

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "chunk": self.chunk}


@dataclass(frozen=True)
class ChunkLabelsStepOp(ChunkStepOp):
    """A step that makes labels of whole chunks."""

    output_kind: ClassVar[Kind | None] = "labels"


@dataclass(frozen=True)
class ChunkMaskStepOp(ChunkStepOp):
    """A step that makes a mask of whole chunks."""

    output_kind: ClassVar[Kind | None] = "mask"


def steps_as_ops(steps: Sequence[Step]) -> list[Op]:
    """An op for each step, in order."""
    return [_as_op(step) for step in steps]


def _as_op(step: Step) -> Op:
    if not step.is_segmentation:
        return ChunkStepOp(step) if step.whole_chunks else StepOp(step)
    # A byte says what belongs to something; ids are of more.
    mask = step.output_info(np.float32, 1)[0].itemsize == 1
    if step.whole_chunks:
        return ChunkMaskStepOp(step) if mask else ChunkLabelsStepOp(step)
    return MaskStepOp(step) if mask else LabelsStepOp(step)


def resolve_chain(spec: PipelineSpec, volume: Volume) -> PipelineSpec:
    """The chain with statistics of the whole volume taken from it and frozen into the steps that need them.

    They come from the coarsest level, or the one a step names: all of it, or a fixed sample of at most 64 MB.
    """
    from chunkloom.kernels.statistics import sample_boxes

    normalizers, _ = spec.build()
    waiting = [step for step in normalizers if isinstance(step, SampledNormalizer) and not step.resolved]
    if not waiting:
        return spec
    named = {step.level for step in waiting}
    if len(named) > 1:
        raise ParameterError(f"the steps of one chain take statistics of levels {named}: name one level for all")
    index = len(volume.levels) - 1 if waiting[0].level is None else waiting[0].level
    level = volume.level(index)
    itemsize = level.dtype.itemsize * math.prod(level.channels)
    boxes = [Box(lo, hi) for lo, hi in sample_boxes(level.spatial_shape, itemsize)]
    return spec.resolved([volume.read_box(index, box, UNCLAIMED) for box in boxes])
