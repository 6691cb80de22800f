"""Opening data: a path becomes the session's volume, its raw layer and a viewer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from chunkloom.chain.spec import PipelineSpec
from chunkloom.dashboard.services.layers import layer_names
from chunkloom.dashboard.sessions import ExtraLayer, Session
from chunkloom.engine.ops.steps import resolve_chain, steps_as_ops
from chunkloom.engine.pipeline import Pipeline
from chunkloom.engine.sources import open_volume
from chunkloom.engine.volume import Kind, Volume
from chunkloom.errors import ConflictError, ParameterError
from chunkloom.serving.access import SourceRules
from chunkloom.serving.building import stored_paths

if TYPE_CHECKING:
    from chunkloom.serving.app import ChunkApp

log = logging.getLogger(__name__)


def opened(path: str, sources: SourceRules, *, kind: Kind | None = None) -> Volume:
    """The volume at a path that may be opened.

    Raises
    ------
    AccessError
        It, or an array it lists, lies outside the allowed places.
    ChunkloomError
        It is no volume.
    """
    if not path.strip():
        raise ParameterError("no data path: give the path or URL of a volume")
    volume = open_volume(sources.admitted(path.strip()), kind=kind)
    for stored in stored_paths(volume):
        sources.admitted(stored)
    for warning in volume.warnings:
        log.warning("%s: %s", path, warning)
    return volume


def set_volume(session: Session, path: str, volume: Volume, chunks: ChunkApp) -> None:
    """Make `volume` the session's data, seen through its normalizers. The chain stays."""
    resolved, raw = seen_through(session, session.chain, volume)
    session.data_path, session.volume, session.resolved = path, volume, resolved
    serve_raw(session, raw, chunks)
    log.info("opened %s: shape %s, %s", path, volume.levels[0].shape, volume.levels[0].dtype)


def add_layer(session: Session, layer: ExtraLayer, chunks: ChunkApp) -> None:
    """Show one more layer. Raises `ConflictError` for a name that is taken."""
    if layer.name in layer_names(session):
        raise ConflictError(f"there is a layer {layer.name!r} already: choose another name")
    chunks.add(layer.served, Pipeline(layer.volume))
    session.extra_layers.append(layer)


def seen_through(session: Session, chain: PipelineSpec, volume: Volume) -> tuple[PipelineSpec, Volume]:
    """The chain with statistics of the volume frozen into it, and the volume as the model sees it."""
    resolved = resolve_chain(chain, volume)
    normalizers, _ = resolved.build()
    return resolved, Pipeline(volume, steps_as_ops(normalizers) if session.wrap_raw else ())


def serve_raw(session: Session, raw: Volume, chunks: ChunkApp) -> None:
    """Serve the raw layer's volume under the session's unguessable name."""
    if session.raw is None or session.raw.digest != raw.digest:
        chunks.add(session.volume_name, raw)
        session.raw = raw
