"""Who looks at what: one session a browser, with its own data, chain, models and viewer.

A session is found by its cookie. The secret in layer addresses is another one, that can do nothing but post which ids
are one object: layer addresses are copied and shared.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from chunkloom.chain.spec import PipelineSpec
from chunkloom.dashboard.options import Start
from chunkloom.errors import ConflictError, ParameterError

if TYPE_CHECKING:
    import neuroglancer

    from chunkloom.engine.volume import Volume

MOST_SESSIONS = 64


@dataclass
class Drawn:
    """What was last put into a layer by us: what differs from it now was changed by the person."""

    name: str
    source: str
    shader: str | None = None


@dataclass(frozen=True)
class ExtraLayer:
    """A layer read as it is stored, served under a name that cannot be guessed."""

    name: str
    path: str
    layer_type: Literal["image", "segmentation"]
    volume: Volume
    shader: str | None = None
    blend: str | None = None
    disable_meshes: bool = False
    served: str = field(default_factory=lambda: f"layer-{secrets.token_hex(12)}")


@dataclass(eq=False)
class Session:
    """All that belongs to one browser. Changed only while `lock` is held."""

    id: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    equivalence_token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    volume_name: str = field(default_factory=lambda: f"raw-{secrets.token_hex(12)}")
    lock: threading.RLock = field(default_factory=threading.RLock)
    used: float = field(default_factory=time.monotonic)
    adopted: bool = False
    filled: bool = False

    data_path: str | None = None
    volume: Volume | None = None
    raw: Volume | None = None
    wrap_raw: bool = True
    chain: PipelineSpec = field(default_factory=PipelineSpec)
    resolved: PipelineSpec = field(default_factory=PipelineSpec)
    builder: dict[str, Any] | None = None
    chain_set: bool = False
    extra_layers: list[ExtraLayer] = field(default_factory=list)
    viewer: neuroglancer.Viewer | None = None
    drawn: dict[str, Drawn] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    equivalences: dict[str, list[list[int]]] = field(default_factory=dict)
    models: dict[str, Any] = field(default_factory=dict)
    boxes: Any = None
    folders: dict[str, str] = field(default_factory=dict)
    base_url: str = ""

    @property
    def short(self) -> str:
        """A name for logs and messages, from which the cookie cannot be guessed."""
        return self.volume_name[4:10]


class SessionStore:
    """The sessions of a dashboard. Safe from any thread."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self._lock = threading.Lock()
        self._sessions: dict[str, Session] = {}

    def __iter__(self) -> Iterator[Session]:
        with self._lock:
            return iter(list(self._sessions.values()))

    def new(self, *, adopted: bool) -> Session:
        """A session that begins as the dashboard was started; `adopted` when a browser has it already.

        Raises
        ------
        ConflictError
            There are too many.
        """
        chain = self.start.chain
        made = Session(
            adopted=adopted,
            chain=chain or PipelineSpec(),
            chain_set=chain is not None,
            wrap_raw=self.start.wrap_raw,
        )
        with self._lock:
            if len(self._sessions) >= MOST_SESSIONS:
                raise ConflictError(f"{MOST_SESSIONS} sessions are open here already: restart the dashboard")
            self._sessions[made.id] = made
        return made

    def adopt(self) -> Session | None:
        """The session that waits for its first browser, if there is one."""
        with self._lock:
            for session in self._sessions.values():
                if not session.adopted:
                    session.adopted = True
                    return session
        return None

    def of_cookie(self, value: str | None) -> Session | None:
        """The session of a cookie's value."""
        with self._lock:
            found = self._sessions.get(value or "")
        if found is not None:
            found.used = time.monotonic()
        return found

    def of_equivalence_token(self, token: str) -> Session | None:
        """The session that a layer's address names."""
        for session in self:
            if secrets.compare_digest(session.equivalence_token.encode(), token.encode()):
                return session
        return None

    def of_viewer(self, token: str) -> Session | None:
        """The session whose viewer (or box viewer) has this token."""
        for session in self:
            viewers = [session.viewer, getattr(session.boxes, "viewer", None)]
            if any(viewer is not None and viewer.token == token for viewer in viewers):
                return session
        return None

    def only(self, named: str | None = None) -> Session:
        """The session of a scripted call: the one it names, or the one there is.

        Raises
        ------
        ConflictError
            There are several, and none is named.
        ParameterError
            There is none of that name.
        """
        sessions = list(self)
        if named is not None:
            for session in sessions:
                if session.short == named:
                    return session
            raise ParameterError(f"no session {named!r}: there are {', '.join(s.short for s in sessions) or 'none'}")
        if not sessions:
            return self.new(adopted=True)
        if len(sessions) > 1:
            raise ConflictError(
                f"there are {len(sessions)} sessions ({', '.join(s.short for s in sessions)}): name one in the header "
                "X-Chunkloom-Session"
            )
        return sessions[0]
