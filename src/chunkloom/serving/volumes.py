"""From what a person asked to be served to named volumes: source, ops, model."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from chunkloom.chain.spec import PipelineSpec
from chunkloom.engine.op import Op
from chunkloom.engine.pipeline import Pipeline
from chunkloom.engine.sources import open_volume
from chunkloom.engine.volume import Volume
from chunkloom.errors import ParameterError
from chunkloom.inference.op import predict
from chunkloom.inference.runner import ModelRunner, Probe
from chunkloom.models.kinds import ModelConfig
from chunkloom.serving.app import RESERVED


@dataclass(frozen=True)
class Served:
    """Volumes by name, what to tell the person, and which of them is the raw data and which the result."""

    volumes: dict[str, Volume]
    notes: tuple[str, ...]
    raw: str
    result: str | None = None
    probe: Probe | None = None


def volumes_to_serve(
    source: str,
    *,
    ops: Sequence[Op] = (),
    model: ModelConfig | None = None,
    name: str | None = None,
    with_raw: bool = False,
    select: dict[str, int] | None = None,
    chunk: Sequence[int] | None = None,
) -> Served:
    """The volumes that one source, some ops and a model make.

    Without a model, one volume: the source with the ops applied (and the source itself as `raw` when asked for).
    With one, two: the source as `raw`, and the prediction, with the ops applied to it, under the model's name. The
    model is loaded and checked by a forward here, so that what is wrong with it is found before anything is served.
    """
    volume = open_volume(source, select=select)
    raw: Volume = Pipeline(volume, chunk=chunk)
    if model is None:
        called = checked_name(name_of(source) if name is None else name)
        if not ops:
            return Served({called: raw}, volume.warnings, raw=called)
        result = Pipeline(volume, ops, chunk=chunk)
        if not with_raw:
            return Served({called: result}, volume.warnings, raw=called, result=called)
        if called == "raw":
            called = "result"
        return Served({"raw": raw, called: result}, volume.warnings, raw="raw", result=called)
    loaded = model.load()
    runner = ModelRunner(loaded)
    probe = runner.warm_up()
    called = checked_name(loaded.name if name is None else name)
    if called == "raw":
        raise ParameterError("the raw data is served as 'raw': give the prediction another name with --name")
    prediction = predict(volume, runner, loaded.chain, scale=model.scale, ops=ops, chunk=chunk)
    notes = [*prediction.warnings, chain_note(loaded.name, bool(loaded.chain)), *range_notes(probe, loaded.chain)]
    return Served({"raw": raw, called: prediction}, tuple(notes), raw="raw", result=called, probe=probe)


def chain_note(model: str, has_chain: bool) -> str:
    """Which chain is in force for a server started without one."""
    if has_chain:
        return f"model {model!r}: the normalizers and postprocessors of its own model.json are used"
    return f"model {model!r} names no normalizers or postprocessors: raw voxels go in, its output is served as it is"


def range_notes(probe: Probe, chain: PipelineSpec) -> list[str]:
    """What the range of the warm-up's output says about the chain after the model."""
    if not (math.isfinite(probe.minimum) and math.isfinite(probe.maximum)):
        return [
            "the model gives NaN or infinity for extreme input (a hundred standard deviations): check its normalizers"
        ]
    steps = [step["name"] for step in chain.postprocess]
    span = f"[{probe.minimum:.3g}, {probe.maximum:.3g}]"
    if "SigmoidPostprocessor" in steps and probe.output_class == "unit":
        return [f"output range is {span}: this model already ends in a sigmoid; drop SigmoidPostprocessor"]
    if "SigmoidPostprocessor" in steps and probe.output_class == "signed_unit":
        return [f"output range is {span}: this model already ends in a tanh; drop SigmoidPostprocessor"]
    if not steps and probe.output_class == "unbounded":
        return [
            f"output range is {span}, not a probability: a SigmoidPostprocessor in model.json's chain would make it one"
        ]
    return []


def name_of(source: str) -> str:
    """A volume's name from its path: the last part that is not a level."""
    text = source.split("?")[0].split("|")[0].rstrip("/")
    parts = [part for part in re.split(r"[/\\]", text) if part and not part.endswith(":")]
    for part in reversed(parts):
        stem = re.sub(r"\.(zarr|n5|h5|hdf5|tiff?|ome)$", "", part.strip("/"))
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.")
        if stem and not re.fullmatch(r"s?\d+", stem):
            return f"volume-{stem}" if stem in RESERVED else stem
    return "volume"


def checked_name(name: str) -> str:
    """`name`, or a `ParameterError` where it cannot be a path segment."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or name in RESERVED:
        raise ParameterError(
            f"{name!r} cannot be a volume's name: expected letters, digits, '.', '_' and '-', and none of "
            f"{', '.join(sorted(RESERVED))}"
        )
    return name
