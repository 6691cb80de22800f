"""The way in to `/api`, `/metrics` and `/docs`: the guard first, then the REST API, imported at the first call.

The web framework takes a second or two to import and no chunk needs it. It is imported in a thread, so that chunks are
answered meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from chunkloom.serving.access import ApiOptions
from chunkloom.serving.answers import Headers, Message, Receive, Scope, Send
from chunkloom.serving.events import Events
from chunkloom.serving.guard import MAX_BODY_BYTES, Guard, Refusal, too_large

if TYPE_CHECKING:
    from chunkloom.serving.app import ChunkApp

SEGMENTS = frozenset({"api", "metrics", "docs"})
# No CORS: other sites' pages read volumes, never the API.
HEADERS: Headers = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Gate:
    """An ASGI app in front of the REST API of `app`."""

    def __init__(self, app: ChunkApp, options: ApiOptions) -> None:
        self.app = app
        self.guard = Guard(options)
        self.events = Events()
        self.answered: Counter[int] = Counter()
        self._rest: Any = None
        self._lock = threading.Lock()

    def takes(self, scope: Scope) -> bool:
        """Whether a request is for this app."""
        return route_path(scope).lstrip("/").split("/", 1)[0] in SEGMENTS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.answered[message["status"]] += 1
                given = {name.lower() for name, _ in message.get("headers", ())}
                extra = [pair for pair in HEADERS if pair[0] not in given]
                message = {**message, "headers": [*message.get("headers", ()), *extra]}
            await send(message)

        refused = self.guard.refusal(scope)
        body = b""
        if refused is None:
            found = await read_body(receive)
            if found is None:
                return  # the client is gone
            refused, body = (too_large(), b"") if len(found) > MAX_BODY_BYTES else (None, found)
        if refused is not None:
            await refuse(refused, send_with_headers)
            return
        rest = self._rest or await asyncio.to_thread(self._load)
        await rest(scope, _replaying(body, receive), send_with_headers)

    def _load(self) -> Any:
        with self._lock:
            if self._rest is None:
                from chunkloom.serving.rest import make_rest

                self._rest = make_rest(self.app, self.guard, self.events)
            return self._rest


def route_path(scope: Scope) -> str:
    """The path below where the app is mounted."""
    root, path = scope.get("root_path", ""), scope["path"]
    return str(path[len(root) :]) if root and path.startswith(root + "/") else str(path)


async def refuse(refusal: Refusal, send: Send) -> None:
    """Answer with the reason, as the REST API gives it."""
    body = json.dumps({"error": refusal.reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *refusal.headers]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def read_body(receive: Receive) -> bytes | None:
    """The whole body, or just more than is allowed of it; None when the client hung up."""
    body = b""
    while len(body) <= MAX_BODY_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    return body


def _replaying(body: bytes, receive: Receive) -> Receive:
    """`receive` for an app that has still to read the body."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay
