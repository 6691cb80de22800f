"""TorchScript models: one file, and the `model.json` beside it that says what it reads and writes."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from chunkloom.models.kinds.torch_module import LoadedModule, TorchModelConfig, load_torchscript
from chunkloom.models.modeljson import card_of


class TorchScriptModelConfig(TorchModelConfig):
    """A TorchScript file with a `model.json` beside it.

    Parameters
    ----------
    path
        The file, its folder, or its `model.json`.
    name
        What its volume is called. Default: the name in `model.json`.
    scale
        The raw data's level to read, such as "s1". Default: chosen by voxel size.
    """

    cli_name: ClassVar[str] = "torchscript"

    def __init__(self, path: str, name: str | None = None, scale: str | None = None) -> None:
        self.path = Path(path)
        self.name = name
        self.scale = scale

    def load_module(self) -> LoadedModule:
        card, beside = card_of(self.path)
        weights = card.weights if self.path.is_dir() or self.path.suffix == ".json" else self.path
        return LoadedModule(
            load_torchscript(weights),
            card.geometry,
            self.name or card.name,
            (weights, beside),
            card.chain,
            card.input_axes,
        )
