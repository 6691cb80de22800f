"""Where jobs run: the person's settings, the GPU queues, and what a blockwise run begins with."""

from __future__ import annotations

import dataclasses
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from chunkloom.dashboard.sessions import Session
from chunkloom.dashboard.state import Context, in_session, session_of, success
from chunkloom.jobs.queues import gpu_queue_availability
from chunkloom.jobs.settings import LauncherSettings, launcher_settings
from chunkloom.jobs.site import site_profile

router = APIRouter()

FOLDERS = ("tmp_dir", "blockwise_tasks_dir")


@router.get("/api/server-config")
async def server_config() -> dict[str, Any]:
    """Queue, charge group, walltime and counts that jobs are started with."""
    settings = await run_in_threadpool(launcher_settings)
    return success(config=dataclasses.asdict(settings))


@router.post("/api/server-config")
async def set_server_config(body: dict[str, Any]) -> dict[str, Any]:
    """Change some of them, for this process and the next; all or nothing."""
    return success(config=await run_in_threadpool(_changed, body))


@router.get("/api/gpu-queues")
async def gpu_queues() -> dict[str, Any]:
    """The site's GPU queues and how busy they are, looked at every minute at most."""
    return await run_in_threadpool(lambda: gpu_queue_availability(site_profile()).to_dict())


@router.get("/api/blockwise-config")
async def blockwise_config(request: Request) -> dict[str, Any]:
    """The settings, and the session's folders for blockwise runs."""
    settings = await run_in_threadpool(launcher_settings)
    return success(config={**dataclasses.asdict(settings), **session_of(request).folders})


@router.post("/api/blockwise-config")
async def set_blockwise_config(body: dict[str, Any], request: Request) -> dict[str, Any]:
    """Change some of them."""
    folders = {name: str(body[name]) for name in FOLDERS if body.get(name) is not None}
    config = await run_in_threadpool(_changed, {key: value for key, value in body.items() if key not in FOLDERS})

    def work(session: Session, context: Context) -> dict[str, Any]:
        session.folders.update(folders)
        return success(config={**config, **session.folders})

    return await in_session(request, work)


def _changed(body: dict[str, Any]) -> dict[str, Any]:
    """The settings with these members. Raises `ParameterError` before anything changes."""
    settings = launcher_settings()
    made = LauncherSettings.from_dict({**dataclasses.asdict(settings), **body}, "settings")
    for member in dataclasses.fields(made):
        setattr(settings, member.name, getattr(made, member.name))
    settings.save()
    return dataclasses.asdict(settings)
