"""`ModelConfig`: one model as a person names it; `LoadedModel`: what comes of loading it.

A kind of model is a subclass. Its constructor's parameters are its options everywhere: command line, YAML, forms.
"""

from __future__ import annotations

import hashlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from chunkloom.chain.spec import PipelineSpec
from chunkloom.errors import MissingExtraError
from chunkloom.models.geometry import ModelGeometry

Array = np.ndarray[Any, np.dtype[Any]]
# What parameters may be. An option, a key or a form field is parsed by the annotation of its parameter.
VoxelSize = tuple[float, float, float]
Shape = tuple[int, int, int]
Names = tuple[str, ...]


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
    other_names: ClassVar[tuple[str, ...]] = ()  # further words for the kind, in older files
    aliases: ClassVar[dict[str, str]] = {}  # older names of parameters
    ignored: ClassVar[tuple[str, ...]] = ()  # what older entries also held
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
        return {"type": self.cli_name, **{k: _plain(v) for k, v in self.entry.items() if v is not None}}

    @abstractmethod
    def load(self) -> LoadedModel:
        """Load it. Raises `ModelError` for one that cannot be, `MissingExtraError` where a package is needed."""


def _plain(value: Any) -> Any:
    """The value as YAML and JSON hold it."""
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, Path):
        return str(value)
    # 8, not 8.0: as people write it.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def names_of(channels: str | Sequence[str]) -> Names:
    """Names of channels; a single one may be given as text."""
    return (channels,) if isinstance(channels, str) else tuple(channels)


def missing_extra(what: str, package: str, extra: str) -> MissingExtraError:
    """The error for a package that is not installed: what needs it, and the command that installs it."""
    return MissingExtraError(
        f"{what} needs {package}, which is not installed: {sys.executable} -m pip install 'chunkloom[{extra}]'"
    )


def channels_first(out: Array) -> Array:
    """What a model gave for one block as (c, z, y, x): the batch is taken off, a missing axis of channels added."""
    if out.ndim >= 4 and out.shape[0] == 1:
        out = out[0]
    return out[np.newaxis] if out.ndim == 3 else out


def first_line(error: BaseException) -> str:
    """The first line of what a framework says, for a message of one line."""
    text = str(error).strip()
    return text.splitlines()[0].strip() if text else type(error).__name__


def file_version(*paths: Path) -> str:
    """A digest of the contents of files."""
    digest = hashlib.blake2b(digest_size=8)
    for path in paths:
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
