"""A task made ready: what it will write, planned from geometry alone, and the computing of a block."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from chunkloom.blockwise.markers import Progress, fail, marker_name
from chunkloom.blockwise.outputs import Output, Store, outputs_of
from chunkloom.blockwise.plan import Plan, inward, make_plan
from chunkloom.blockwise.task import BlockwiseTask
from chunkloom.engine.volume import Array
from chunkloom.errors import ChunkloomError, ModelError
from chunkloom.geometry import Box

if TYPE_CHECKING:
    from chunkloom.engine.pipeline import Pipeline
    from chunkloom.models.kinds import LoadedModel, ModelConfig


@dataclass(frozen=True)
class Prepared:
    """A task with its pipeline. `model` may be known by its geometry alone (`planned`), and then computes nothing."""

    task: BlockwiseTask
    pipeline: Pipeline
    model: LoadedModel
    plan: Plan
    outputs: tuple[Output, ...]

    @property
    def progress(self) -> Progress:
        return Progress(self.task.progress_dir)

    @cached_property
    def stores(self) -> tuple[Store, ...]:
        kind = self.pipeline.kind
        return tuple(Store(self.task.output_path, output, self.task.format, kind) for output in self.outputs)

    def task_id(self, number: int) -> str:
        """daisy's name for a region."""
        name = f"predict_{_word(self.model.name)}_{self.task.stem}"
        return f"{name}_roi{number}" if len(self.plan.regions) > 1 else name

    def marker(self, index: Sequence[int]) -> str:
        """The marker of a block."""
        return marker_name(self.outputs[0].level.grid, self.plan.box(index))

    def identity(self) -> dict[str, Any]:
        """Everything that decides what is written."""
        return {
            "result": self.pipeline.digest,
            "outputs": {o.name: {"channels": o.channels, **o.level.describe()} for o in self.outputs},
            "regions": [str(region.box) for region in self.plan.regions],
            "block_size": list(self.plan.block),
            "fit": self.task.fit,
            "format": self.task.format,
            "output_path": str(self.task.output_path),
        }

    def compute(self, index: Sequence[int]) -> Array:
        """The voxels of a block, cut to the array; 0 outside all regions."""
        box = self.plan.box(index)
        written = self.plan.written(index)
        found = self.pipeline.read(box.shift(self.plan.offset))
        if any(part == box for part in written):
            return found
        out = np.zeros_like(found)
        for part in written:
            out[part.index(box.lo)] = found[part.index(box.lo)]
        return out

    def process(self, number: int, index: Sequence[int]) -> bool:
        """Compute and write a block and mark it finished; False where it failed, with its traceback kept."""
        name, progress = self.marker(index), self.progress
        if progress.of(self.task_id(number)).done(name):
            return True
        try:
            block = self.compute(index)
            for store in self.stores:
                store.write(index, block)
        except Exception:
            fail(progress.failures, f"{self.task_id(number)}__{name}", traceback.format_exc())
            return False
        progress.of(self.task_id(number)).mark(name)
        return True


def planned(task: BlockwiseTask) -> Prepared:
    """The task from geometry alone: with a `model.json` beside the weights, no model is loaded.

    Raises
    ------
    ChunkloomError
        The file, the model or the data do not fit. Nothing is written.
    """
    config = _model_config(task)
    return _prepared(task, config, _described(config) or config.load())


def loaded(task: BlockwiseTask) -> Prepared:
    """The task with its model loaded, and checked by a forward."""
    config = _model_config(task)
    return _prepared(task, config, config.load())


def _prepared(task: BlockwiseTask, config: ModelConfig, model: LoadedModel) -> Prepared:
    from chunkloom.engine.sources import open_volume
    from chunkloom.inference.op import predict
    from chunkloom.inference.runner import ModelRunner

    session = task.config
    chain = session.chain if session.chain is not None else model.chain
    volume = open_volume(session.data_path)
    pipeline = predict(volume, ModelRunner(model), chain, scale=config.scale)
    result = pipeline.levels[0]
    raw = pipeline.stages[0].source.levels[0] if hasattr(pipeline.stages[0], "source") else None
    extent = _whole_voxels(result.spatial_shape, raw, model)
    boxes = [inward(roi, result.grid) for roi in task.boxes]
    block = task.block_size or tuple(min(b, n) for b, n in zip(model.geometry.output_shape, extent.shape, strict=True))
    plan = make_plan(extent, boxes, block, task.fit, separate=task.separate)
    names = model.geometry.channel_names
    outputs = outputs_of(result, plan, task.output_channels, names, model.name)
    return Prepared(task, pipeline, model, plan, outputs)


def _whole_voxels(shape: Sequence[int], raw: Any, model: LoadedModel) -> Box:
    """The output voxels that lie wholly in the raw data: what is served rounds up, what is written does not."""
    if raw is None:
        return Box.of_shape(shape)
    pairs = zip(shape, raw.spatial_shape, model.geometry.factor, strict=True)
    return Box.of_shape([min(n, int(np.floor(round(m / f, 6)))) for n, m, f in pairs])


def _model_config(task: BlockwiseTask) -> ModelConfig:
    from chunkloom.models.registry import build_model

    entry = task.config.models[0]
    try:
        return build_model(entry.to_dict())
    except ChunkloomError as error:
        raise task.config.error(entry.where, str(error)) from error


def _described(config: ModelConfig) -> LoadedModel | None:
    """The model as its `model.json` describes it; None without one."""
    from chunkloom.models.kinds import LoadedModel
    from chunkloom.models.kinds.base import file_version
    from chunkloom.models.modeljson import find_model_json, read_model_json

    path = getattr(config, "path", None)
    found = find_model_json(Path(path)) if path is not None else None
    if path is None or found is None or config.to_dict()["type"] != "onnx":
        return None
    card = read_model_json(found)
    weights = Path(path) if Path(path).suffix == ".onnx" else card.weights
    name = getattr(config, "name", None) or card.name

    def forward(block: Array) -> NoReturn:
        raise ModelError(f"model {name!r} was planned with, not loaded")

    return LoadedModel(name, card.geometry, forward, "none", file_version(weights, found), card.chain)


def _word(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name)
