"""Which ids are one object, as model servers find out. The address carries a secret that can do nothing else."""

from __future__ import annotations

import json

from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from chunkloom.dashboard.logs import as_session
from chunkloom.dashboard.routes.bodies import Equivalences
from chunkloom.dashboard.services.layers import set_equivalences
from chunkloom.dashboard.sessions import Session
from chunkloom.dashboard.state import Context
from chunkloom.serving.answers import Receive, Scope, Send
from chunkloom.serving.gate import route_path

MOST_BODY_BYTES = 64 << 20


async def take_equivalences(context: Context, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer ``POST /equivalences/SECRET/update/equivalences``."""
    parts = route_path(scope).strip("/").split("/")
    session = context.sessions.of_equivalence_token(parts[1]) if len(parts) == 4 else None
    if session is None or parts[2:] != ["update", "equivalences"]:
        await _say(send, 404, {"success": False, "error": "no such session"})
        return
    if scope["method"] != "POST":
        await _say(send, 405, {"success": False, "error": "expected POST"})
        return
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body += message.get("body", b"")
        if len(body) > MOST_BODY_BYTES:
            await _say(send, 413, {"success": False, "error": f"the body is larger than {MOST_BODY_BYTES} bytes"})
            return
        if not message.get("more_body", False):
            break
    try:
        found = Equivalences.model_validate_json(body)
    except ValidationError as error:
        await _say(send, 400, {"success": False, "error": str(error.errors()[0]["msg"])})
        return
    named = await run_in_threadpool(_set, session, found)
    await _say(send, 200, {"message": f"{len(found.equivalences)} groups for {', '.join(named) or 'no layer'}"})


def _set(session: Session, found: Equivalences) -> list[str]:
    with as_session(session.short), session.lock:
        return set_equivalences(session, found.dataset, found.equivalences)


async def _say(send: Send, status: int, data: dict[str, object]) -> None:
    body = json.dumps(data).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
