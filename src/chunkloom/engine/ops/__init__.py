"""The built-in ops: importing this module makes them known by name."""

from chunkloom.engine.ops.channels import Channels, Expression
from chunkloom.engine.ops.filters import DifferenceOfGaussians, Gaussian, Gradient, Median, Uniform
from chunkloom.engine.ops.morphology import Close, Dilate, Erode, FillHoles, Open
from chunkloom.engine.ops.pointwise import Cast, Clip, Invert, Scale, Threshold
from chunkloom.engine.ops.steps import StepOp, steps_as_ops

__all__ = [
    "Cast",
    "Channels",
    "Clip",
    "Close",
    "DifferenceOfGaussians",
    "Dilate",
    "Erode",
    "Expression",
    "FillHoles",
    "Gaussian",
    "Gradient",
    "Invert",
    "Median",
    "Open",
    "Scale",
    "StepOp",
    "Threshold",
    "Uniform",
    "steps_as_ops",
]
