"""A chain as data: the steps before and after a model, as they travel in files, URLs and requests.

`PipelineSpec` is read at the edges and passed around; `build` makes the live steps from it. It knows the form
of a chain, not what the steps compute.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from chunkloom.chain.normalizers import resolve_normalizers
from chunkloom.chain.registry import S, build_step, steps_of
from chunkloom.chain.steps import InputNormalizer, PostProcessor, Step
from chunkloom.errors import ParameterError, nearest

logger = logging.getLogger(__name__)

CHAIN_KEYS = ("input_norm", "postprocess")
_LARGEST_BLOB = 1024 * 1024

StepData = dict[str, Any]


@dataclass(frozen=True)
class PipelineSpec:
    """An immutable chain: two ordered lists of steps `{"name": class, **parameters}`, values as given.

    Two specs are equal when their digests are: the order of steps counts, that of parameters does not. Make
    one with a `from_…` reader; `PipelineSpec()` is the empty chain.
    """

    # The canonical text is what is kept, so that nothing handed out can change the spec.
    _text: str = '{"input_norm":[],"postprocess":[]}'

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PipelineSpec) and self._sorted_text() == other._sorted_text()

    def __hash__(self) -> int:
        return hash(self._sorted_text())

    def __bool__(self) -> bool:
        return bool(self.input_norm or self.postprocess)

    @property
    def input_norm(self) -> list[StepData]:
        """The steps before the model; a copy."""
        steps: list[StepData] = json.loads(self._text)["input_norm"]
        return steps

    @property
    def postprocess(self) -> list[StepData]:
        """The steps after the model; a copy."""
        steps: list[StepData] = json.loads(self._text)["postprocess"]
        return steps

    # Readers

    @staticmethod
    def from_steps_data(input_norm: Iterable[Any], postprocess: Iterable[Any]) -> PipelineSpec:
        """From two lists of steps `{"name": class, **parameters}`."""
        chains = {
            "input_norm": _steps(input_norm, "input_norm"),
            "postprocess": _steps(postprocess, "postprocess"),
        }
        try:
            text = json.dumps(chains, separators=(",", ":"), allow_nan=False, default=_plain_value)
        except (TypeError, ValueError, RecursionError) as error:
            raise ParameterError(f"a chain holds a value that JSON cannot: {error}") from error
        return PipelineSpec(text)

    @staticmethod
    def from_json_data(data: Any, *, strict: bool = False) -> PipelineSpec:
        """From `{"input_norm": …, "postprocess": …}` as a mapping or JSON text; other keys are passed over.

        Each chain is a list of steps, or the older form `{class: {parameters}}`. Without `strict`, a chain
        that is absent or null is empty.

        Raises
        ------
        ParameterError
            If it is anything else, or with `strict` a chain is absent.
        """
        data = _mapping(data)
        chains: dict[str, Any] = {}
        for key in CHAIN_KEYS:
            if strict and key not in data:
                raise ParameterError(f"a chain needs the key {key!r}; found {_keys(data)}")
            chains[key] = _chain_steps(data.get(key), key, strict)
        return PipelineSpec.from_steps_data(**chains)

    @staticmethod
    def from_request(data: Any) -> PipelineSpec:
        """From the body of a request: both chains, as lists of flat steps of known names. No older forms.

        Raises
        ------
        ParameterError
            If it is anything else; for an unknown step with the nearest name.
        """
        data = _mapping(data)
        for key in CHAIN_KEYS:
            if not isinstance(data.get(key), list):
                raise ParameterError(f"a chain needs {key!r} as a list of steps, got {data.get(key)!r}")
        spec = PipelineSpec.from_steps_data(data["input_norm"], data["postprocess"])
        for base, steps in ((InputNormalizer, spec.input_norm), (PostProcessor, spec.postprocess)):
            known = steps_of(base)
            for step in steps:
                if step["name"] not in known:
                    raise ParameterError(f"unknown step {step['name']!r}; {nearest(step['name'], tuple(known))}")
        return spec

    @staticmethod
    def from_url_blob(blob: str) -> tuple[PipelineSpec, dict[str, Any]]:
        """The chain in a layer URL, and what else the blob carries (`dashboard_url`, …).

        Raises
        ------
        ParameterError
            If the blob is not URL-safe base64 of a JSON object with both chains, or carries a `digest` that
            is not the chain's: the URL was changed or cut on its way.
        """
        data = _decode_blob(blob)
        spec = PipelineSpec.from_json_data(data, strict=True)
        extras = {key: value for key, value in data.items() if key not in CHAIN_KEYS}
        if "digest" in extras and extras["digest"] != spec.digest():
            raise ParameterError(
                f"the chain in the URL was changed: its digest is {spec.digest()}, the URL says "
                f"{extras['digest']!r}; copy the link again from where it came from"
            )
        return spec, extras

    @staticmethod
    def from_steps(input_norm: Iterable[Step], postprocess: Iterable[Step]) -> PipelineSpec:
        """From live steps, by their `to_dict`."""
        return PipelineSpec.from_steps_data(
            [step.to_dict() for step in input_norm], [step.to_dict() for step in postprocess]
        )

    @staticmethod
    def from_builder_nodes(normalizers: Iterable[Any], postprocessors: Iterable[Any]) -> PipelineSpec:
        """From nodes of the pipeline builder, `{"name": class, "params": {…}}`."""
        return PipelineSpec.from_steps_data(_nodes(normalizers), _nodes(postprocessors))

    # Writers

    def to_json_data(self) -> dict[str, list[StepData]]:
        """`{"input_norm": [step, …], "postprocess": [step, …]}`; a copy."""
        data: dict[str, list[StepData]] = json.loads(self._text)
        return data

    def to_url_blob(self, **extras: Any) -> str:
        """The chain and then `extras` for a layer URL: compact JSON as URL-safe base64 without padding."""
        for key in extras:
            if key in CHAIN_KEYS:
                raise ParameterError(f"{key!r} is the chain's own key; it cannot be an extra of its URL")
        text = json.dumps({**self.to_json_data(), **extras}, separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def digest(self) -> str:
        """First 16 hex digits of the SHA-256 of the chain as compact JSON with sorted keys."""
        return hashlib.sha256(self._sorted_text().encode()).hexdigest()[:16]

    def _sorted_text(self) -> str:
        return json.dumps(json.loads(self._text), sort_keys=True, separators=(",", ":"))

    # Live steps

    def build(self) -> tuple[tuple[InputNormalizer, ...], tuple[PostProcessor, ...]]:
        """The live steps.

        Raises
        ------
        ParameterError
            If a step does not exist or refuses its parameters.
        """
        return (
            tuple(build_step(InputNormalizer, step) for step in self.input_norm),
            tuple(build_step(PostProcessor, step) for step in self.postprocess),
        )

    def without_unknown(self) -> PipelineSpec:
        """The chain without the steps that do not exist here, with a warning for each: for old files."""
        return PipelineSpec.from_steps_data(
            _known(self.input_norm, InputNormalizer), _known(self.postprocess, PostProcessor)
        )

    def canonical(self) -> PipelineSpec:
        """The chain with every value parsed and every default written out: equal chains, equal digests."""
        return PipelineSpec.from_steps(*self.build())

    def resolved(self, sample: NDArray[Any] | Sequence[NDArray[Any]]) -> PipelineSpec:
        """The canonical chain with whole-volume statistics taken from `sample` and frozen into it."""
        normalizers, post = self.build()
        return PipelineSpec.from_steps(resolve_normalizers(normalizers, sample), post)


def chain_output_dtype(postprocess: Iterable[Step], model_dtype: DTypeLike) -> np.dtype[Any]:
    """Dtype after the steps: what the last one to declare one says, else the model's."""
    return _output_info(postprocess, model_dtype, 1)[0]


def chain_num_channels(postprocess: Iterable[Step], model_channels: int) -> int:
    """Number of channels after the steps."""
    return _output_info(postprocess, np.float32, model_channels)[1]


def chain_is_segmentation(postprocess: Iterable[Step]) -> bool | None:
    """What the last step to say anything says; False for no steps, None when none of the steps says."""
    steps = list(postprocess)
    return _output_info(steps, np.float32, 1)[2] if steps else False


def _output_info(steps: Iterable[Step], dtype: DTypeLike, channels: int) -> tuple[np.dtype[Any], int, bool | None]:
    known, labels = np.dtype(dtype), None
    for step in steps:
        known, channels, says = step.output_info(known, channels)
        labels = labels if says is None else says
    return known, channels, labels


def _mapping(data: Any) -> Mapping[str, Any]:
    if isinstance(data, (str, bytes)):
        try:
            data = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ParameterError(f"a chain must be JSON: {error}") from None
    if not isinstance(data, Mapping):
        raise ParameterError(f"a chain must be an object with {' and '.join(CHAIN_KEYS)}, got {_short(data)}")
    return data


def _chain_steps(value: Any, key: str, strict: bool) -> list[Any]:
    if value is None and not strict:
        return []
    if isinstance(value, Mapping):
        return [_old_form_step(name, parameters, key) for name, parameters in value.items()]
    if isinstance(value, (list, tuple)):
        return list(value)
    raise ParameterError(f"{key} must be a list of steps, got {_short(value)}")


def _old_form_step(name: Any, parameters: Any, key: str) -> StepData:
    if parameters is not None and not isinstance(parameters, Mapping):
        raise ParameterError(f"{key}: the parameters of {name!r} must be an object, got {_short(parameters)}")
    return {**(parameters or {}), "name": name}


def _steps(steps: Iterable[Any], key: str) -> list[StepData]:
    if isinstance(steps, (str, bytes, Mapping)):
        raise ParameterError(f"{key} must be a list of steps, got {_short(steps)}")
    return [_step(step, f"{key}[{index}]") for index, step in enumerate(steps)]


def _step(step: Any, where: str) -> StepData:
    if not isinstance(step, Mapping):
        raise ParameterError(f'{where} must be an object {{"name": …}}, got {_short(step)}')
    name = step.get("name")
    if not isinstance(name, str) or not name:
        raise ParameterError(f'{where} must have the step\'s class as "name", got {_short(dict(step))}')
    if isinstance(step.get("params"), Mapping):
        raise ParameterError(f'{where}: the parameters of {name} stand beside "name", not inside "params"')
    if not all(isinstance(key, str) for key in step):
        raise ParameterError(f"{where}: the parameter names of {name} must be text, got {_short(dict(step))}")
    return {"name": name, **{key: value for key, value in step.items() if key != "name"}}


def _nodes(nodes: Iterable[Any]) -> list[StepData]:
    steps = []
    for index, node in enumerate(nodes):
        if not isinstance(node, Mapping) or not isinstance(node.get("params") or {}, Mapping):
            raise ParameterError(f'node {index} must be an object {{"name", "params"}}, got {_short(node)}')
        steps.append({**(node.get("params") or {}), "name": node.get("name")})
    return steps


def _known(steps: list[StepData], base: type[S]) -> list[StepData]:
    known, kept = steps_of(base), []
    for step in steps:
        if step["name"] in known:
            kept.append(step)
        else:
            logger.warning("skipping unknown step %r; %s", step["name"], nearest(step["name"], tuple(known)))
    return kept


def _decode_blob(blob: str) -> dict[str, Any]:
    if not isinstance(blob, str) or len(blob) > _LARGEST_BLOB:
        raise ParameterError(f"the chain in the URL must be text of at most {_LARGEST_BLOB} characters")
    body = blob.rstrip("=")
    try:
        raw = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
        data = json.loads(raw.decode())
    except (binascii.Error, ValueError, RecursionError) as error:
        raise ParameterError(
            f"the chain in the URL cannot be read ({error}); expected URL-safe base64 of JSON: {_short(blob)}"
        ) from None
    if not isinstance(data, dict):
        raise ParameterError(f"the chain in the URL must be a JSON object, got {_short(data)}")
    return data


def _plain_value(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{value!r} is {type(value).__name__}")


def _keys(data: Mapping[str, Any]) -> str:
    return ", ".join(repr(key) for key in data) or "nothing"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
