"""`DeviceSlots`: how many forwards a device runs at a time, in the order they came."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from chunkloom.errors import ParameterError
from chunkloom.settings import environment


class DeviceSlots:
    """`count` places on a device, strictly first come, first served: nobody barges past those who wait.

    Parameters
    ----------
    count
        Default: `$CHUNKLOOM_GPU_SLOTS`, else 1.
    """

    def __init__(self, count: int | None = None) -> None:
        if count is None:
            text = environment("GPU_SLOTS", "1") or "1"
            if not text.strip().isdigit():
                raise ParameterError(f"CHUNKLOOM_GPU_SLOTS is {text!r}: expected a whole number of at least 1")
            count = int(text)
        if count < 1:
            raise ParameterError(f"{count} device slots: expected at least 1")
        self.count = count
        self._free = count
        self._queue: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, check: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Wait for a slot and hold it. `check` is called while waiting, and may raise to give up."""
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
            try:
                while self._queue[0] is not ticket or not self._free:
                    check()
                    self._changed.wait(0.1)
                check()
                self._free -= 1
            finally:
                self._queue.remove(ticket)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._free += 1
                self._changed.notify_all()
