"""`ModelRunner`: a loaded model with the slots of its device, checked by a warm-up forward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from chunkloom.errors import ChunkloomError, ModelError
from chunkloom.inference.slots import DeviceSlots
from chunkloom.models.kinds import LoadedModel

Array = np.ndarray[Any, np.dtype[Any]]
OutputClass = Literal["unit", "signed_unit", "unbounded"]


@dataclass(frozen=True, slots=True)
class Probe:
    """What the warm-up forward saw of the output: its range, and the class that says which postprocessing suits."""

    minimum: float
    maximum: float

    @property
    def output_class(self) -> OutputClass:
        if self.minimum >= -1e-4 and self.maximum <= 1 + 1e-4:
            return "unit"
        if self.minimum >= -1 - 1e-4 and self.maximum <= 1 + 1e-4:
            return "signed_unit"
        return "unbounded"


class ModelRunner:
    """Runs a model's forward on its device, in turn.

    Parameters
    ----------
    model
        A loaded model.
    slots
        Places on its device; one when left out.
    """

    def __init__(self, model: LoadedModel, slots: DeviceSlots | None = None) -> None:
        self.model = model
        self.slots = slots or DeviceSlots()

    def warm_up(self) -> Probe:
        """One forward of extreme input: checks the declared shapes and probes the output's range.

        Raises
        ------
        ModelError
            The output is not what the model declares, or the forward fails.
        """
        geometry = self.model.geometry
        shape = (geometry.input_channels, *geometry.input_shape)
        try:
            extreme = np.random.default_rng(0).standard_normal(shape, dtype=np.float32) * 100
        except (MemoryError, ValueError) as error:  # ValueError: more than numpy can count
            raise ModelError(f"model {self.model.name!r} declares an input of {shape}: {error}") from error
        out = self.forward(extreme)
        return Probe(float(out.min()), float(out.max()))

    def forward(self, block: Array, check: Callable[[], None] = lambda: None) -> Array:
        """The output of one input block, both channels first, float32. `check` may raise while waiting for a slot."""
        geometry = self.model.geometry
        with self.slots.hold(check):
            try:
                out = self.model.forward(block)
            except ChunkloomError:
                raise
            except (SystemExit, KeyboardInterrupt) as error:
                raise ModelError(
                    f"model {self.model.name!r}: its forward raises {type(error).__name__}({error}): it must return"
                ) from error
            except Exception as error:
                # Each framework raises classes of its own; the first line names the layer that failed.
                reason = (str(error).strip() or type(error).__name__).splitlines()[0]
                raise ModelError(
                    f"model {self.model.name!r}: its forward failed on an input of shape {block.shape}: {reason}"
                ) from error
        wanted = (geometry.output_channels, *geometry.output_shape)
        if out.shape != wanted:
            raise ModelError(
                f"model {self.model.name!r} declares an output of shape {wanted} (channels, z, y, x) for an input of "
                f"shape {block.shape}; its forward gives {out.shape}: correct the declared shapes or channels"
            )
        return out
