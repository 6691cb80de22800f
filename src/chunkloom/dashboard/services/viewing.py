"""The session's viewer: made when there is data to show, and its address."""

from __future__ import annotations

from chunkloom.dashboard.services.layers import redraw
from chunkloom.dashboard.sessions import Session


def new_view(session: Session) -> list[str]:
    """A viewer of the session's data in place of the one before, and the names of its layers."""
    from chunkloom.viewer.bootstrap import new_viewer

    session.viewer = new_viewer()
    session.drawn, session.removed = {}, set()
    return redraw(session)


def viewer_path(session: Session) -> str | None:
    """Where the viewer is, below the dashboard's own address: ``v/TOKEN/``."""
    return None if session.viewer is None else f"v/{session.viewer.token}/"
