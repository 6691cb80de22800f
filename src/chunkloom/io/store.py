"""`Store`: the documents (metadata, chunks) below one place, local or remote, behind one interface.

Local files are read directly, so that looking at local metadata costs no import of tensorstore; http(s), s3 and gs go
through its key-value stores, which retry with backoff. Knows no array formats.

A key that is not there is None. A refused one (403) raises `AccessError`: what that means is for the caller to say,
because object stores that forbid listing answer 403 for a key that does not exist.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chunkloom.errors import AccessError, ChunkReadError, FormatError
from chunkloom.io import remote
from chunkloom.io.paths import Location

# A metadata document larger than this is not one: Neuroglancer and OME metadata of huge pyramids stay under 1 MB.
MAX_DOCUMENT_BYTES = 64 * 2**20
_CONFIRMED_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON document: its value, and a short text that changes when the document does."""

    value: Any
    state: str


class Store:
    """The keys below a `Location`. Safe to use from many threads."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self._confirmed = -math.inf

    def __str__(self) -> str:
        return str(self.location)

    def where(self, key: str) -> str:
        """The full name of `key`, for messages."""
        return f"{self.location.base.rstrip('/')}/{key}" if key else self.location.base

    def child(self, path: str) -> Store:
        return Store(self.location.child(path))

    def read(self, key: str) -> bytes | None:
        """The bytes of `key`, None where there is nothing (404).

        Raises
        ------
        AccessError
            When reading it is refused (403).
        ChunkReadError
            When the place does not answer after retries, or answers with an error.
        """
        found = self._read(key)
        return None if found is None else found[0]

    def read_with_state(self, key: str) -> tuple[bytes, str] | None:
        """As `read`, with a text that changes when what is there does."""
        return self._read(key)

    def read_json(self, key: str) -> Document | None:
        """The JSON document at `key`.

        None also where a web server answers with a page of HTML instead of "not found".

        Raises
        ------
        FormatError
            When what is there is not JSON.
        """
        found = self._read(key, MAX_DOCUMENT_BYTES)
        if found is None:
            return None
        content, state = found
        text = content.lstrip(b"\xef\xbb\xbf \t\r\n")
        if text[:1] == b"<" and not self.location.is_local:
            return None
        try:
            value = json.loads(text.decode("utf-8"), parse_constant=lambda name: name)
        except UnicodeDecodeError as error:
            raise FormatError(f"{self.where(key)} is not text: expected a JSON document") from error
        except RecursionError as error:
            raise FormatError(f"{self.where(key)} nests too deeply: expected a metadata document") from error
        except ValueError as error:
            raise FormatError(f"{self.where(key)} is not valid JSON ({error}): repair or rewrite this file") from error
        return Document(value, state)

    def read_json_many(self, keys: Sequence[str]) -> dict[str, Document | Exception | None]:
        """`read_json` of several keys at once. A key that failed has its exception as value."""
        if self.location.is_local or len(keys) < 2:
            return {key: self._json_or_error(key) for key in keys}
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(max_workers=min(8, len(keys))) as pool:
            return dict(zip(keys, pool.map(self._json_or_error, keys), strict=True))

    def _json_or_error(self, key: str) -> Document | Exception | None:
        try:
            return self.read_json(key)
        except (FormatError, AccessError) as error:
            return error

    def folders(self) -> list[str] | None:
        """Names of the folders directly below, sorted; None where listing is not possible (remote places)."""
        if not self.location.is_local:
            return None
        try:
            with os.scandir(self.location.base) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except OSError:
            return []

    def exists(self, key: str) -> bool:
        """Whether there is something at `key`; False also where looking is refused."""
        if self.location.is_local:
            return os.path.isfile(self._path(key))
        return remote.exists(self.location, key)

    def confirm(self, key: str) -> None:
        """Return when `key` can be read; asked at most every few seconds.

        Before a refused chunk counts as one that was never written, this tells whether everything is refused now, as
        when credentials have run out.

        Raises
        ------
        AccessError, ChunkReadError
            When it cannot.
        """
        now = time.monotonic()
        if now - self._confirmed < _CONFIRMED_SECONDS:
            return
        if self.read(key) is None:
            raise ChunkReadError(f"{self.where(key)} is gone: chunks beside it cannot be told from missing ones")
        self._confirmed = now

    def confirm_folder(self) -> None:
        """Return when the local folder is still there, and for a remote place.

        A file that is not there is a chunk that was never written only as long as the folder around it exists: a disk
        that was unmounted, or data that was moved, is no fill value.

        Raises
        ------
        ChunkReadError
            When the folder is gone.
        """
        if self.location.is_local and not os.path.isdir(self.location.base):
            raise ChunkReadError(f"{self.location.base} is gone: its chunks cannot be told from missing ones")

    def confirm_file(self, key: str) -> None:
        """Return when the local `key` is a file or not there at all, and for a remote place.

        For readers of other libraries, which take a folder or a broken link for nothing, and wait at a pipe.

        Raises
        ------
        ChunkReadError
            When it is something else.
        """
        if not self.location.is_local:
            return
        path = self._path(key)
        try:
            mode = os.stat(path).st_mode
        except OSError:
            if os.path.islink(path):
                raise ChunkReadError(f"{path} cannot be read: it is a link to nothing") from None
            return
        if not stat.S_ISREG(mode):
            raise ChunkReadError(f"{path} cannot be read: it is {_kind(mode)}, expected a file")

    def entries(self) -> Iterator[tuple[str, bool]]:
        """Name of each entry directly below, and whether it is a folder; nothing where listing is not possible."""
        if not self.location.is_local:
            return
        try:
            with os.scandir(self.location.base) as entries:
                for entry in entries:
                    yield entry.name, entry.is_dir()
        except OSError:
            return

    def kvstore(self) -> dict[str, Any]:
        """The tensorstore key-value store of this place, with its trailing slash."""
        return remote.kvstore_spec(self.location)

    def _read(self, key: str, limit: int | None = None) -> tuple[bytes, str] | None:
        if self.location.is_local:
            return self._read_file(key, limit)
        return remote.read(self.location, key, limit)

    def _path(self, key: str) -> str:
        return os.path.join(self.location.base, *key.split("/"))

    def _read_file(self, key: str, limit: int | None) -> tuple[bytes, str] | None:
        path = self._path(key)
        try:
            # Few system calls, each of which lets other threads run. Not blocking: a pipe would wait for a writer.
            opened = os.open(path, _READING)
        except (FileNotFoundError, NotADirectoryError):
            if limit is None and os.path.islink(path):
                raise ChunkReadError(f"{path} cannot be read: it is a link to nothing") from None
            return None
        except PermissionError as error:
            raise AccessError(f"{path} cannot be read: permission denied. Check the rights of this file") from error
        except OSError as error:
            raise ChunkReadError(f"{path} cannot be read: {error.strerror or error}") from error
        try:
            found = os.fstat(opened)
            if not stat.S_ISREG(found.st_mode):
                if limit is None:
                    raise ChunkReadError(f"{path} cannot be read: it is {_kind(found.st_mode)}, expected a file")
                return None
            if limit is not None and found.st_size > limit:
                raise FormatError(f"{path} holds {found.st_size} bytes: expected a metadata document")
            return _contents(opened, found.st_size), f"{found.st_mtime_ns}-{found.st_size}"
        except OSError as error:
            if isinstance(error, ChunkReadError):
                raise
            raise ChunkReadError(f"{path} cannot be read: {error.strerror or error}") from error
        finally:
            os.close(opened)


_READING = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def _contents(opened: int, size: int) -> bytes:
    """All of an open file, as it was `size` bytes long a moment ago, or as it is by now."""
    first = os.read(opened, size)
    if len(first) == size:
        return first
    parts = [first]
    while part := os.read(opened, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _kind(mode: int) -> str:
    return "a folder" if stat.S_ISDIR(mode) else "a pipe" if stat.S_ISFIFO(mode) else "no plain file"


def digest(parts: Sequence[str]) -> str:
    """A short name for a sequence of texts, for identities."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
