"""The log panel's stream, which also carries news of the session's state (`event: state`)."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from chunkloom.dashboard.state import context_of, session_of

router = APIRouter()


@router.get("/api/logs/stream", response_class=StreamingResponse)
async def stream(request: Request) -> StreamingResponse:
    """Server-sent events: kept log records, then new ones."""
    events = context_of(request).logs.stream(session_of(request).short)
    return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
