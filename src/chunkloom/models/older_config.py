"""Names that older model scripts import for their configuration: `Config`, and the older class names of kinds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from chunkloom.models.kinds import BioimageModelConfig as BioModelConfig


class Config(SimpleNamespace):
    """A bag of settings by name, as attributes and by `get` and `to_dict`."""

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self, name, default)

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


__all__ = ["BioModelConfig", "Config"]
