"""The built-in ops: importing this module makes them known by name."""

from chunkloom.engine.ops.pointwise import Cast, Clip, Invert, Scale, Threshold
from chunkloom.engine.ops.steps import StepOp, steps_as_ops

__all__ = ["Cast", "Clip", "Invert", "Scale", "StepOp", "Threshold", "steps_as_ops"]
