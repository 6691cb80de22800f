"""The two pages, and what they need to begin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from chunkloom import __version__
from chunkloom.chain.registry import chain_schema
from chunkloom.dashboard.services.layers import layer_names
from chunkloom.dashboard.services.viewing import viewer_path
from chunkloom.dashboard.sessions import Session
from chunkloom.dashboard.state import Context, context_of, session_of

router = APIRouter()

_STATIC = Path(__file__).parent.parent / "static"


@router.get("/", response_class=HTMLResponse, include_in_schema=False)
async def index(request: Request) -> HTMLResponse:
    """The dashboard."""
    return _page("index.html", request)


@router.get("/pipeline-builder", response_class=HTMLResponse, include_in_schema=False)
async def builder(request: Request) -> HTMLResponse:
    """The pipeline builder."""
    return _page("builder.html", request)


@router.get("/healthz", include_in_schema=False)
async def health() -> dict[str, str]:
    """Whether it answers."""
    return {"status": "ok"}


@router.get("/api/session")
async def session(request: Request) -> dict[str, Any]:
    """What this session looks at: data, chain, models, layers and the viewer's address."""
    return described(session_of(request), context_of(request))


def described(session: Session, context: Context) -> dict[str, Any]:
    """The session as its page shows it."""
    volume = session.volume
    level = None if volume is None else volume.levels[0]
    dataset = (
        None
        if volume is None or level is None
        else {
            "path": session.data_path,
            "shape": list(level.shape),
            "dtype": level.dtype.name,
            "voxel_size_nm": list(level.voxel_size_nm),
            "corner_nm": list(level.grid.corner_nm),
            "levels": len(volume.levels),
            "warnings": list(volume.warnings),
        }
    )
    return {
        "session": session.short,
        "version": __version__,
        "dataset": dataset,
        "pipeline": session.chain.to_json_data(),
        "digest": session.chain.digest(),
        "builder": session.builder,
        "models": context.pool.listed(session),
        "layers": layer_names(session),
        "layer_sources": {drawn.name: drawn.source for drawn in session.drawn.values()},
        "neuroglancer_url": viewer_path(session),
    }


def _page(name: str, request: Request) -> HTMLResponse:
    data = {"session": described(session_of(request), context_of(request)), "schema": chain_schema()}
    # "</script>" in a name must not end the element.
    text = json.dumps(data).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return HTMLResponse(
        (_STATIC / name).read_text().replace("{{page-data}}", text), headers={"Cache-Control": "no-store"}
    )
