"""`ServedModel`: a model on its device, over one volume, under any chain; and what it says of itself.

Knows no HTTP.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from chunkloom.chain.spec import PipelineSpec
from chunkloom.engine.cache import ChunkCache
from chunkloom.engine.op import Op
from chunkloom.engine.pipeline import Pipeline
from chunkloom.engine.volume import Volume
from chunkloom.geometry import same_voxel_size
from chunkloom.inference.op import predict
from chunkloom.inference.runner import ModelRunner, Probe
from chunkloom.serving.protocol import ENGINE, SERVER


@dataclass(frozen=True)
class ServedModel:
    """A loaded and checked model over a volume.

    Attributes
    ----------
    runner
        The model on its device.
    source
        The raw data.
    probe
        What the warm-up forward saw.
    chain
        The chain in force where a URL carries none.
    chain_source
        Where that comes from: "given", "model.json" or "none".
    scale
        The level to read, or None for the one that suits the model's voxel size.
    predictions
        Where the model's output is kept, before postprocessing; the process's cache when left out.
    """

    runner: ModelRunner
    source: Volume
    probe: Probe | None = None
    chain: PipelineSpec = field(default_factory=PipelineSpec)
    chain_source: str = "none"
    scale: str | None = None
    predictions: ChunkCache | None = None

    @property
    def name(self) -> str:
        return self.runner.model.name

    def prediction(
        self, chain: PipelineSpec, *, ops: Sequence[Op] = (), chunk: Sequence[int] | None = None
    ) -> Pipeline:
        """The prediction under `chain`. Raises as `predict`."""
        return predict(
            self.source, self.runner, chain, scale=self.scale, ops=ops, chunk=chunk, predictions=self.predictions
        )

    def layer(self, chain: PipelineSpec) -> Pipeline:
        """The prediction under the chain of a layer's URL: one chunk is one tile of the model."""
        return self.prediction(chain, chunk=self.runner.model.geometry.output_shape)

    def info(self, volume: Volume) -> dict[str, Any]:
        """What `/__control__/model_info` answers; `volume` is the prediction. Members are only ever added."""
        model, level = self.runner.model, volume.levels[0]
        geometry = model.geometry
        effective = level.grid.voxel_size_nm
        read = [v / f for v, f in zip(effective, geometry.factor, strict=True)]
        relabelled = not same_voxel_size(read, geometry.input_voxel_size)
        return {
            "output_channels": geometry.output_channels,
            "channels": list(geometry.channel_names) or None,
            "write_shape": _numbers(geometry.write_shape),
            "read_shape": _numbers(geometry.read_shape),
            "output_voxel_size": _numbers(geometry.output_voxel_size),
            "input_voxel_size": _numbers(geometry.input_voxel_size),
            "effective_output_voxel_size": _numbers(effective),
            "has_channel": bool(level.channels),
            "output_axes": list(level.axes),
            **self._range(),
            "engine": ENGINE,
            "server": SERVER,
            "input_resampled_from": None,
            "input_relabelled_from": _numbers(read) if relabelled else None,
            "name": model.name,
            "device": model.device,
            "version": model.version,
            "input_shape": list(geometry.input_shape),
            "output_shape": list(geometry.output_shape),
            "input_channels": geometry.input_channels,
            "output_dtype": geometry.output_dtype,
            "chain": self.chain.to_json_data(),
            "chain_source": self.chain_source,
        }

    def _range(self) -> dict[str, Any]:
        probe = self.probe
        if probe is None:
            return {"available": False, "reason": "the model's output was not probed"}
        if not (math.isfinite(probe.minimum) and math.isfinite(probe.maximum)):
            return {"available": False, "reason": "the model gives NaN or infinity for extreme input"}
        return {
            "available": True,
            "output_class": probe.output_class,
            "output_min": probe.minimum,
            "output_max": probe.maximum,
        }


def _numbers(values: Sequence[float]) -> list[int | float]:
    """Whole numbers as such: older readers expect 8, not 8.0."""
    return [int(v) if float(v).is_integer() else float(v) for v in (round(v, 9) for v in values)]
