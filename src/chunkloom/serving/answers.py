"""HTTP answers as ready-made ASGI messages, so that a kept answer is sent without building anything.

Knows nothing of volumes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

CORS: Headers = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"Content-Range, Content-Length, ETag"),
]
IMMUTABLE = b"public, max-age=31536000, immutable"
REVALIDATE = b"no-cache"


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer, ready to send any number of times."""

    start: Message
    body: Message
    etag: bytes | None = None

    @property
    def nbytes(self) -> int:
        return len(self.body["body"]) + 400  # what the messages themselves take, about


def answer(
    status: int, body: bytes, content_type: bytes, *, etag: bytes | None = None, cache: bytes = REVALIDATE
) -> Answer:
    """An answer with a body."""
    headers = [
        (b"content-type", content_type),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", cache),
        *CORS,
    ]
    if etag is not None:
        headers += [(b"etag", etag), (b"accept-ranges", b"bytes")]
    return Answer(
        {"type": "http.response.start", "status": status, "headers": headers},
        {"type": "http.response.body", "body": body},
        etag,
    )


def refusal(status: int, reason: str) -> Answer:
    """An answer that says in words why there is nothing else."""
    return answer(status, (reason + "\n").encode(), b"text/plain; charset=utf-8", cache=b"no-store")


def not_modified(etag: bytes, cache: bytes) -> Answer:
    """304: the client has it already."""
    headers = [(b"etag", etag), (b"cache-control", cache), *CORS]
    return Answer(
        {"type": "http.response.start", "status": 304, "headers": headers},
        {"type": "http.response.body", "body": b""},
        etag,
    )


def unmeasured(content_type: bytes, etag: bytes, cache: bytes) -> Answer:
    """To HEAD, of what has still to be made: as GET would begin, without the length, which nobody knows yet."""
    headers = [
        (b"content-type", content_type),
        (b"etag", etag),
        (b"cache-control", cache),
        (b"accept-ranges", b"bytes"),
        *CORS,
    ]
    return Answer(
        {"type": "http.response.start", "status": 200, "headers": headers},
        {"type": "http.response.body", "body": b""},
        etag,
    )


def preflight(scope: Scope) -> Answer:
    """The answer to OPTIONS: anybody may read, also from a public page to a private network."""
    asked = header(scope, b"access-control-request-headers") or b"*"
    headers = [
        (b"access-control-allow-origin", b"*"),
        (b"access-control-allow-methods", b"GET, HEAD, OPTIONS"),
        (b"access-control-allow-headers", asked),
        (b"access-control-allow-private-network", b"true"),
        (b"access-control-max-age", b"86400"),
        (b"content-length", b"0"),
    ]
    return Answer(
        {"type": "http.response.start", "status": 204, "headers": headers},
        {"type": "http.response.body", "body": b""},
    )


def header(scope: Scope, name: bytes) -> bytes | None:
    """The value of a request header (name in lower case), or None."""
    pairs: Iterable[tuple[bytes, bytes]] = scope["headers"]
    for key, value in pairs:
        if key == name:
            return value
    return None


def matches(etag: bytes, if_none_match: bytes | None) -> bool:
    """Whether `If-None-Match` names `etag` (RFC 9110, 13.1.2: weak comparison, lists, and *)."""
    if if_none_match is None:
        return False
    named = [part.strip().removeprefix(b"W/") for part in if_none_match.split(b",")]
    return etag in named or named == [b"*"]
