"""`chunkloom yaml`: the models of a YAML file over its data, in Neuroglancer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from chunkloom.cli.options import server_options
from chunkloom.cli.showing import look, viewing_of, viewing_options

if TYPE_CHECKING:
    from chunkloom.cli.running import Make, ServerOptions
    from chunkloom.config.yaml import Config, ExtraLayer, ModelEntry
    from chunkloom.engine.op import Op
    from chunkloom.engine.volume import Volume
    from chunkloom.models.kinds import ModelConfig
    from chunkloom.serving.run import VolumeServer
    from chunkloom.serving.volumes import Served
    from chunkloom.viewer.layers import LayerSpec

Named = tuple[str | None, "ModelConfig"]


@click.command("yaml")
@click.argument("config", required=False)
@click.option("--validate-only", is_flag=True, help="Check the file, its models and its data, and end.")
@click.option("--list-types", is_flag=True, help="List the types of model with their parameters, and end.")
@viewing_options
@server_options
def yaml(config: str | None, validate_only: bool, list_types: bool, **kw: Any) -> None:
    """Run the models of CONFIG, a YAML file, over its data, and look at them in Neuroglancer.

    \b
    data_path: cell.zarr/em
    models:
      mito: {type: script, script_path: mito.py}
    json_data:
      input_norm: [{name: MinMaxNormalizer}]
      postprocess: []
    """
    if list_types:
        from chunkloom.cli.models import kinds_listing

        click.echo(kinds_listing())
        return
    if config is None:
        raise click.UsageError("no CONFIG: give the YAML file, or --list-types")
    from chunkloom.cli import running
    from chunkloom.config.yaml import load_config

    with running.ending_cleanly():
        viewing, options = viewing_of(kw), running.parse_options(kw)
        session = load_config(config)
        for warning in [*session.warnings, *not_used(session)]:
            running.say(f"note: {warning}")
        models = [(called(entry), built(session, entry)) for entry in session.models]
        if validate_only:
            click.echo(validated(session))
            return
        look(making(session, models, options), options, viewing, more_layers=extras_of(session))


def built(session: Config, entry: ModelEntry) -> ModelConfig:
    """The model of an entry, not loaded. Raises `ConfigError` with the entry's line."""
    from chunkloom.errors import ChunkloomError
    from chunkloom.models.registry import build_model, model_type

    try:
        model_type(entry.kind)
    except ChunkloomError as error:
        raise session.error((*entry.where, "type"), str(error)) from error
    try:
        return build_model(entry.to_dict())
    except ChunkloomError as error:
        named = next((key for key in entry.parameters if repr(key) in str(error)), None)
        raise session.error(entry.where if named is None else (*entry.where, named), str(error)) from error


def called(entry: ModelEntry) -> str | None:
    """What an entry's prediction is served as: its name, as far as a URL can hold it."""
    from chunkloom.serving.volumes import addressable

    return None if entry.name is None else addressable(entry.name)


def not_used(session: Config) -> list[str]:
    """What the file says that means nothing to models that run in this process."""
    jobs = [key for key in ("queue", "charge_group", "walltime") if getattr(session, key) is not None]
    jobs += [f"{entry.name or entry.kind}: env" for entry in session.models if entry.env is not None]
    notes = [f"{', '.join(jobs)}: for jobs; the models run in this process"] if jobs else []
    if session.resample or any(entry.resample for entry in session.models):
        notes.append("resample: not done here; a level of another voxel size than a model's is read voxel for voxel")
    if session.blockwise:
        notes.append(f"{', '.join(session.blockwise)}: for a blockwise run; passed over here")
    return notes


def validated(session: Config) -> str:
    """What a checked file holds, in a line. Opens the data where it is on this machine; loads no model."""
    from chunkloom.engine.sources import open_volume
    from chunkloom.errors import ChunkloomError
    from chunkloom.io.paths import parse_path

    places = [(("data_path",), session.data_path)]
    places += [(("extra_layers", i, "path"), layer.path) for i, layer in enumerate(session.extra_layers)]  # type: ignore[misc]
    for where, path in places:
        try:
            if path.startswith("synthetic://") or parse_path(path).is_local:
                open_volume(path)
        except ChunkloomError as error:
            raise session.error(where, str(error)) from error
    for entry in session.models:
        for key, value in missing_files(entry):
            raise session.error((*entry.where, key), f"no such file or folder: {value}")
    models = ", ".join(f"{entry.name or '(unnamed)'}: {entry.kind}" for entry in session.models) or "none"
    return f"{session.document.source}: valid. Models: {models}. Data: {session.data_path}"


def missing_files(entry: ModelEntry) -> Iterator[tuple[str, str]]:
    """Parameters of an entry that are paths on this machine, and lead nowhere."""
    from chunkloom.models.modeljson import bundled_models

    for key, value in entry.parameters.items():
        if key.split("_")[-1] != "path" or not isinstance(value, str) or "://" in value or value in bundled_models():
            continue
        if not os.path.exists(os.path.expanduser(value)):
            yield key, value


def making(session: Config, models: list[Named], options: ServerOptions) -> Make:
    """What makes the session's volumes."""

    def make(parsed: list[Op]) -> Served:
        import dataclasses

        from chunkloom.chain.process import process_chain
        from chunkloom.cli import running
        from chunkloom.engine.pipeline import Pipeline
        from chunkloom.serving.volumes import models_to_serve

        if session.chain is not None:
            process_chain().set(session.chain)
        served = models_to_serve(
            session.data_path,
            models,
            ops=parsed,
            select=options.select,
            chunk=options.chunk,
            chain=session.chain,
            predictions=running.prediction_cache(options),
            normalized_raw=session.wrap_raw,
        )
        extras: dict[str, Volume] = {}
        for layer in session.extra_layers:
            extras[address_of(layer, [*served.volumes, *extras])] = Pipeline(opened(layer))
        return dataclasses.replace(served, volumes={**served.volumes, **extras}, apart=frozenset(extras))

    return make


def opened(layer: ExtraLayer) -> Volume:
    """A further dataset as it is stored."""
    from chunkloom.engine.sources import open_volume

    return open_volume(layer.path, kind="labels" if layer.layer_type == "segmentation" else "image")


def address_of(layer: ExtraLayer, taken: list[str]) -> str:
    """The name a further dataset is served under: its own, as far as a URL can hold it."""
    from chunkloom.serving.volumes import addressable

    stem = addressable(layer.name)
    name, n = stem, 2
    while name in taken:
        name, n = f"{stem}-{n}", n + 1
    return name


def extras_of(session: Config) -> Callable[[VolumeServer], list[LayerSpec]]:
    """The layers of further datasets, once they are served."""

    def more_layers(server: VolumeServer) -> list[LayerSpec]:
        import dataclasses

        from chunkloom.viewer.contrast import contrast_range
        from chunkloom.viewer.layers import LayerSpec

        # They were served last, in the file's order.
        names = list(server.app.volumes)[len(server.app.volumes) - len(session.extra_layers) :]
        specs = []
        for layer, name in zip(session.extra_layers, names, strict=True):
            volume = server.app.volumes[name].volume
            word = "zarr2" if volume.levels[0].dtype.name == "int64" else "zarr3"
            spec = LayerSpec.of_volume(
                volume,
                name=layer.name,
                url=f"{server.url}/{name}/{word}",
                display_range=contrast_range(volume) if volume.kind == "image" else None,
            )
            specs.append(dataclasses.replace(spec, shader=layer.shader, blend=layer.blend))  # type: ignore[arg-type]
        return specs

    return more_layers
