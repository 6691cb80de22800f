"""From the body of a request to a volume: what may be opened is opened, the model is loaded, the ops are applied."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from chunkloom.engine.op import Op, make_op
from chunkloom.engine.pipeline import Pipeline, Stage
from chunkloom.engine.sources import open_volume
from chunkloom.engine.sources.dataset import DatasetVolume
from chunkloom.engine.volume import Volume, behind
from chunkloom.errors import ChunkloomError, ParameterError
from chunkloom.serving.access import ApiOptions

log = logging.getLogger(__name__)


def build_volume(spec: dict[str, Any], options: ApiOptions) -> Volume:
    """The volume of a checked body.

    Raises
    ------
    AccessError
        Something that may not be opened.
    ChunkloomError
        Whatever is wrong with the spec, in one line.
    """
    try:
        made = _build(spec, options)
        _ = made.digest  # hashes an array in memory: here, not where requests are answered
        return made
    except ChunkloomError:
        raise
    except Exception as error:
        # An op or source may refuse in a way of its own; the body is all it was given.
        log.exception("a volume could not be made")
        raise ParameterError(f"this volume cannot be made: {type(error).__name__}: {error}") from error


def _build(spec: dict[str, Any], options: ApiOptions) -> Volume:
    ops = [_op(entry) for entry in spec.get("ops", ())]
    wanted = spec.get("model")
    model: str | dict[str, Any] | None = None
    if wanted is not None:
        from chunkloom.models.modeljson import bundled_models

        model = options.admitted_model(wanted, tuple(bundled_models()))
    volume = open_volume(options.sources.admitted(spec["source"]), select=spec.get("select") or None)
    for path in stored_paths(volume):
        # A group may list arrays that lie elsewhere.
        options.sources.admitted(path)
    if model is None:
        return Pipeline(volume, ops)
    from chunkloom.inference.op import predict
    from chunkloom.inference.runner import ModelRunner
    from chunkloom.models.registry import build_model, parse_model

    loaded = (parse_model(model) if isinstance(model, str) else build_model(model)).load()
    runner = ModelRunner(loaded)
    runner.warm_up()
    return predict(volume, runner, loaded.chain, ops=ops)


def _op(entry: dict[str, Any]) -> Op:
    return make_op(entry["op"], {key: _frozen(value) for key, value in entry.items() if key != "op"})


def _frozen(value: Any) -> Any:
    """JSON data with tuples for lists, as an op's fields have them."""
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value


def stored_paths(volume: Volume) -> Iterator[str]:
    """Where the stored arrays behind a volume lie."""
    for part in behind(volume):
        if isinstance(part, DatasetVolume):
            yield from (array.meta.path for array in part.arrays)


def described(volume: Volume) -> dict[str, Any]:
    """What a volume is made of, as far as it can be told: of one that was not made from a request."""
    source: str | None = None
    ops: list[dict[str, Any]] = []
    for part in behind(volume):
        if isinstance(part, Stage):
            ops = [part.op.describe(), *ops]
        if isinstance(part, DatasetVolume) and part.arrays and source is None:
            source = part.arrays[0].meta.path
    return {"source": source, "ops": ops}
