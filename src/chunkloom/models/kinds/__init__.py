"""The kinds of model, one module each. Importing this makes them known to the registry."""

from chunkloom.models.kinds.base import LoadedModel, ModelConfig
from chunkloom.models.kinds.onnx import OnnxModelConfig
from chunkloom.models.kinds.script import ScriptModelConfig

__all__ = ["LoadedModel", "ModelConfig", "OnnxModelConfig", "ScriptModelConfig"]
