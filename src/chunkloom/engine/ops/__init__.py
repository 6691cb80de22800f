"""The built-in ops: importing this module makes them known by name."""

from chunkloom.engine.ops.channels import Channels, Expression
from chunkloom.engine.ops.filters import DifferenceOfGaussians, Gaussian, Gradient, Median, Uniform
from chunkloom.engine.ops.labels import ConnectedComponents, Contacts, Label
from chunkloom.engine.ops.morphology import Close, Dilate, Erode, FillHoles, Open
from chunkloom.engine.ops.pointwise import Cast, Clip, Invert, Scale, Threshold
from chunkloom.engine.ops.python import Python
from chunkloom.engine.ops.resample import Downsample
from chunkloom.engine.ops.steps import StepOp, steps_as_ops

__all__ = [
    "Cast",
    "Channels",
    "Clip",
    "Close",
    "ConnectedComponents",
    "Contacts",
    "DifferenceOfGaussians",
    "Dilate",
    "Downsample",
    "Erode",
    "Expression",
    "FillHoles",
    "Gaussian",
    "Gradient",
    "Invert",
    "Label",
    "Median",
    "Open",
    "Python",
    "Scale",
    "StepOp",
    "Threshold",
    "Uniform",
    "steps_as_ops",
]
