"""Room on disk for pieces that wait for their last part: one file of slots, removed with the run."""

from __future__ import annotations

import os
import threading

from chunkloom.errors import WriteError


class ScratchFile:
    """Slots of `slot_nbytes` in one file, made at the first `take`. Safe to use from threads."""

    def __init__(self, path: str | None, slot_nbytes: int) -> None:
        self._path = path
        self._size = slot_nbytes
        self._descriptor: int | None = None
        self._free: list[int] = []
        self._count = 0
        self._lock = threading.Lock()
        self.written = 0

    def take(self) -> int:
        with self._lock:
            if self._descriptor is None:
                self._open()
            if self._free:
                return self._free.pop()
            self._count += 1
            return self._count - 1

    def give(self, slot: int) -> None:
        with self._lock:
            self._free.append(slot)

    def write(self, slot: int, offset: int, data: memoryview) -> None:
        assert self._descriptor is not None
        at = slot * self._size + offset
        try:
            while data:
                count = os.pwrite(self._descriptor, data, at)
                at, data = at + count, data[count:]
                with self._lock:
                    self.written += count
        except OSError as error:
            raise WriteError(
                f"{self._path or 'temporary files'}: {error.strerror}, where partial chunks wait"
            ) from error

    def read(self, slot: int, offset: int, count: int) -> bytes:
        assert self._descriptor is not None
        found = os.pread(self._descriptor, count, slot * self._size + offset)
        if len(found) != count:
            raise WriteError(f"{self._path or 'temporary files'}: {len(found)} bytes of {count} came back")
        return found

    def close(self) -> None:
        """Without the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            if self._path is not None and os.path.exists(self._path):
                os.unlink(self._path)

    def _open(self) -> None:
        try:
            if self._path is None:
                import tempfile

                with tempfile.TemporaryFile() as file:
                    self._descriptor = os.dup(file.fileno())
            else:
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        except OSError as error:
            raise WriteError(f"{self._path or 'temporary files'}: {error.strerror}") from error
