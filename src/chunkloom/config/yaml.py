"""The YAML file of a session: data, models, the chain around them, and how jobs are started.

Files that older versions read load unchanged. What kinds of model there are is not known here: entries are checked by
whoever builds them, with `Config.error` to point at the line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chunkloom.chain.registry import build_step, steps_of
from chunkloom.chain.spec import PipelineSpec
from chunkloom.chain.steps import InputNormalizer, PostProcessor, Step
from chunkloom.config.document import Document, Where, parse_document, read_document
from chunkloom.errors import ChunkloomError, ConfigError, nearest

SESSION_KEYS = [
    "data_path",
    "charge_group",
    "queue",
    "models",
    "json_data",
    "wrap_raw",
    "extra_layers",
    "walltime",
    "resample",
]
BLOCKWISE_KEYS = [
    "output_path",
    "task_name",
    "workers",
    "cpu_workers",
    "tmp_dir",
    "track_progress",
    "create",
    "bounding_boxes",
    "separate_bounding_boxes_zarrs",
    "model_mode",
    "process_only",
    "cross_channels",
    "block_size",
    "output_channels",
    "fit",
    "format",
]
KEYS = SESSION_KEYS + BLOCKWISE_KEYS
LAYER_KEYS = ["name", "path", "layer_type", "shader", "blend", "disable_meshes"]
LAYER_TYPES = ["image", "segmentation"]
BLENDS = ["default", "additive"]
# Of a model's entry, but no parameter of any kind of model.
ENTRY_KEYS = ["env", "resample"]


@dataclass(frozen=True)
class ModelEntry:
    """One model as the file names it.

    Attributes
    ----------
    name
        What it is called, or None where the file leaves it to the model.
    kind
        The word of its type, as written.
    parameters
        The rest of the entry.
    where
        Its place in the file.
    resample
        Whether data is resampled to the model's voxel size; None leaves it to the session.
    env
        The environment that its server runs in, where it is a process of its own.
    """

    name: str | None
    kind: str
    parameters: dict[str, Any]
    where: Where
    resample: bool | None = None
    env: Any = None

    def to_dict(self) -> dict[str, Any]:
        """The entry as models are made from."""
        return {"type": self.kind, **({} if self.name is None else {"name": self.name}), **self.parameters}


@dataclass(frozen=True)
class ExtraLayer:
    """A further dataset to look at, as it is stored."""

    name: str
    path: str
    layer_type: str
    shader: str | None = None
    blend: str = "default"
    disable_meshes: bool = False


@dataclass(frozen=True)
class Config:
    """A session's file, checked. `chain` is None where it has none; `blockwise` holds the keys of a blockwise task."""

    document: Document
    data_path: str
    models: tuple[ModelEntry, ...] = ()
    chain: PipelineSpec | None = None
    charge_group: str | None = None
    queue: str | None = None
    walltime: str | None = None
    wrap_raw: bool = True
    resample: bool | None = None
    extra_layers: tuple[ExtraLayer, ...] = ()
    blockwise: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def error(self, where: Where, problem: str) -> ConfigError:
        """An error that names the file, the line and the key."""
        return self.document.error(where, problem)


def load_config(path: str | bytes | os.PathLike[Any]) -> Config:
    """The session in a YAML file.

    Raises
    ------
    ConfigError
        Naming the file, the line, the key, what was found and what is accepted.
    """
    return _config(read_document(path))


def parse_config(text: str | bytes, source: str = "the configuration") -> Config:
    """The session in a YAML text. Raises as `load_config`."""
    return _config(parse_document(text, source))


def _config(document: Document) -> Config:
    data = document.data
    warnings = list(document.warnings)
    for key in data:
        if key not in KEYS:
            where = f"{document.source}, line {document.line((key,))}"
            warnings.append(f"{where}: {key!r} is not a key here and is passed over: {nearest(str(key), KEYS)}")
    if data.get("data_path") is None:
        found = ", ".join(str(key) for key in data) or "none"
        raise document.error((), f"data_path is missing: expected the path or URL of the data; found the keys {found}")
    data_path = data["data_path"]
    if not isinstance(data_path, str) or not data_path.strip():
        raise document.error(("data_path",), f"found {data_path!r}: expected the path or URL of the data")
    chain, skipped = _chain(document)
    warnings += skipped
    return Config(
        document=document,
        data_path=data_path.strip(),
        models=_models(document),
        chain=chain,
        charge_group=_text(document, "charge_group"),
        queue=_text(document, "queue"),
        walltime=_text(document, "walltime"),
        wrap_raw=_switch(document, ("wrap_raw",), data.get("wrap_raw"), True) is True,
        resample=_switch(document, ("resample",), data.get("resample"), None),
        extra_layers=_extra_layers(document),
        blockwise={key: data[key] for key in BLOCKWISE_KEYS if key in data},
        warnings=tuple(warnings),
    )


def _text(document: Document, key: str) -> str | None:
    value = document.data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise document.error((key,), f"found {value!r}: expected text")
    # A number is what YAML makes of 8:00 or of a group called 123; minutes are what schedulers make of it again.
    return str(value)


def _switch(document: Document, where: Where, value: Any, default: bool | None) -> bool | None:
    if value is None:
        return default
    if not isinstance(value, bool):
        raise document.error(where, f"found {value!r}: expected true or false")
    return value


def _models(document: Document) -> tuple[ModelEntry, ...]:
    models = document.data.get("models")
    if models is None:
        return ()
    if isinstance(models, Mapping):
        listed = [(str(name), entry, ("models", name)) for name, entry in models.items()]
        return _unique(document, [_entry(document, name, entry, where) for name, entry, where in listed])
    if isinstance(models, list):
        entries = []
        for i, entry in enumerate(models):
            where: Where = ("models", i)
            name = entry.get("name") if isinstance(entry, Mapping) else None
            if name is not None and not isinstance(name, str | int):
                raise document.error((*where, "name"), f"found {name!r}: expected text")
            entries.append(_entry(document, None if name is None else str(name), entry, where))
        return _unique(document, entries)
    raise document.error(("models",), f"found {models!r}: expected models by name, or a list of them")


def _unique(document: Document, entries: list[ModelEntry]) -> tuple[ModelEntry, ...]:
    seen: set[str] = set()
    for entry in entries:
        if entry.name is not None and entry.name in seen:
            raise document.error(
                (*entry.where, "name"), f"two models are called {entry.name!r}: give each its own name"
            )
        if entry.name is not None:
            seen.add(entry.name)
    return tuple(entries)


def _entry(document: Document, name: str | None, entry: Any, where: Where) -> ModelEntry:
    if not isinstance(entry, Mapping):
        raise document.error(
            where, f"found {entry!r}: expected a model, such as {{type: script, script_path: model.py}}"
        )
    if not isinstance(entry.get("type"), str):
        raise document.error(
            (*where, "type") if "type" in entry else where,
            f"type is {entry.get('type')!r}: expected a kind of model; chunkloom yaml --list-types lists them",
        )
    rest = {str(key): value for key, value in entry.items() if key not in ("type", "name", *ENTRY_KEYS)}
    return ModelEntry(
        name=name,
        kind=entry["type"],
        parameters=rest,
        where=where,
        resample=_switch(document, (*where, "resample"), entry.get("resample"), None),
        env=entry.get("env"),
    )


def _chain(document: Document) -> tuple[PipelineSpec | None, list[str]]:
    """The chain, every step of it built once; and what was left out of an older form of it."""
    given = document.data.get("json_data")
    if given is None:
        return None, []
    try:
        spec = PipelineSpec.from_json_data(given)
    except ChunkloomError as error:
        raise document.error(("json_data",), str(error)) from error
    warnings: list[str] = []
    kept: dict[str, list[dict[str, Any]]] = {}
    for key, base in (("input_norm", InputNormalizer), ("postprocess", PostProcessor)):
        older = isinstance(given, Mapping) and isinstance(given.get(key), Mapping)
        kept[key] = []
        for i, step in enumerate(getattr(spec, key)):
            where: Where = ("json_data", key, step["name"] if older else i)
            if older and step["name"] not in steps_of(base):
                warnings.append(_left_out(document, where, step["name"], base))
                continue
            try:
                build_step(base, step)
            except ChunkloomError as error:
                raise document.error(where, str(error)) from error
            kept[key].append(step)
    return PipelineSpec.from_steps_data(**kept), warnings


def _left_out(document: Document, where: Where, name: str, base: type[Step]) -> str:
    known = nearest(name, tuple(steps_of(base)))
    return (
        f"{document.source}, line {document.line(where)}: there is no step {name!r} any more; it is left out: {known}"
    )


def _extra_layers(document: Document) -> tuple[ExtraLayer, ...]:
    given = document.data.get("extra_layers")
    if given is None:
        return ()
    if not isinstance(given, list):
        raise document.error(("extra_layers",), f"found {given!r}: expected a list of layers")
    layers: list[ExtraLayer] = []
    for i, entry in enumerate(given):
        where: Where = ("extra_layers", i)
        if not isinstance(entry, Mapping):
            raise document.error(where, f"found {entry!r}: expected a layer with {', '.join(LAYER_KEYS[:3])}")
        document.check_keys(where, entry, LAYER_KEYS)
        for key in LAYER_KEYS[:3]:
            if not isinstance(entry.get(key), str) or not entry[key]:
                raise document.error(
                    (*where, key) if key in entry else where, f"{key} is {entry.get(key)!r}: expected text"
                )
        _choose(document, (*where, "layer_type"), entry["layer_type"], LAYER_TYPES)
        blend = entry.get("blend") or "default"
        _choose(document, (*where, "blend"), blend, BLENDS)
        shader = entry.get("shader")
        if shader is not None and not isinstance(shader, str):
            raise document.error((*where, "shader"), f"found {shader!r}: expected the text of a shader")
        if any(layer.name == entry["name"] for layer in layers):
            raise document.error((*where, "name"), f"two layers are called {entry['name']!r}: give each its own name")
        meshes = _switch(document, (*where, "disable_meshes"), entry.get("disable_meshes"), False)
        layers.append(ExtraLayer(entry["name"], entry["path"], entry["layer_type"], shader, blend, meshes is True))
    return tuple(layers)


def _choose(document: Document, where: Where, value: Any, accepted: list[str]) -> None:
    if value not in accepted:
        raise document.error(where, f"found {value!r}: {nearest(str(value), accepted)}")
