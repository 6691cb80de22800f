"""The kinds of model, one module each. Importing this makes them known to the registry, and imports no framework."""

from chunkloom.models.kinds.base import LoadedModel, ModelConfig
from chunkloom.models.kinds.bioimage import BioimageModelConfig
from chunkloom.models.kinds.cellmap import CellMapModelConfig
from chunkloom.models.kinds.cellpose import CellposeModelConfig
from chunkloom.models.kinds.dacapo import DaCapoModelConfig
from chunkloom.models.kinds.exported import ExportedModelConfig
from chunkloom.models.kinds.finetune import FinetuneModelConfig
from chunkloom.models.kinds.fly import FlyModelConfig
from chunkloom.models.kinds.huggingface import HuggingFaceModelConfig
from chunkloom.models.kinds.onnx import OnnxModelConfig
from chunkloom.models.kinds.script import ScriptModelConfig
from chunkloom.models.kinds.tensorflow import TensorFlowModelConfig
from chunkloom.models.kinds.torch_module import LoadedModule, TorchModelConfig
from chunkloom.models.kinds.torchscript import TorchScriptModelConfig

__all__ = [
    "BioimageModelConfig",
    "CellMapModelConfig",
    "CellposeModelConfig",
    "DaCapoModelConfig",
    "ExportedModelConfig",
    "FinetuneModelConfig",
    "FlyModelConfig",
    "HuggingFaceModelConfig",
    "LoadedModel",
    "LoadedModule",
    "ModelConfig",
    "OnnxModelConfig",
    "ScriptModelConfig",
    "TensorFlowModelConfig",
    "TorchModelConfig",
    "TorchScriptModelConfig",
]
