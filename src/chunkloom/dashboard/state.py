"""What every request of the dashboard needs: the options, the sessions, the logs, the chunk server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from chunkloom.dashboard.logs import LogBuffer, as_session
from chunkloom.dashboard.options import DashboardOptions
from chunkloom.dashboard.sessions import Session, SessionStore

if TYPE_CHECKING:
    from chunkloom.dashboard.services.models import ModelPool
    from chunkloom.serving.app import ChunkApp

T = TypeVar("T")


@dataclass(frozen=True)
class Context:
    """The parts of one dashboard."""

    options: DashboardOptions
    sessions: SessionStore
    logs: LogBuffer
    chunks: ChunkApp
    pool: ModelPool


def context_of(request: Request) -> Context:
    """The dashboard that a request came to."""
    return request.app.state.context  # type: ignore[no-any-return]


def session_of(request: Request) -> Session:
    """The session of a request, as `access` found it."""
    return request.scope["chunkloom_session"]  # type: ignore[no-any-return]


async def in_session(request: Request, work: Callable[[Session, Context], T]) -> T:
    """Run `work` in a thread, alone in its session, with its log records kept to that session."""
    session, context = session_of(request), context_of(request)

    def run() -> T:
        with as_session(session.short), session.lock:
            return work(session, context)

    return await run_in_threadpool(run)


def success(**data: Any) -> dict[str, Any]:
    """The body of an answer to something that was done."""
    return {"success": True, **data}
