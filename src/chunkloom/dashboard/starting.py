"""Opening what a dashboard was started with, before the first browser comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chunkloom.dashboard.logs import as_session
from chunkloom.dashboard.services.data import add_layer, opened, set_volume
from chunkloom.dashboard.services.viewing import new_view
from chunkloom.dashboard.sessions import ExtraLayer, Session
from chunkloom.engine.volume import Kind

if TYPE_CHECKING:
    from chunkloom.dashboard.app import Dashboard


def begin(dashboard: Dashboard, url: str) -> Session:
    """The session of the first browser, with the data open and the models starting.

    Raises
    ------
    ChunkloomError
        The data cannot be opened.
    """
    session = dashboard.first_session()
    session.filled, session.base_url = True, url
    fill(dashboard, session)
    return session


def fill(dashboard: Dashboard, session: Session) -> None:
    """Open in a session what the dashboard was started with: a second browser begins as the first one did."""
    start = dashboard.options.start
    if start.data_path is None:
        return
    with as_session(session.short), session.lock:
        volume = opened(start.data_path, dashboard.options.sources)
        set_volume(session, start.data_path, volume, dashboard.chunks)
        for entry in start.extra_layers:
            kind: Kind | None = "labels" if entry["layer_type"] == "segmentation" else None
            layer = ExtraLayer(volume=opened(entry["path"], dashboard.options.sources, kind=kind), **entry)
            add_layer(session, layer, dashboard.chunks)
        new_view(session)
        for entry in start.models:
            dashboard.pool.start(session, entry)
