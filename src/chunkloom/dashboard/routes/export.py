"""The session as a file."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from chunkloom.dashboard.services.export import as_yaml
from chunkloom.dashboard.state import in_session
from chunkloom.errors import ParameterError

router = APIRouter()


@router.get("/api/export-config", response_class=Response)
async def export_config(request: Request) -> Response:
    """Data path, models, chain and extra layers as YAML, for `chunkloom yaml`."""
    if not request.scope["chunkloom_session"].data_path:
        raise ParameterError("there is nothing to save yet: open a volume first")
    text = await in_session(request, lambda session, context: as_yaml(session))
    return Response(
        text, media_type="application/yaml", headers={"Content-Disposition": "attachment; filename=session.yaml"}
    )
