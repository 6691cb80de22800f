"""From what a person asked to be served to named volumes: source, ops, model."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from chunkloom.chain.spec import PipelineSpec
from chunkloom.engine.cache import ChunkCache
from chunkloom.engine.op import Op
from chunkloom.engine.ops.steps import resolve_chain, steps_as_ops
from chunkloom.engine.pipeline import Pipeline
from chunkloom.engine.sources import open_volume
from chunkloom.engine.volume import Volume
from chunkloom.errors import ParameterError
from chunkloom.inference.runner import ModelRunner
from chunkloom.models.kinds import ModelConfig
from chunkloom.serving.app import RESERVED
from chunkloom.serving.probe import review_postprocess
from chunkloom.serving.served_model import ServedModel


@dataclass(frozen=True)
class Served:
    """Volumes by name, what to tell the person, and which of them is the raw data and which the result.

    `models` are those behind predictions, by the prediction's name. `apart` are names of volumes that whoever shows
    them has layers of its own for.
    """

    volumes: dict[str, Volume]
    notes: tuple[str, ...]
    raw: str
    result: str | None = None
    models: dict[str, ServedModel] = field(default_factory=dict)
    apart: frozenset[str] = frozenset()

    @property
    def shown(self) -> dict[str, Volume]:
        """The volumes that are shown each by what it is."""
        return {name: volume for name, volume in self.volumes.items() if name not in self.apart}


def volumes_to_serve(
    source: str,
    *,
    ops: Sequence[Op] = (),
    model: ModelConfig | None = None,
    name: str | None = None,
    with_raw: bool = False,
    select: dict[str, int] | None = None,
    chunk: Sequence[int] | None = None,
    chain: PipelineSpec | None = None,
    predictions: ChunkCache | None = None,
) -> Served:
    """The volumes that one source, some ops and a model make.

    Without a model, one volume: the source with the ops applied (and the source itself as `raw` when asked for).
    With one, two: the source as `raw`, and the prediction, with the ops applied to it, under the model's name. The
    model is loaded and checked by a forward here, so that what is wrong with it is found before anything is served.
    `chain` stands in for the model's own; `predictions` keeps the model's output.
    """
    if model is not None:
        models = [(name, model)]
        return models_to_serve(
            source, models, ops=ops, select=select, chunk=chunk, chain=chain, predictions=predictions
        )
    volume = open_volume(source, select=select)
    raw: Volume = Pipeline(volume, chunk=chunk)
    called = checked_name(name_of(source) if name is None else name)
    if not ops:
        return Served({called: raw}, volume.warnings, raw=called)
    result = Pipeline(volume, ops, chunk=chunk)
    if not with_raw:
        return Served({called: result}, volume.warnings, raw=called, result=called)
    if called == "raw":
        called = "result"
    return Served({"raw": raw, called: result}, volume.warnings, raw="raw", result=called)


def models_to_serve(
    source: str,
    models: Sequence[tuple[str | None, ModelConfig]],
    *,
    ops: Sequence[Op] = (),
    select: dict[str, int] | None = None,
    chunk: Sequence[int] | None = None,
    chain: PipelineSpec | None = None,
    predictions: ChunkCache | None = None,
    normalized_raw: bool = False,
) -> Served:
    """The source as `raw`, and the prediction of each model over it under its name.

    Parameters
    ----------
    models
        The name that each prediction gets (the model's own where None), and the model.
    chain
        The chain around every model; each one's own where None.
    normalized_raw
        Whether `raw` is what the models see, after the normalizers of `chain`.

    Raises
    ------
    ParameterError
        Two predictions of one name, or one that cannot be served.
    """
    volume = open_volume(source, select=select)
    first = steps_as_ops(resolve_chain(chain, volume).build()[0]) if normalized_raw and chain is not None else []
    volumes: dict[str, Volume] = {"raw": Pipeline(volume, first, chunk=chunk)}
    served: dict[str, ServedModel] = {}
    notes: list[str] = [*volume.warnings]
    for asked, config in models:
        loaded = config.load()
        runner = ModelRunner(loaded)
        probe = runner.warm_up()
        called = addressable(loaded.name) if asked is None else checked_name(asked)
        if called == "raw":
            raise ParameterError("the raw data is served as 'raw': give the prediction another name with --name")
        if called in volumes:
            raise ParameterError(f"two models are called {called!r}: give each a name of its own")
        # An empty chain is one too, where it was given.
        origin = "given" if chain is not None else "model.json" if loaded.chain else "none"
        model = ServedModel(
            runner,
            volume,
            probe,
            loaded.chain if chain is None else chain,
            origin,
            scale=config.scale,
            predictions=predictions,
        )
        prediction = model.prediction(model.chain, ops=ops, chunk=chunk)
        volumes[called], served[called] = prediction, model
        notes += [note for note in prediction.warnings if note not in notes]
        notes += [*chain_notes(model), *range_notes(model)]
    result = next(iter(served), None)
    return Served(volumes, tuple(notes), raw="raw", result=result, models=served)


def chain_notes(model: ServedModel) -> list[str]:
    """Which chain is in force for a model whose user gave none."""
    if model.chain_source == "model.json":
        return [f"model {model.name!r}: the normalizers and postprocessors of its own model.json are used"]
    if model.chain:
        return []
    return [
        f"model {model.name!r} names no normalizers or postprocessors: raw voxels go in, its output is served as it is"
    ]


def range_notes(model: ServedModel) -> list[str]:
    """What the range of the warm-up's output says about the chain after the model."""
    probe = model.probe
    if probe is None:
        return []
    if not (math.isfinite(probe.minimum) and math.isfinite(probe.maximum)):
        return [
            "the model gives NaN or infinity for extreme input (a hundred standard deviations): check its normalizers"
        ]
    geometry = model.runner.model.geometry
    advice = review_postprocess(
        model.chain.postprocess,
        probe.output_class,
        channels=geometry.output_channels,
        name=model.name,
        channel_names=geometry.channel_names,
    )
    if advice.level == "ok":
        return []
    return [f"{model.name}: output range is [{probe.minimum:.3g}, {probe.maximum:.3g}]: {advice.message}"]


def addressable(name: str) -> str:
    """`name` as far as a URL's path segment can hold it: models may be called anything."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "model"
    return f"model-{stem}" if stem in RESERVED or not stem[0].isalnum() else stem


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
