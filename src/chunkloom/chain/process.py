"""The chain of this process: what applies where neither a URL nor a script carries one.

In a dashboard it is the chain its user submitted. In a server or worker it is only the fallback, empty until
someone sets it.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any

from chunkloom.chain.spec import PipelineSpec
from chunkloom.chain.steps import InputNormalizer, PostProcessor

Built = tuple[tuple[InputNormalizer, ...], tuple[PostProcessor, ...]]


class ProcessChain:
    """The live steps of a process and the data they came from. `set` is the only way to change them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: tuple[PipelineSpec, Built] = (PipelineSpec(), ((), ()))

    @property
    def spec(self) -> PipelineSpec:
        """The chain as data."""
        return self._state[0]

    @property
    def input_norms(self) -> tuple[InputNormalizer, ...]:
        """The live steps before the model."""
        return self._state[1][0]

    @property
    def postprocess(self) -> tuple[PostProcessor, ...]:
        """The live steps after the model."""
        return self._state[1][1]

    @property
    def input_norm_config(self) -> list[dict[str, Any]]:
        """The steps before the model as they were received."""
        return self.spec.input_norm

    @property
    def postprocess_config(self) -> list[dict[str, Any]]:
        """The steps after the model as they were received."""
        return self.spec.postprocess

    def set(self, spec: PipelineSpec, built: Built | None = None) -> None:
        """Take `spec` as the chain; `built` are its live steps when the caller has them.

        Everything is built before anything changes, so a chain with a bad step leaves the old one in force.

        Raises
        ------
        ParameterError
            If a step does not exist or refuses its parameters.
        """
        made = spec.build() if built is None else (tuple(built[0]), tuple(built[1]))
        with self._lock:
            self._state = (spec, made)


@lru_cache(maxsize=1)
def process_chain() -> ProcessChain:
    """The one `ProcessChain` of this process."""
    return ProcessChain()
