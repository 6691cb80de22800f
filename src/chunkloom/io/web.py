"""Whole objects from plain web servers, over connections that stay open: what costs least of all ways to ask.

Only the plain answer is understood: the whole object with its length, or that there is none. For anything else
(redirects, errors, refusals, packed or piecewise bodies, broken connections) `get` says `ELSEWHERE`, and
`chunkloom.io.remote` asks tensorstore, which tries again and knows why. Knows no chunks.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections import defaultdict
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

TIMEOUT_S = 20.0
IDLE_S = 15.0
MOST_IDLE = 32
MOST_HEAD = 1 << 16
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


class Elsewhere:
    """The mark of what has to be asked in another way."""


ELSEWHERE: Final = Elsewhere()
Found = tuple[bytes, str]


class _UnusualError(Exception):
    """An answer that is not the plain one."""


_lock = threading.Lock()
_idle: defaultdict[Place, list[tuple[float, Any]]] = defaultdict(list)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # two processes must not read one answer


def get(root: str, path: str, query: str = "") -> Found | Elsewhere | None:
    """The object at `root` (`http://host:port`), `path` and `query`, with a text that changes when it does.

    None where the server says 404, `ELSEWHERE` for everything unusual.
    """
    place = _place(root)
    if place is None:
        return ELSEWHERE
    # What is written in a request must not end it.
    target = quote(f"/{path.lstrip('/')}") + query
    if not target.isascii() or any(c in target for c in " \r\n\t#"):
        return ELSEWHERE
    request = (
        f"GET {target} HTTP/1.1\r\nHost: {place.authority}\r\nUser-Agent: chunkloom\r\nAccept: */*\r\n\r\n".encode()
    )
    for kept in (True, False):
        try:
            connection = _taken(place) if kept else _opened(place)
            if connection is None:
                continue
        except (OSError, ValueError):
            return ELSEWHERE
        try:
            connection.sendall(request)
            found, stays = _answer(connection)
        except (OSError, ValueError, _UnusualError) as error:
            connection.close()
            # A server may have closed a connection that was kept: that is no failure.
            if kept and isinstance(error, OSError):
                continue
            return ELSEWHERE
        if stays:
            _keep(place, connection)
        else:
            connection.close()
        return found
    return ELSEWHERE


def _answer(connection: Any) -> tuple[Found | None, bool]:
    """What the server says, and whether the connection stays open."""
    head = b""
    while (end := head.find(b"\r\n\r\n")) < 0:
        more = connection.recv(1 << 18)
        if not more:
            raise ConnectionError("closed before an answer")
        head += more
        if len(head) > MOST_HEAD and b"\r\n\r\n" not in head[:MOST_HEAD]:
            raise _UnusualError
    lines = head[:end].split(b"\r\n")
    headers: dict[bytes, bytes] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        name = name.lower()
        if not colon or (name in headers and name == b"content-length"):
            raise _UnusualError
        headers[name] = value.strip()
    if lines[0][:9] != b"HTTP/1.1 " or b"transfer-encoding" in headers or b"content-encoding" in headers:
        raise _UnusualError
    status, length = lines[0][9:12], headers.get(b"content-length", b"")
    if status not in (b"200", b"404") or not length.isdigit():
        raise _UnusualError
    body = _body(connection, head[end + 4 :], int(length))
    stays = headers.get(b"connection", b"").lower() != b"close"
    if status == b"404":
        return None, stays
    state = headers.get(b"etag") or headers.get(b"last-modified") or b""
    return (body, state.strip(b'"').decode("latin-1")), stays


def _body(connection: Any, first: bytes, length: int) -> bytes:
    parts, left = [first], length - len(first)
    # Woken once when all is there, not for each packet.
    flags = socket.MSG_WAITALL if type(connection) is socket.socket and connection.gettimeout() is None else 0
    while left > 0:
        part = connection.recv(min(left, 1 << 22), flags)
        if not part:
            raise _UnusualError
        parts.append(part)
        left -= len(part)
    if left < 0:
        raise _UnusualError
    return b"".join(parts)


class Place(NamedTuple):
    """A web server."""

    scheme: str
    authority: str
    host: str
    port: int


@lru_cache(maxsize=64)
def _place(root: str) -> Place | None:
    """The server of `http://host:port`; None for what is no such address."""
    try:
        parts = urlsplit(root)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None
    if not parts.hostname or parts.path or "@" in parts.netloc:
        return None
    return Place(parts.scheme, parts.netloc, parts.hostname, port)


def _opened(place: Place) -> Any:
    if _proxied():
        raise ConnectionError("behind a proxy")
    scheme = place.scheme
    made: Any = socket.create_connection((place.host, place.port), TIMEOUT_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if scheme == "http" and hasattr(socket, "SO_RCVTIMEO"):
        # The system counts the time: `settimeout` would have every call wait for the connection to be ready first.
        made.settimeout(None)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            made.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", int(TIMEOUT_S), 0))
    return made if scheme == "http" else _tls().wrap_socket(made, server_hostname=place.host)


@cache
def _tls() -> Any:
    import ssl

    return ssl.create_default_context()


def _taken(place: Place) -> Any | None:
    now = time.monotonic()
    with _lock:
        waiting = _idle[place]
        while waiting:
            since, connection = waiting.pop()
            if now - since < IDLE_S:
                return connection
            connection.close()
    return None


def _keep(place: Place, connection: Any) -> None:
    with _lock:
        waiting = _idle[place]
        waiting.append((time.monotonic(), connection))
        over = waiting.pop(0)[1] if len(waiting) > MOST_IDLE else None
    if over is not None:
        over.close()


def _proxied() -> bool:
    return any(os.environ.get(name) or os.environ.get(name.upper()) for name in _PROXIES)
