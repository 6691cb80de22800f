"""Layers that a person adds to the viewer, renames and removes."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from chunkloom.dashboard.routes.bodies import ImageLayer, RemoveLayer, RenameLayer, SegmentationLayer
from chunkloom.dashboard.services.data import add_layer, opened
from chunkloom.dashboard.services.layers import redraw, remove_layer, rename_layer
from chunkloom.dashboard.sessions import ExtraLayer, Session
from chunkloom.dashboard.state import Context, in_session, success
from chunkloom.errors import ParameterError

router = APIRouter()


@router.post("/api/viewer/add-image-layer")
async def add_image_layer(body: ImageLayer, request: Request) -> dict[str, Any]:
    """Show a volume as an image, as it is stored."""

    def work(session: Session, context: Context) -> dict[str, Any]:
        _need_view(session)
        volume = opened(body.path, context.options.sources)
        add_layer(session, ExtraLayer(body.name, body.path, "image", volume, body.shader, body.blend), context.chunks)
        return success(name=body.name, layers=redraw(session), reload_page=False)

    return await in_session(request, work)


@router.post("/api/viewer/add-segmentation-layer")
async def add_segmentation_layer(body: SegmentationLayer, request: Request) -> dict[str, Any]:
    """Show a volume of ids, a colour each."""

    def work(session: Session, context: Context) -> dict[str, Any]:
        _need_view(session)
        volume = opened(body.path, context.options.sources, kind="labels")
        made = ExtraLayer(body.name, body.path, "segmentation", volume, disable_meshes=body.disable_meshes)
        add_layer(session, made, context.chunks)
        return success(name=body.name, layers=redraw(session), reload_page=False)

    return await in_session(request, work)


@router.post("/api/viewer/rename-layer")
async def rename(body: RenameLayer, request: Request) -> dict[str, Any]:
    """Give a layer another name."""

    def work(session: Session, context: Context) -> dict[str, Any]:
        rename_layer(session, body.old_name, body.new_name)
        return success(old_name=body.old_name, new_name=body.new_name, reload_page=False)

    return await in_session(request, work)


@router.post("/api/viewer/remove-layer")
async def remove(body: RemoveLayer, request: Request) -> dict[str, Any]:
    """Take a layer away."""

    def work(session: Session, context: Context) -> dict[str, Any]:
        return success(name=body.name, removed=remove_layer(session, body.name, context.chunks), reload_page=False)

    return await in_session(request, work)


def _need_view(session: Session) -> None:
    if session.viewer is None:
        raise ParameterError("no data is open: open a volume first")
