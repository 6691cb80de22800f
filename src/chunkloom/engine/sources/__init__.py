"""Where volumes come from: stored datasets, arrays, and made-up ones."""

from chunkloom.engine.sources.array import array_volume
from chunkloom.engine.sources.dataset import open_volume
from chunkloom.engine.sources.level import LevelView
from chunkloom.engine.sources.schemes import Source
from chunkloom.engine.sources.stack import Stack

__all__ = ["LevelView", "Source", "Stack", "array_volume", "open_volume"]
