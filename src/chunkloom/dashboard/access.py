"""Who may use the dashboard: the token once, then a cookie; the right Host and Origin always.

Decides from an ASGI scope alone. Chunks below `/volumes` are read by pages of other addresses too; what protects them
is that their names cannot be guessed.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from chunkloom.dashboard.options import DashboardOptions
from chunkloom.dashboard.sessions import Session, SessionStore
from chunkloom.errors import ChunkloomError, ConflictError
from chunkloom.serving.answers import Scope
from chunkloom.serving.guard import Guard, Refusal

COOKIE = "chunkloom"
CLOSED = "open the link that the command printed: it carries the token of this dashboard"


@dataclass(frozen=True)
class Entered:
    """A request that may go on, as which session; `welcome` when the browser has to keep the cookie."""

    session: Session
    welcome: bool = False


class Access:
    """Decides on requests."""

    def __init__(self, options: DashboardOptions, sessions: SessionStore) -> None:
        self.options, self.sessions = options, sessions
        # Cookies do not tell ports of one host apart.
        self.cookie = f"{COOKIE}{options.cookie_suffix}"
        self._guard = Guard(options.api)

    def foreign(self, scope: Scope) -> Refusal | None:
        """Why a request comes from where it must not."""
        return self._guard.foreign(scope)

    def enter(self, scope: Scope) -> Entered | Refusal:
        """The session of a request, or why there is none."""
        cookie = self._cookie_value(scope)
        session = self.sessions.of_cookie(cookie)
        if session is not None:
            return Entered(session)
        if not self.has_token(scope):
            return Refusal(401, CLOSED, ((b"www-authenticate", b'Bearer realm="chunkloom"'),))
        try:
            if self._in_query(scope):  # a browser that opens the link
                return Entered(self.sessions.adopt() or self.sessions.new(adopted=True), welcome=True)
            return Entered(self.sessions.only(_header(scope, b"x-chunkloom-session")))
        except ConflictError as error:
            return Refusal(409, str(error))
        except ChunkloomError as error:
            return Refusal(400, str(error))

    def has_token(self, scope: Scope) -> bool:
        """Whether the request carries the token, in a header or in the address."""
        given = [value for key, value in parse_qsl(_query(scope)) if key == "token"]
        header = _header(scope, b"x-chunkloom-token")
        if header is not None:
            given.append(header)
        scheme, _, secret = (_header(scope, b"authorization") or "").partition(" ")
        if scheme.lower() == "bearer":
            given.append(secret.strip())
        return any(hmac.compare_digest(secret.encode(), self.options.token.encode()) for secret in given)

    def _in_query(self, scope: Scope) -> bool:
        return any(key == "token" for key, _ in parse_qsl(_query(scope)))

    def _cookie_value(self, scope: Scope) -> str | None:
        jar: SimpleCookie = SimpleCookie()
        try:
            jar.load(_header(scope, b"cookie") or "")
        except CookieError:
            return None
        return jar[self.cookie].value if self.cookie in jar else None

    def set_cookie(self, session: Session, *, secure: bool) -> str:
        """The Set-Cookie header's value. Not readable by scripts, and not sent from other sites' pages."""
        return f"{self.cookie}={session.id}; Path=/; HttpOnly; SameSite=Lax{'; Secure' if secure else ''}"


def without_token(scope: Scope) -> str:
    """The query without the token: it must not stay in the address bar and in the history."""
    rest = [(key, value) for key, value in parse_qsl(_query(scope)) if key != "token"]
    return f"?{urlencode(rest)}" if rest else ""


def _query(scope: Scope) -> str:
    return bytes(scope.get("query_string", b"")).decode("latin-1")


def _header(scope: Scope, name: bytes) -> str | None:
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value).decode("latin-1")
    return None
