"""Telling a dashboard which ids are one object, from a thread of its own: chunks never wait for it.

At most one message each few seconds and layer; failures are logged and forgotten, since the next message holds all
that is known. Does not know where ids come from.
"""

from __future__ import annotations

import json
import logging
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from typing import Any

from chunkloom.serving.protocol import EQUIVALENCES

log = logging.getLogger(__name__)

PAUSE_S = 5.0
TIMEOUT_S = 10.0
Groups = Callable[[], list[list[int]]]


class EquivalencePoster:
    """Posts ``{"dataset", "equivalences"}`` of layers that have new ones.

    Parameters
    ----------
    pause_s
        Least time between two rounds of messages.
    """

    def __init__(self, pause_s: float = PAUSE_S) -> None:
        self._pause_s = pause_s
        self._new: dict[tuple[str, str], Groups] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def tell(self, dashboard_url: str, dataset: str, groups: Groups) -> None:
        """`dataset` has new equivalences; `groups` gives all of them when they are sent. Returns at once."""
        with self._changed:
            if self._closed:
                return
            self._new[dashboard_url, dataset] = groups
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="chunkloom-equivalences", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Send nothing more."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._new or self._closed)
                if self._closed:
                    return
                waiting, self._new = self._new, {}
            for (url, dataset), groups in waiting.items():
                send_equivalences(url, dataset, groups())
            with self._changed:
                if self._changed.wait_for(lambda: self._closed, timeout=self._pause_s):
                    return


def send_equivalences(dashboard_url: str, dataset: str, groups: list[list[int]]) -> bool:
    """Post the groups of `dataset`; whether the dashboard took them. Follows no redirect, raises nothing."""
    body = json.dumps({"dataset": dataset, "equivalences": groups}).encode()
    address = dashboard_url.rstrip("/") + EQUIVALENCES
    request = urllib.request.Request(address, data=body, headers={"Content-Type": "application/json"}, method="POST")
    try:
        with _OPENER.open(request, timeout=TIMEOUT_S):
            return True
    except (OSError, ValueError, HTTPException) as error:
        log.warning("equivalences of %s were not taken by the dashboard: %s", dataset[:80], error)
        return False


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """An address that was checked must not lead to one that was not."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)
