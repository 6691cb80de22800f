"""Whole-volume runs: check the pipeline, write task files, check those, submit them. Failures are `success: false`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from chunkloom.dashboard.routes.bodies import BlockwisePaths, BlockwisePipeline
from chunkloom.dashboard.services import blockwise
from chunkloom.dashboard.sessions import Session
from chunkloom.dashboard.state import Context, in_session, success
from chunkloom.errors import ChunkloomError

router = APIRouter(prefix="/api/blockwise")


@router.post("/validate")
async def validate(body: BlockwisePipeline, request: Request) -> dict[str, Any]:
    """Whether a pipeline has all that a run needs."""

    def work(session: Session, context: Context) -> dict[str, Any]:
        try:
            blockwise.planned(body.pipeline, session)
        except ChunkloomError as error:
            return {"valid": False, "error": str(error)}
        return {"valid": True, "message": "the pipeline has all that a run needs"}

    return await in_session(request, work)


@router.post("/generate")
async def generate(body: BlockwisePipeline, request: Request) -> dict[str, Any]:
    """Write the task files of a pipeline."""

    def work(session: Session, context: Context) -> dict[str, Any]:
        try:
            made = blockwise.generate(body.pipeline, body.job_name, session, context.options.sources)
        except ChunkloomError as error:
            return {"success": False, "error": str(error)}
        return success(**made)

    return await in_session(request, work)


@router.post("/precheck")
async def precheck(body: BlockwisePaths, request: Request) -> dict[str, Any]:
    """Check task files as a run does, without writing anything."""

    def work(session: Session, context: Context) -> dict[str, Any]:
        try:
            blockwise.checked(body.yaml_paths, session, context.options.sources)
        except ChunkloomError as error:
            return {"success": False, "error": str(error)}
        return success(message="ready to run")

    return await in_session(request, work)


@router.post("/submit")
async def submit(body: BlockwisePipeline, request: Request) -> dict[str, Any]:
    """Start a run: of the checked files if all are there, else of files written anew."""

    def work(session: Session, context: Context) -> dict[str, Any]:
        sources = context.options.sources
        try:
            paths, name = body.yaml_paths, body.task_name
            try:
                blockwise.checked(paths, session, sources)
            except ChunkloomError:
                made = blockwise.generate(body.pipeline, body.job_name, session, sources)
                paths, name = made["task_paths"], made["task_name"]
                blockwise.checked(paths, session, sources)
            return success(**blockwise.submit(paths, name or "run", session, sources))
        except ChunkloomError as error:
            return {"success": False, "error": str(error)}

    return await in_session(request, work)
