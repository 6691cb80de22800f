"""chunkloom shows, computes and keeps chunked volumes: a computation over a volume is a volume.

`open_volume`, `array_volume` and `Pipeline` make volumes; `ops` holds the built-in computations. Everything is
imported when first used, so that `import chunkloom` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from chunkloom.engine import ops
    from chunkloom.engine.materialize import Materialized, materialize
    from chunkloom.engine.op import Op
    from chunkloom.engine.pipeline import Pipeline
    from chunkloom.engine.sources import array_volume, open_volume
    from chunkloom.engine.volume import Level, Volume
    from chunkloom.geometry import Box, Grid, Roi
    from chunkloom.serving.app import create_app

__all__ = [
    "Box",
    "Grid",
    "Level",
    "Materialized",
    "Op",
    "Pipeline",
    "Roi",
    "Volume",
    "array_volume",
    "create_app",
    "materialize",
    "open_volume",
    "ops",
]

_HOMES = {
    "Box": "chunkloom.geometry",
    "Grid": "chunkloom.geometry",
    "Level": "chunkloom.engine.volume",
    "Materialized": "chunkloom.engine.materialize",
    "Op": "chunkloom.engine.op",
    "Pipeline": "chunkloom.engine.pipeline",
    "Roi": "chunkloom.geometry",
    "Volume": "chunkloom.engine.volume",
    "array_volume": "chunkloom.engine.sources",
    "create_app": "chunkloom.serving.app",
    "materialize": "chunkloom.engine.materialize",
    "open_volume": "chunkloom.engine.sources",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name == "ops":
        return importlib.import_module("chunkloom.engine.ops")
    if name not in _HOMES:
        raise AttributeError(f"module 'chunkloom' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
