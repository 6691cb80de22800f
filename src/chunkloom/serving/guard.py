"""Who may ask the REST API: the name the server is asked by, the page that asks, the token, the size of a body.

A browser on this machine can reach a server on loopback for any page it shows. A page's own name in `Host` (DNS
rebinding) or another site in `Origin` gives it away. Decides from an ASGI scope alone; does no I/O.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass

from chunkloom.serving.access import ApiOptions
from chunkloom.serving.answers import Headers, Scope

MAX_BODY_BYTES = 1 << 20
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
READS = ("GET", "HEAD", "OPTIONS")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?)\.?(?::([0-9]{1,5}))?")
_ADDRESS = re.compile(r"[0-9.]+|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")


@dataclass(frozen=True)
class Refusal:
    """Why a request is not answered, and with which status."""

    status: int
    reason: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Guard:
    """Decides on requests by `ApiOptions`."""

    def __init__(self, options: ApiOptions) -> None:
        self.options = options
        self._named = frozenset(_bracketed(host.lower()) for host in options.hosts)

    def refusal(self, scope: Scope) -> Refusal | None:
        """Why this request must not be answered; None when it may be."""
        return self.foreign(scope) or self._unauthorized(scope) or self.too_large(scope)

    def has_token(self, scope: Scope) -> bool:
        """Whether the request carries the token."""
        expected = self.options.token
        if expected is None:
            return False
        given = [value for name, value in scope["headers"] if name == b"x-chunkloom-token"]
        for name, value in scope["headers"]:
            scheme, _, secret = value.partition(b" ")
            if name == b"authorization" and scheme.lower() == b"bearer":
                given.append(secret.strip())
        # `==` would take longer the more of the token is right.
        return any(hmac.compare_digest(secret, expected.encode()) for secret in given)

    def foreign(self, scope: Scope) -> Refusal | None:
        """Why the name that the server is asked by, or the page that asks, is refused."""
        hosts = _values(scope["headers"], b"host")
        if len(hosts) != 1:
            return Refusal(400, f"expected one Host header, found {len(hosts)}")
        host = _split(hosts[0])
        if host is None or host[0] not in self._allowed(scope):
            return Refusal(
                403,
                f"this server is not known as {hosts[0]!r}: ask it by the address it listens on, or name the host in "
                "CHUNKLOOM_ALLOWED_HOSTS",
            )
        for origin in _values(scope["headers"], b"origin"):
            scheme, _, authority = origin.partition("://")
            page = _split(authority) if scheme.lower() in ("http", "https") else None
            same = page is not None and _ported(page, scheme.lower()) == _ported(host, scheme.lower())
            if page is None or not (same or page[0] in self._named):
                return Refusal(403, f"pages of {origin!r} may not ask this server")
        return None

    def _allowed(self, scope: Scope) -> frozenset[str]:
        own = (scope.get("server") or ("",))[0] or ""
        # The address that the connection came in on; a name there would be the client's own words.
        listening = {_bracketed(own.lower())} if _ADDRESS.fullmatch(own) else set()
        return self._named | listening | set(LOOPBACK)

    def _unauthorized(self, scope: Scope) -> Refusal | None:
        if scope["method"] in READS:
            return None
        if not self.options.allow_edit:
            return Refusal(403, "edits are off: start the server with --allow-edit")
        if not self.has_token(scope):
            return Refusal(
                401,
                "edits need the token, as Authorization: Bearer or X-Chunkloom-Token",
                ((b"www-authenticate", b'Bearer realm="chunkloom"'),),
            )
        return None

    def too_large(self, scope: Scope) -> Refusal | None:
        """Why the announced length of the body is refused."""
        lengths = _values(scope["headers"], b"content-length")
        if any(not length.isdecimal() for length in lengths):
            return Refusal(400, f"Content-Length {lengths[0]!r} is not a number")
        return too_large() if any(int(length) > MAX_BODY_BYTES for length in lengths) else None


def too_large() -> Refusal:
    """The answer to a body above the limit.

    The connection stays: a client that is still sending would otherwise see it break instead of the reason. What
    follows is thrown away by the HTTP server.
    """
    return Refusal(413, f"the body is larger than {MAX_BODY_BYTES} bytes")


def _values(headers: Headers, name: bytes) -> list[str]:
    return [value.decode("latin-1").strip() for key, value in headers if key == name]


def _split(authority: str) -> tuple[str, str | None] | None:
    """Lower-case host and port of `host[:port]`; None for anything else."""
    match = _AUTHORITY.fullmatch(authority)
    return None if match is None else (match[1].lower(), match[2])


def _ported(authority: tuple[str, str | None], scheme: str) -> tuple[str, str]:
    host, port = authority
    return host, port or ("443" if scheme == "https" else "80")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
