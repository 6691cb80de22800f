"""Changes of the served volumes, told to whoever listens (`/api/events`).

Publishing is safe from any thread. A listener that does not keep up loses the oldest changes. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from typing import Literal

MOST_LISTENERS = 100
MOST_WAITING = 1000
QUIET_S = 15.0


@dataclass(frozen=True)
class Change:
    """A volume that is there now, is another one now, is gone, or in which more ids were found to be one object.

    `digest` is the one it has or had.
    """

    change: Literal["created", "replaced", "deleted", "joined"]
    name: str
    digest: str


class Events:
    """Hands changes on to listeners, each on its own event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[asyncio.Queue[Change], asyncio.AbstractEventLoop] = {}

    def publish(self, change: Change) -> None:
        with self._lock:
            listeners = list(self._listeners.items())
        for queue, loop in listeners:
            with contextlib.suppress(RuntimeError):  # that loop has ended, and its listener with it
                loop.call_soon_threadsafe(_put, queue, change)

    @property
    def full(self) -> bool:
        """Whether so many listen that no more should."""
        return len(self._listeners) >= MOST_LISTENERS

    @contextlib.contextmanager
    def listening(self) -> Iterator[asyncio.Queue[Change]]:
        """The changes from now on, while the block runs."""
        queue: asyncio.Queue[Change] = _Waiting(MOST_WAITING)
        with self._lock:
            self._listeners[queue] = asyncio.get_running_loop()
        try:
            yield queue
        finally:
            with self._lock:
                del self._listeners[queue]


class _Waiting(asyncio.Queue[Change]):
    """Changes that a listener has still to hear of: of joins of one volume, the last."""

    def _put(self, item: Change) -> None:
        if item.change == "joined":
            for i, waiting in enumerate(self._queue):  # type: ignore[attr-defined]
                if waiting == item:
                    del self._queue[i]  # type: ignore[attr-defined]
                    break
        super()._put(item)


def _put(queue: asyncio.Queue[Change], change: Change) -> None:
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(change)


async def server_sent(events: Events, quiet_s: float = QUIET_S) -> AsyncIterator[str]:
    """Changes from now on in the `text/event-stream` format, with a comment where nothing happens for long.

    Source: HTML Living Standard, "Server-sent events".
    """
    with events.listening() as changes:
        yield ": listening\n\n"
        while True:
            try:
                change = await asyncio.wait_for(changes.get(), quiet_s)
            except TimeoutError:
                yield ": nothing new\n\n"
            else:
                yield f"event: volume\ndata: {json.dumps(asdict(change))}\n\n"
