"""Neuroglancer's own small server, reached through the dashboard's address: one port, one token, one origin.

Its page finds the server from its own address (what comes before `/v/`), so that paths pass unchanged below any
prefix. Event streams are passed on as they come.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from chunkloom.serving.answers import Receive, Scope, Send

# First path segments of Neuroglancer's server. All but the last are followed by the viewer's token.
SEGMENTS = frozenset({"v", "events", "state", "action", "volume_response", "credentials", "neuroglancer"})
MOST_BODY_BYTES = 64 << 20  # a screenshot comes as a state

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# Not for Neuroglancer's server: the cookie is ours, and the length is set anew.
_DROPPED = _HOP_BY_HOP | {b"host", b"cookie", b"content-length", b"accept-encoding", b"authorization"}


class ViewerProxy:
    """An ASGI app in front of the server of this process's viewers."""

    def __init__(self) -> None:
        self._client: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        import httpx
        import neuroglancer

        if not neuroglancer.is_server_running():
            await _say(send, 404, "no viewer is open")
            return
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            if len(body) > MOST_BODY_BYTES:
                await _say(send, 413, f"the body is larger than {MOST_BODY_BYTES} bytes")
                return
            if not message.get("more_body", False):
                break
        if self._client is None:
            # Streams of events stay open for as long as a page does.
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=8)
            timeout = httpx.Timeout(30, read=None)
            self._client = httpx.AsyncClient(limits=limits, timeout=timeout, trust_env=False)
        port = neuroglancer.server.global_server.port
        query = bytes(scope.get("query_string", b"")).decode("latin-1")
        url = f"http://127.0.0.1:{port}{quote(scope['path'])}{'?' + query if query else ''}"
        headers = [(name, value) for name, value in scope["headers"] if name not in _DROPPED]
        request = self._client.build_request(scope["method"], url, headers=headers, content=body or None)
        try:
            answer = await self._client.send(request, stream=True)
        except httpx.HTTPError as error:
            await _say(send, 502, f"the viewer's server does not answer: {error}")
            return
        try:
            await _pass_on(answer, receive, send)
        finally:
            await answer.aclose()

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()


async def _pass_on(answer: Any, receive: Receive, send: Send) -> None:
    import asyncio

    headers = [(k.lower(), v) for k, v in answer.headers.raw if k.lower() not in _HOP_BY_HOP]
    await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})

    async def body() -> None:
        async for piece in answer.aiter_raw():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def hang_up() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    # A page that is closed must not leave its stream of events open for ever.
    going = [asyncio.ensure_future(body()), asyncio.ensure_future(hang_up())]
    try:
        await asyncio.wait(going, return_when=asyncio.FIRST_COMPLETED)
        if going[0].done() and not going[0].cancelled():
            going[0].result()
    finally:
        for task in going:
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)


async def _say(send: Send, status: int, reason: str) -> None:
    body = reason.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
