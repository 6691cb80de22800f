"""The box tool: a viewer to draw bounding boxes in."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from chunkloom.dashboard.routes.bodies import BoxesWanted
from chunkloom.dashboard.services.boxes import BoxNm, BoxTool
from chunkloom.dashboard.services.data import opened
from chunkloom.dashboard.sessions import Session
from chunkloom.dashboard.state import Context, in_session, success
from chunkloom.engine.pipeline import Pipeline
from chunkloom.errors import ConflictError, ParameterError

router = APIRouter()

HELP = """<p>Boxes as JSON: a list of objects with <code>offset</code> and <code>shape</code>, each z, y, x in nm.</p>
<pre>[{"offset": [0, 800, 1600], "shape": [400, 400, 400]}]</pre>
<p>The offset is the box's lower corner. A run takes the voxels that lie wholly inside.</p>
"""


@router.post("/api/bbx-generator")
async def begin(body: BoxesWanted, request: Request) -> dict[str, Any]:
    """Open a viewer to draw boxes in."""

    def work(session: Session, context: Context) -> dict[str, Any]:
        existing = [BoxNm.parse(box) for box in body.existing_bounding_boxes]
        path = (body.dataset_path or session.data_path or "").strip()
        if not path:
            raise ParameterError("no data is open: give a dataset_path")
        volume = opened(path, context.options.sources)
        served = Pipeline(volume)
        name = f"boxes-{session.volume_name.removeprefix('raw-')}"
        context.chunks.add(name, served)
        url = f"{session.base_url}/volumes/{name}/@{served.digest}/zarr3"
        session.boxes = BoxTool.open(path, served, url, body.num_boxes, existing)
        return success(
            viewer_url=f"v/{session.boxes.viewer.token}/",
            dataset_path=path,
            num_boxes=body.num_boxes,
            existing_count=len(existing),
            existing_bounding_boxes=[box.to_dict() for box in existing],
        )

    return await in_session(request, work)


@router.get("/api/bbx-generator/status")
async def status(request: Request) -> dict[str, Any]:
    """The boxes drawn so far."""

    def work(session: Session, context: Context) -> dict[str, Any]:
        tool = _tool(session)
        boxes = [box.to_dict() for box in tool.boxes()]
        return success(dataset_path=tool.dataset_path, num_boxes=tool.num_boxes, bounding_boxes=boxes, count=len(boxes))

    return await in_session(request, work)


@router.post("/api/bbx-generator/finalize")
async def finalize(request: Request) -> dict[str, Any]:
    """The boxes drawn, and the end of the viewer."""

    def work(session: Session, context: Context) -> dict[str, Any]:
        boxes = [box.to_dict() for box in _tool(session).boxes()]
        session.boxes = None
        name = f"boxes-{session.volume_name.removeprefix('raw-')}"
        if name in context.chunks.volumes:
            context.chunks.remove(name)
        return success(bounding_boxes=boxes, count=len(boxes))

    return await in_session(request, work)


@router.get("/api/templates/bbox-json", response_class=HTMLResponse)
async def help_page() -> HTMLResponse:
    """How boxes are written as JSON."""
    return HTMLResponse(HELP)


def _tool(session: Session) -> BoxTool:
    if session.boxes is None:
        raise ConflictError("no boxes are being drawn: begin with POST /api/bbx-generator")
    return session.boxes  # type: ignore[no-any-return]
