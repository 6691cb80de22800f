"""`ModelConfig`: one model as a person names it; `LoadedModel`: what comes of loading it.

A kind of model is a subclass. Its constructor's parameters are its options everywhere: command line, YAML, forms.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from chunkloom.chain.spec import PipelineSpec
from chunkloom.models.geometry import ModelGeometry

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to run.

    Attributes
    ----------
    name
        What its volume is called.
    geometry
        What it declares; checked by a forward before it is used.
    forward
        float32 (input channels, z, y, x) of `geometry.input_shape` to float32 (output channels, z, y, x). Called from
        one thread per device slot.
    device
        Where it runs, in words: "cpu", "cuda:0".
    version
        Stands for the weights: another one whenever an output can differ.
    chain
        The normalizers and postprocessors used where nobody gives others.
    """

    name: str
    geometry: ModelGeometry
    forward: Callable[[Array], Array]
    device: str
    version: str
    chain: PipelineSpec = field(default_factory=PipelineSpec)


class ModelConfig(ABC):
    """One model, named and not yet loaded.

    The arguments it was made with are kept as given, so that `to_dict` is an entry that makes it again.
    """

    cli_name: ClassVar[str] = ""
    scale: str | None = None
    entry: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> ModelConfig:
        import inspect

        made = super().__new__(cls)
        bound = inspect.signature(cls.__init__).bind(made, *args, **kwargs)
        bound.apply_defaults()
        made.entry = {name: value for name, value in bound.arguments.items() if name != "self"}
        return made

    def to_dict(self) -> dict[str, Any]:
        """The model entry: its type and the arguments that were given."""
        return {"type": self.cli_name, **{k: v for k, v in self.entry.items() if v is not None}}

    @abstractmethod
    def load(self) -> LoadedModel:
        """Load it. Raises `ModelError` for one that cannot be, `MissingExtraError` where a package is needed."""


def file_version(*paths: Path) -> str:
    """A digest of the contents of files."""
    digest = hashlib.blake2b(digest_size=8)
    for path in paths:
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
