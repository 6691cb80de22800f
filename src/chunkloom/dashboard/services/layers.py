"""What the session's viewer shows: the raw data, a layer for each running model, and the extra layers.

Decides first what should be there, then changes only what differs, in one transaction: a layer whose address stays
keeps its chunks, its shader and whatever the person set by hand. Layers the person added themselves stay too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from chunkloom.dashboard.sessions import Drawn, Session
from chunkloom.errors import ChunkloomError, ConflictError, VolumeNotFoundError
from chunkloom.viewer.contrast import contrast_range
from chunkloom.viewer.layers import PALETTE, LayerSpec, layer, show

if TYPE_CHECKING:
    import neuroglancer

    from chunkloom.engine.volume import Volume
    from chunkloom.serving.app import ChunkApp

log = logging.getLogger(__name__)

Role = Literal["raw", "prediction", "extra"]


@dataclass(frozen=True)
class Wanted:
    """A layer that should be there. `key` stays the same when the person renames it."""

    key: str
    role: Role
    spec: LayerSpec
    shader: str | None = None
    blend: str | None = None
    disable_meshes: bool = False


def redraw(session: Session, fresh: Iterable[str] = ()) -> list[str]:
    """Bring the viewer up to date, and name its layers.

    Parameters
    ----------
    fresh
        Roles whose shaders start anew: what they show has another range now.
    """
    if session.viewer is None or session.raw is None:
        return []
    fresh = set(fresh)
    wanted = [_named(session, w) for w in wanted_layers(session)]
    if not session.drawn and wanted:
        show(session.viewer, [w.spec for w in wanted])
    with session.viewer.txn() as state:
        for key in [key for key in session.drawn if key not in {w.key for w in wanted}]:
            name = session.drawn.pop(key).name
            if name in state.layers:
                del state.layers[name]
        for w in wanted:
            _put(state, session, w, keep_shader=w.role not in fresh)
        return [managed.name for managed in state.layers]


def wanted_layers(session: Session) -> list[Wanted]:
    """What should be there, lowest first."""
    every = [raw_layer(session), *prediction_layers(session), *extra_layers(session)]
    return [w for w in every if w.key not in session.removed]


def _named(session: Session, wanted: Wanted) -> Wanted:
    before = session.drawn.get(wanted.key)
    return wanted if before is None else replace(wanted, spec=replace(wanted.spec, name=before.name))


def _put(state: neuroglancer.ViewerState, session: Session, wanted: Wanted, *, keep_shader: bool) -> None:
    name, before = wanted.spec.name, session.drawn.get(wanted.key)
    made = _finished(layer(wanted.spec), wanted)
    now = Drawn(name, _source(made), _shader(made))
    session.drawn[wanted.key] = now
    if name not in state.layers:
        state.layers.append(name=name, layer=made, visible=wanted.spec.visible)
        return
    there = state.layers[name].layer
    if before is None or type(there) is not type(made):
        state.layers[name].layer = made
        return
    if before.source != now.source:
        there.source = made.source
        session.equivalences.pop(wanted.key, None)
    by_hand = _shader(there) != before.shader
    if now.shader is not None and _shader(there) != now.shader and not (by_hand and keep_shader):
        there.shader = now.shader
        there.shader_controls = {}
    if wanted.key in session.equivalences:
        there.equivalences = session.equivalences[wanted.key]


def _finished(made: Any, wanted: Wanted) -> Any:
    """What a spec cannot say."""
    if wanted.shader and hasattr(made, "shader"):
        made.shader = wanted.shader
    if wanted.blend and hasattr(made, "blend"):
        made.blend = wanted.blend
    if wanted.disable_meshes:
        for source in made.source:
            source.subsources = {"mesh": False}
    return made


def _source(made: Any) -> str:
    return ",".join(str(source.url) for source in made.source)


def _shader(made: Any) -> str | None:
    """A layer's shader; Neuroglancer gives an unset one as the text "None"."""
    text = getattr(made, "shader", None)
    return None if text is None or str(text) == "None" else str(text)


def raw_layer(session: Session) -> Wanted:
    """The data as the models see it, grey between sampled percentiles."""
    assert session.raw is not None
    return Wanted("raw", "raw", _stored(session, session.raw, session.volume_name, "raw"))


def prediction_layers(session: Session) -> list[Wanted]:
    """A layer for each model that answers; one that cannot be shown is told of in the log."""
    found = []
    for index, running in enumerate(session.models.values()):
        if running.url is None:
            continue
        try:
            spec = running.layer(session, PALETTE[index % len(PALETTE)])
        except ChunkloomError as error:
            log.error("model %s is not shown: %s", running.name, error)
            continue
        found.append(Wanted(f"prediction:{running.name}", "prediction", spec))
    return found


def extra_layers(session: Session) -> list[Wanted]:
    """Layers read as they are stored, without the normalizers."""
    found = []
    for extra in session.extra_layers:
        try:
            spec = _stored(session, extra.volume, extra.served, extra.name)
        except ChunkloomError as error:
            log.error("layer %s is not shown: %s", extra.name, error)
            continue
        found.append(Wanted(extra.served, "extra", spec, extra.shader, extra.blend, extra.disable_meshes))
    return found


def _stored(session: Session, volume: Volume, served: str, name: str) -> LayerSpec:
    # Signed 64-bit ids are read by Neuroglancer's zarr v2 source alone.
    word = "zarr2" if volume.levels[0].dtype.name == "int64" else "zarr3"
    url = f"{session.base_url}/volumes/{served}/@{volume.digest}/{word}"
    shown = contrast_range(volume) if volume.kind == "image" else None
    return LayerSpec.of_volume(volume, name=name, url=url, display_range=shown)


def rename_layer(session: Session, old: str, new: str) -> None:
    """Give a layer another name.

    Raises
    ------
    VolumeNotFoundError
        There is none of that name.
    ConflictError
        There is one of the new name.
    """
    if session.viewer is None:
        raise VolumeNotFoundError(f"there is no layer {old!r}: no data is open")
    with session.viewer.txn() as state:
        names = [managed.name for managed in state.layers]
        if old not in names:
            raise VolumeNotFoundError(f"there is no layer {old!r}: there are {', '.join(names)}")
        if new != old and new in names:
            raise ConflictError(f"there is a layer {new!r} already")
        state.layers[old].name = new
    for key, drawn in session.drawn.items():
        if drawn.name == old:
            session.drawn[key] = replace(drawn, name=new)


def remove_layer(session: Session, name: str, chunks: ChunkApp) -> bool:
    """Take a layer away; whether there was one. A model's layer comes back when the model is started anew."""
    if session.viewer is None:
        return False
    with session.viewer.txn() as state:
        if name not in state.layers:
            return False
        del state.layers[name]
    for key in [key for key, drawn in session.drawn.items() if drawn.name == name]:
        del session.drawn[key]
        session.removed.add(key)
    for extra in [extra for extra in session.extra_layers if extra.served in session.removed]:
        session.extra_layers.remove(extra)
        chunks.remove(extra.served)
    return True


def layer_names(session: Session) -> list[str]:
    """The layers there are, ours and the person's own."""
    return [] if session.viewer is None else [managed.name for managed in session.viewer.state.layers]


def set_equivalences(session: Session, dataset: str, groups: list[list[int]]) -> list[str]:
    """Draw each group of ids of the layers from `dataset` as one object; the names of those layers."""
    path = dataset.strip("/")
    keys = [key for key, drawn in session.drawn.items() if path and path in drawn.source]
    for key in keys:
        session.equivalences[key] = groups
    redraw(session)
    return [session.drawn[key].name for key in keys]
