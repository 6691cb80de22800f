"""What a run has done, kept beside its store so that the same run can go on after it died.

A record is two files: what the run is, and one byte a piece of the store: not done, written, or left out as empty.
A byte is set after the piece's file is there. Both are removed with the mark of the unfinished store.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import threading
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from chunkloom.engine.volume import Array
from chunkloom.engine.writing.target import Folder, Place
from chunkloom.errors import ConflictError

TO_DO, WRITTEN, LEFT_OUT = 0, 1, 2
UPLOAD_S = 5.0


@dataclass(frozen=True)
class Identity:
    """What makes two runs the same: equal ones write equal stores.

    Attributes
    ----------
    volume : digest of the volume.
    metadata : digest of the finished store's metadata files, and of what else decides which files there are.
    box : the box of each array, in words.
    extent : with "level", runs that differ in `box` alone write into one store.
    """

    volume: str
    metadata: str
    box: str
    extent: str

    @property
    def run(self) -> str:
        """A short name for it."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]

    def shares_store(self, other: Identity) -> bool:
        """Whether both may write into one store."""
        return self == other or (
            self.extent == other.extent == "level" and (self.volume, self.metadata) == (other.volume, other.metadata)
        )

    def difference(self, other: Identity) -> str:
        """What differs, in words: for the message that refuses."""
        if self.volume != other.volume:
            return f"another volume (digest {other.volume}; this one is {self.volume})"
        if self.metadata != other.metadata or self.extent != other.extent:
            return "the same volume with other options"
        return f"the same volume and another box ({other.box}; this one is {self.box})"


class Record:
    """The record of one run. `states` has one byte a piece, of all arrays one after the other."""

    def __init__(self, beside: Place, identity: Identity, pieces: int) -> None:
        self.identity = identity
        self._beside = beside
        self._head, self._map = f"run-{identity.run}.json", f"run-{identity.run}.map"
        self._lock = threading.Lock()
        self._uploaded = time.monotonic()
        self._mapped: mmap.mmap | None = None
        self.finished = False
        found = beside.read(self._map)
        self.resumed = beside.read(self._head) is not None and found is not None and len(found) == pieces
        if not self.resumed:
            found = bytes(pieces)
            beside.write(self._map, found)
            beside.write(self._head, (json.dumps(asdict(identity), indent=2) + "\n").encode())
        assert found is not None
        if isinstance(beside, Folder):
            # Kept by the kernel when the process is killed, at the cost of a store to memory.
            descriptor = os.open(beside.path(self._map), os.O_RDWR)
            try:
                self._mapped = mmap.mmap(descriptor, pieces)
            finally:
                os.close(descriptor)
            self.states: Array = np.frombuffer(self._mapped, np.uint8)
        else:
            self.states = np.frombuffer(bytearray(found), np.uint8)

    def mark(self, position: int, state: int) -> None:
        """Piece `position` is in `state`, and what that says is there."""
        self.states[position] = state
        if not isinstance(self._beside, Folder) and time.monotonic() - self._uploaded > UPLOAD_S:
            self.save()

    def save(self) -> None:
        """Where the record is in a bucket: upload it."""
        if isinstance(self._beside, Folder):
            return
        with self._lock:
            self._uploaded = time.monotonic()
            self._beside.write(self._map, self.states.tobytes())

    def remove(self) -> None:
        """The run is over."""
        self.finished = True
        self.close()
        self._beside.delete(self._head)
        self._beside.delete(self._map)

    def close(self) -> None:
        """Let go of the file; the record stays."""
        if self._mapped is not None:
            self.states = self.states.copy()
            with contextlib.suppress(BufferError):  # someone still looks at it
                self._mapped.close()
            self._mapped = None


def recorded(beside: Place) -> list[Identity]:
    """The runs that have a record beside a store."""
    found = []
    for name in beside.names():
        if name.startswith("run-") and name.endswith(".json"):
            text = beside.read(name)
            if text is not None:
                found.append(_identity(json.loads(text), name))
    return found


def _identity(data: Any, name: str) -> Identity:
    try:
        return Identity(**data)
    except TypeError as error:
        raise ConflictError(f"{name} is no record of a run: remove it, or write elsewhere") from error
