"""Chunks that took long to make, kept on disk beyond the life of a process: a folder of at most so many bytes.

What is kept is found by what made it: the digest of the stage, the place and the state of the stored data are its
name. Several processes may share a folder. A file that is damaged, or that cannot be written, is as none. Knows
arrays and bytes, not what they show.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import struct
import tempfile
import threading
import zlib
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chunkloom import __version__

log = logging.getLogger(__name__)

MAGIC = b"chunkloom-1\n"
SUFFIX = ".chunk"
_HEAD = struct.Struct("<8sBI")  # dtype, axes, crc32 of the values
SLACK = 0.9
"""To what part of the limit a full folder is emptied: each emptying looks at all of it."""


class DiskCache:
    """Arrays in a folder, those used longest ago deleted when it is full. Safe to use from threads and processes.

    Parameters
    ----------
    folder
        Made when the first chunk is kept.
    limit
        Most bytes of it.
    """

    def __init__(self, folder: str | os.PathLike[str], limit: int) -> None:
        self.folder = Path(folder)
        self.limit = limit
        self.hits = self.misses = 0
        self._lock = threading.Lock()
        self._used: int | None = None
        self._said = False

    def get(self, key: Hashable) -> NDArray[Any] | None:
        """The array kept under `key`, read-only; None where there is none."""
        path = self._path(key)
        try:
            data = path.read_bytes()
            found = _unpacked(data)
        except FileNotFoundError:
            found = None
        except (OSError, ValueError, struct.error, zlib.error, TypeError) as error:
            log.warning("a chunk kept on disk cannot be used: %s: %s", path, error)
            with contextlib.suppress(OSError):
                path.unlink()
            found = None
        if found is None:
            self.misses += 1
            return None
        self.hits += 1
        with contextlib.suppress(OSError):
            os.utime(path)  # used now
        return found

    def put(self, key: Hashable, array: NDArray[Any]) -> None:
        """Keep `array`, if it can be."""
        data = _packed(array)
        if len(data) > self.limit:
            return
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Nobody sees half a file: it gets its name when it is whole.
            with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as stream:
                stream.write(data)
            os.replace(stream.name, path)
        except OSError as error:
            if not self._said:
                log.warning("chunks cannot be kept in %s: %s", self.folder, error.strerror or error)
                self._said = True
            return
        with self._lock:
            self._used = self._measured() if self._used is None else self._used + len(data)
            if self._used > self.limit:
                self._used = self._emptied()

    def clear(self) -> None:
        """Delete all that is kept."""
        with self._lock:
            for path, _, _ in self._files():
                with contextlib.suppress(OSError):
                    path.unlink()
            self._used = 0

    @property
    def used(self) -> int:
        """Bytes kept, as far as this process knows."""
        with self._lock:
            if self._used is None:
                self._used = self._measured()
            return self._used

    def __len__(self) -> int:
        return len(self._files())

    def _path(self, key: Hashable) -> Path:
        # Another version may compute something else.
        name = hashlib.blake2b(repr((__version__, key)).encode(), digest_size=20).hexdigest()
        return self.folder / name[:2] / f"{name[2:]}{SUFFIX}"

    def _files(self) -> list[tuple[Path, int, float]]:
        """Each file with its size and when it was used."""
        found = []
        for path in self.folder.glob(f"??/*{SUFFIX}"):
            with contextlib.suppress(OSError):
                about = path.stat()
                found.append((path, about.st_size, about.st_mtime))
        return found

    def _measured(self) -> int:
        return sum(size for _, size, _ in self._files())

    def _emptied(self) -> int:
        files = sorted(self._files(), key=lambda file: file[2])
        used = sum(size for _, size, _ in files)
        for path, size, _ in files:
            if used <= self.limit * SLACK:
                break
            with contextlib.suppress(OSError):
                path.unlink()
                used -= size
        return used


def _packed(array: NDArray[Any]) -> bytes:
    values = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    raw = values.data.cast("B") if values.size else b""
    head = _HEAD.pack(values.dtype.str.encode(), values.ndim, zlib.crc32(raw))
    return MAGIC + head + struct.pack(f"<{values.ndim}Q", *values.shape) + _compress(raw)


def _unpacked(data: bytes) -> NDArray[Any]:
    if not data.startswith(MAGIC):
        raise ValueError("not a kept chunk")
    at = len(MAGIC)
    dtype_text, ndim, crc = _HEAD.unpack_from(data, at)
    at += _HEAD.size
    shape = struct.unpack_from(f"<{ndim}Q", data, at)
    raw = _decompress(data[at + 8 * ndim :])
    if zlib.crc32(raw) != crc:
        raise ValueError("its values are damaged")
    dtype = np.dtype(dtype_text.rstrip(b"\0").decode())
    found = np.frombuffer(raw, dtype).reshape(shape).astype(dtype.newbyteorder("="), copy=False)
    found.setflags(write=False)
    return found


def _compress(raw: Any) -> bytes:
    from numcodecs import zstd

    return bytes(zstd.compress(raw, 1)) if len(raw) else b""


def _decompress(data: bytes) -> bytes:
    from numcodecs import zstd

    try:
        return bytes(zstd.decompress(data)) if data else b""
    except RuntimeError as error:
        raise ValueError(str(error)) from error
