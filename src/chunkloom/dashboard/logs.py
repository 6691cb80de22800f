"""The log panel's records: a bounded buffer, and a queue for each page that listens.

Records of a session (made while `as_session` holds) are shown to it alone; the others to everybody.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import contextvars
import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from chunkloom.logging_setup import FORMAT

KEPT = 2000
MOST_WAITING = 5000
QUIET_S = 15.0

_session: contextvars.ContextVar[str | None] = contextvars.ContextVar("chunkloom_session", default=None)


@contextlib.contextmanager
def as_session(name: str) -> Iterator[None]:
    """What is logged inside belongs to this session."""
    token = _session.set(name)
    try:
        yield
    finally:
        _session.reset(token)


@dataclass(frozen=True)
class Message:
    """Something for the pages of a session (None: of all): a log record, or news of the session's state."""

    event: str
    data: Any
    session: str | None


class LogBuffer(logging.Handler):
    """A logging handler that keeps the last records and hands new ones to listeners."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(logging.Formatter(FORMAT))
        self._kept: collections.deque[Message] = collections.deque(maxlen=KEPT)
        self._listeners: dict[asyncio.Queue[Message], tuple[str, asyncio.AbstractEventLoop]] = {}
        self._listening = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = Message("message", self.format(record), _session.get())
        except Exception:
            self.handleError(record)
            return
        self._kept.append(message)
        self._hand_out(message)

    def say(self, text: str, session: str | None) -> None:
        """A line of another program's output."""
        message = Message("message", text, session)
        self._kept.append(message)
        self._hand_out(message)

    def tell(self, event: str, data: Any, session: str | None) -> None:
        """News that is not kept."""
        self._hand_out(Message(event, data, session))

    def _hand_out(self, message: Message) -> None:
        with self._listening:
            listeners = list(self._listeners.items())
        for queue, (session, loop) in listeners:
            if message.session in (None, session):
                with contextlib.suppress(RuntimeError):  # that loop has ended, and its listener with it
                    loop.call_soon_threadsafe(_put, queue, message)

    async def stream(self, session: str, quiet_s: float = QUIET_S) -> AsyncIterator[str]:
        """Kept records, then new ones, in the `text/event-stream` format; a record of several lines stays one."""
        queue: asyncio.Queue[Message] = asyncio.Queue(MOST_WAITING)
        with self._listening:
            kept = [m for m in self._kept if m.session in (None, session)]
            self._listeners[queue] = (session, asyncio.get_running_loop())
        try:
            yield ": listening\n\n" + "".join(map(server_sent, kept))
            while True:
                try:
                    first = await asyncio.wait_for(queue.get(), quiet_s)
                except TimeoutError:
                    yield ": nothing new\n\n"
                    continue
                waiting = [first]
                while not queue.empty():
                    waiting.append(queue.get_nowait())
                yield "".join(map(server_sent, waiting))
        finally:
            with self._listening:
                del self._listeners[queue]


def server_sent(message: Message) -> str:
    """One event. Source: HTML Living Standard, "Server-sent events"."""
    text = message.data if isinstance(message.data, str) else json.dumps(message.data)
    lines = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    return f"{lines}\n" if message.event == "message" else f"event: {message.event}\n{lines}\n"


def _put(queue: asyncio.Queue[Message], message: Message) -> None:
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(message)
