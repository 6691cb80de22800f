"""A model as an op of a pipeline, and the pipeline of a model over a volume."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from chunkloom.chain.normalizers import raw_channel
from chunkloom.chain.spec import PipelineSpec
from chunkloom.engine.op import CoarsePolicy, Op
from chunkloom.engine.ops.channels import Channels
from chunkloom.engine.ops.steps import resolve_chain, steps_as_ops
from chunkloom.engine.pipeline import Pipeline, Stage
from chunkloom.engine.sources.level import LevelView, level_for, level_named
from chunkloom.engine.volume import Array, Kind, Level, Volume
from chunkloom.errors import ModelError
from chunkloom.geometry import Box, Grid, same_voxel_size
from chunkloom.inference.runner import ModelRunner

if TYPE_CHECKING:
    from chunkloom.engine.cache import ChunkCache
    from chunkloom.engine.demand import Work


@dataclass(frozen=True)
class Inference(Op):
    """A model's forward over a volume, one output tile at a time.

    What lies outside the data is 0 *after* the normalizers. Tiles lie on a grid from voxel 0, so a tile is the same
    whoever asks; the tile in which the data ends is computed whole and cut. The voxels are taken as they are: where
    their size is not the model's own, the output's is scaled alike.
    """

    runner: ModelRunner

    cache: ClassVar[bool] = True
    dear: ClassVar[bool] = True
    pad: ClassVar[Literal["edge", "constant", "cut"]] = "constant"
    coarse: ClassVar[CoarsePolicy] = "downsample"
    output_kind: ClassVar[Kind | None] = "image"

    @property
    def block(self) -> tuple[int, int, int]:
        return self.runner.model.geometry.output_shape

    def output_level(self, level: Level) -> Level:
        geometry = self.runner.model.geometry
        channels = level.channels[0] if level.channels else 1
        if len(level.channels) > 1 or channels != geometry.input_channels:
            raise ModelError(
                f"model {self.runner.model.name!r} reads {geometry.input_channels} channel(s), the data has "
                f"{level.channels or 1}: choose one with --select c=0"
            )
        factor = geometry.factor
        shape = tuple(int(np.ceil(round(n / f, 9))) for n, f in zip(level.spatial_shape, factor, strict=True))
        return dataclasses.replace(
            level,
            shape=(geometry.output_channels, *shape),
            chunk_shape=(geometry.output_channels, *geometry.output_shape),
            axes=("c", "z", "y", "x"),
            dtype=np.dtype(np.float32),
            grid=level.grid.downsampled(factor),
        )

    def needs(self, box: Box) -> Box:
        geometry = self.runner.model.geometry
        lo = tuple(round(b * f) - c for b, f, c in zip(box.lo, geometry.factor, geometry.context, strict=True))
        return Box(lo, tuple(b + n for b, n in zip(lo, geometry.input_shape, strict=True)))

    def run(self, block: Array, box: Box, level: int, work: Work) -> Array:
        given = block if block.ndim == 4 else block[np.newaxis]
        out = self.runner.forward(given.astype(np.float32, copy=False), work.check)
        return out.astype(np.float32, copy=False)

    def identity(self) -> dict[str, Any]:
        return self.describe()

    def describe(self) -> dict[str, Any]:
        model = self.runner.model
        return {
            "op": "model",
            "version": model.version,
            "input": list(model.geometry.input_shape),
            "output": list(model.geometry.output_shape),
        }


def predict(
    volume: Volume,
    runner: ModelRunner,
    chain: PipelineSpec,
    *,
    scale: str | None = None,
    ops: Sequence[Op] = (),
    chunk: Sequence[int] | None = None,
    cache: ChunkCache | None = None,
    predictions: ChunkCache | None = None,
) -> Pipeline:
    """The prediction of a model over a volume, as a volume.

    Where the voxels of the level read are of another size than the model's, a warning says so.

    Parameters
    ----------
    volume
        The raw data.
    runner
        The model on its device.
    chain
        Normalizers before and postprocessors after the forward.
    scale
        The level to read, as "s1" or "1". Default: the coarsest no coarser than the model's input voxel size.
    ops
        Applied to the result.
    chunk
        Chunk shape of the result, z, y, x. Default: the model's output shape.
    cache, predictions
        Where chunks are kept, and where the model's output is; the process's cache when left out.
    """
    geometry = runner.model.geometry
    chosen = level_for(volume, geometry.input_voxel_size, "floor") if scale is None else level_named(volume, scale)
    source: Volume = LevelView(volume, chosen)
    channel = raw_channel(chain.build()[0])
    if channel is not None and source.levels[0].channels:
        source = Pipeline(source, [Channels(channel)], coarse="op")
    normalizers, postprocessors = resolve_chain(chain, source).build()
    steps = [*steps_as_ops(normalizers), Inference(runner), *steps_as_ops(postprocessors), *ops]
    made = Pipeline(source, steps, chunk=chunk, cache=cache)
    for stage in made.stages:
        if predictions is not None and isinstance(stage, Stage) and isinstance(stage.op, Inference):
            stage.cache = predictions
    made.warnings = (*volume.warnings, *_size_warning(source.levels[0].grid, geometry.input_voxel_size, runner))
    return made


def _size_warning(grid: Grid, wanted: Sequence[float], runner: ModelRunner) -> tuple[str, ...]:
    if same_voxel_size(grid.voxel_size_nm, wanted):
        return ()
    found, expected = (", ".join(f"{v:g}" for v in size) for size in (grid.voxel_size_nm, wanted))
    return (
        f"model {runner.model.name!r} was made for voxels of {expected} nm; the level read has {found} nm (z, y, x) "
        "and is read voxel for voxel",
    )
