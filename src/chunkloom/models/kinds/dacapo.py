"""Runs of DaCapo: a trained run and the iteration whose weights are wanted, from DaCapo's own stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from chunkloom.errors import ModelError
from chunkloom.models.geometry import ModelGeometry
from chunkloom.models.kinds.base import first_line, missing_extra
from chunkloom.models.kinds.torch_module import LoadedModule, TorchModelConfig, load_state


class DaCapoModelConfig(TorchModelConfig):
    """A trained run of DaCapo.

    Parameters
    ----------
    run_name
        The run, as DaCapo's store calls it.
    iteration
        The iteration whose weights are used.
    name
        What its volume is called. Default: the run's name.
    scale
        The raw data's level to read, such as "s1". Default: chosen by voxel size.
    """

    cli_name: ClassVar[str] = "dacapo"

    def __init__(self, run_name: str, iteration: int, name: str | None = None, scale: str | None = None) -> None:
        self.run_name = run_name
        self.iteration = iteration
        self.name = name
        self.scale = scale

    def load_module(self) -> LoadedModule:
        what = f"DaCapo run {self.run_name!r}"
        try:
            from dacapo.experiments import Run
            from dacapo.store.create_store import create_config_store, create_weights_store
        except ImportError as error:
            raise missing_extra(what, "dacapo-ml", "dacapo") from error
        try:
            run = Run(create_config_store().retrieve_run_config(self.run_name))
            weights = create_weights_store().retrieve_weights(self.run_name, self.iteration)
        except Exception as error:
            # A store may be files or a database, each with errors of its own.
            raise ModelError(f"{what}, iteration {self.iteration}: cannot be had: {first_line(error)}") from error
        load_state(run.model, getattr(weights, "model", weights), Path(f"{self.run_name}/{self.iteration}"))
        return LoadedModule(run.model, _geometry(run, what), self.name or self.run_name, ())


def _geometry(run: Any, what: str) -> ModelGeometry:
    """Shapes from the model, the voxel size from the first training data set, names from the task."""
    datasets = getattr(run.datasplit, "train", None) or []
    if not datasets:
        raise ModelError(f"{what}: has no training data, whose voxel size is the model's")
    read = [int(n) for n in run.model.eval_input_shape]
    channels, write = run.model.compute_output_shape(run.model.eval_input_shape)
    size = datasets[0].raw.voxel_size
    return ModelGeometry(
        input_voxel_size=[float(v) for v in size],  # type: ignore[arg-type]
        output_voxel_size=[float(v) for v in run.model.scale(size)],  # type: ignore[arg-type]
        input_shape=read,  # type: ignore[arg-type]
        output_shape=[int(n) for n in write],  # type: ignore[arg-type]
        output_channels=int(channels),
        channel_names=_names(run.task, int(channels)),
        input_channels=int(getattr(run.model, "num_in_channels", 1) or 1),
    )


def _names(task: Any, channels: int) -> tuple[str, ...]:
    for place in (task, getattr(task, "predictor", None)):
        named = getattr(place, "channels", None) or getattr(place, "classes", None)
        if named and len(named) == channels:
            return tuple(str(n) for n in named)
        offsets = getattr(place, "neighborhood", None)
        if offsets is not None and len(offsets) == channels:
            return tuple("aff_" + "_".join(str(int(v)) for v in offset) for offset in offsets)
    return ()
