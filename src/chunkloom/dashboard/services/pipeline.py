"""Setting the chain: everything is built before anything changes; an unchanged chain changes nothing."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chunkloom.chain.spec import PipelineSpec
from chunkloom.dashboard.services.data import seen_through, serve_raw
from chunkloom.dashboard.services.layers import redraw
from chunkloom.dashboard.sessions import Session

if TYPE_CHECKING:
    from chunkloom.serving.app import ChunkApp

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Applied:
    """What a change of the chain came to."""

    chain: PipelineSpec
    digest: str
    layers: list[str]


def set_chain(session: Session, chain: PipelineSpec, chunks: ChunkApp, builder: dict[str, Any] | None) -> Applied:
    """Make `chain` the session's, for the raw layer and every running model.

    Raises
    ------
    ChunkloomError
        It cannot be built, or needs statistics of data that cannot be read; then nothing has changed.
    """
    chain.build()
    before = session.chain
    session.chain_set = True
    if session.volume is None:
        session.chain = session.resolved = chain
    else:
        resolved, raw = seen_through(session, chain, session.volume)
        session.chain, session.resolved = chain, resolved
        serve_raw(session, raw, chunks)
    if builder is not None:
        session.builder = builder
    fresh = {
        kind
        for kind, old, new in (
            ("raw", before.input_norm, chain.input_norm),
            ("prediction", before.postprocess, chain.postprocess),
        )
        if old != new
    }
    layers = redraw(session, fresh)
    log.info("chain %s: %s", chain.digest(), " > ".join(_named(chain)) or "empty")
    return Applied(chain, chain.digest(), layers)


def _named(chain: PipelineSpec) -> list[str]:
    return [step["name"] for step in [*chain.input_norm, {"name": "model"}, *chain.postprocess]]
