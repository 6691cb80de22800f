"""Where a store is written: a local folder, or a place in a bucket. Whole files or none.

Beside every target, in the place called `<target>.unfinished`, lies what only the run needs: its record, its lock,
what waits for its last part. Knows no formats.
"""

from __future__ import annotations

import contextlib
import os
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from chunkloom.engine.writing.copying import copy_file
from chunkloom.errors import AccessError, ChunkloomError, ConflictError, ParameterError, WriteError
from chunkloom.io import remote
from chunkloom.io.paths import Location, parse_path

BESIDE = ".unfinished"


class Place(ABC):
    """Keys and bytes. A key is written whole or not at all. Safe to use from threads."""

    name: str

    @abstractmethod
    def read(self, key: str) -> bytes | None:
        """The bytes of `key`, None where there is nothing."""

    @abstractmethod
    def write(self, key: str, data: bytes) -> None: ...

    @abstractmethod
    def size(self, key: str) -> int | None:
        """How many bytes `key` has, None where there is nothing."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Without `key`, whether it was there or not."""

    @abstractmethod
    def names(self) -> list[str]:
        """Names directly below, sorted; [] where there is nothing."""

    @abstractmethod
    def clear(self) -> None:
        """Without anything below."""


class Target(Place):
    """The place of a store, and the one beside it."""

    beside: Place

    def copy(self, path: str, key: str) -> None:
        """The bytes of a local file as `key`."""
        with open(path, "rb") as file:
            self.write(key, file.read())

    def remember(self, text: str) -> None:
        """Keep a note with the finished store, where the place can keep one out of sight."""

    def recall(self) -> str | None:
        """The note of `remember`."""
        return None


class Folder(Place):
    """A local folder. Files are written elsewhere on the same file system, then renamed."""

    def __init__(self, path: str, temporary: str | None = None) -> None:
        self.name = path
        self._path = path
        self._temporary = temporary or path

    def path(self, key: str) -> str:
        return f"{self._path}/{key}"

    def read(self, key: str) -> bytes | None:
        try:
            return Path(self.path(key)).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _failed(self.path(key), error) from error

    def write(self, key: str, data: bytes) -> None:
        try:
            made = self.temporary_file()
            descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(descriptor, view) :]
            finally:
                os.close(descriptor)
            self.move_in(made, key)
        except OSError as error:
            raise _failed(self.path(key), error) from error

    def temporary_file(self) -> str:
        """A path of this thread's own, whose file may be renamed into the folder."""
        return f"{self._temporary}/.writing-{threading.get_ident()}"

    def move_in(self, made: str, key: str) -> None:
        path = self.path(key)
        try:
            os.rename(made, path)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.rename(made, path)

    def size(self, key: str) -> int | None:
        try:
            return os.stat(self.path(key)).st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def delete(self, key: str) -> None:
        try:
            os.unlink(self.path(key))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _failed(self.path(key), error) from error

    def names(self) -> list[str]:
        try:
            return sorted(os.listdir(self._path))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _failed(self._path, error) from error

    def clear(self) -> None:
        _remove_folder(self._path)

    def remove_folder(self, name: str) -> None:
        _remove_folder(self.path(name))


class LocalTarget(Folder, Target):
    """A store in a local folder."""

    def __init__(self, path: str) -> None:
        beside = path + BESIDE
        parent = os.path.dirname(path)
        if os.path.isdir(path) and os.stat(path).st_dev != os.stat(parent).st_dev:
            # A folder that is a file system of its own: nothing beside it can be renamed into it.
            beside = f"{path}/{BESIDE}"
        super().__init__(path, beside)
        self.beside: Folder = Folder(beside)

    def copy(self, path: str, key: str) -> None:
        made = self.temporary_file()
        try:
            copy_file(path, made)
            self.move_in(made, key)
        except OSError as error:
            raise _failed(self.path(key), error) from error

    def clear(self) -> None:
        """Out of the way in one step, then removed: half a store is never left."""
        if not os.path.isdir(self._path):
            return
        try:
            os.makedirs(self._temporary, exist_ok=True)
            if self._temporary.startswith(self._path + "/"):
                for name in self.names():
                    if name != BESIDE:
                        _remove(self.path(name))
                return
            away = f"{self._temporary}/old-{os.getpid()}-{threading.get_ident()}"
            os.rename(self._path, away)
        except OSError as error:
            raise _failed(self._path, error) from error
        _remove_folder(away)

    def remember(self, text: str) -> None:
        # A file system without attributes: the store is as good.
        with contextlib.suppress(OSError, AttributeError):
            os.setxattr(self._path, "user.chunkloom", text.encode())

    def recall(self) -> str | None:
        try:
            return os.getxattr(self._path, "user.chunkloom").decode()
        except (OSError, AttributeError):
            return None


class Bucket(Place):
    """A folder of an s3 or gs bucket. Objects appear whole by themselves."""

    def __init__(self, location: Location) -> None:
        self.name = str(location)
        self._location = location
        self._store = remote.open_for_writing(location)

    def read(self, key: str) -> bytes | None:
        found = self._do(key, lambda: self._store.read(key).result())
        return found.value if found.state == "value" else None

    def write(self, key: str, data: bytes) -> None:
        self._do(key, lambda: self._store.write(key, data).result())

    def write_if(self, key: str, data: bytes, generation: bytes) -> bool:
        """Write `key` only if it still has `generation`; whether it did."""
        stamp = self._do(key, lambda: self._store.write(key, data, if_equal=generation).result())
        return bool(stamp.generation)

    def read_with_generation(self, key: str) -> tuple[bytes | None, bytes]:
        found = self._do(key, lambda: self._store.read(key).result())
        return (found.value if found.state == "value" else None), found.stamp.generation

    def size(self, key: str) -> int | None:
        found = self.read(key)
        return None if found is None else len(found)

    def delete(self, key: str) -> None:
        self._do(key, lambda: self._store.delete_range(_only(key)).result())

    def names(self) -> list[str]:
        found = self._do("", lambda: self._store.list().result())
        return sorted({key.decode("utf-8", "replace").split("/")[0] for key in found})

    def clear(self) -> None:
        import tensorstore as ts

        self._do("", lambda: self._store.delete_range(ts.KvStore.KeyRange()).result())

    def _do(self, key: str, what: Any) -> Any:
        try:
            return what()
        except ChunkloomError:
            raise
        except Exception as error:
            where = f"{self._location.base}/{key}"
            told = remote.translate(error, where)
            if isinstance(told, AccessError):
                raise AccessError(
                    f"{where}: access refused. Check the credentials and the rights on the bucket"
                ) from error
            raise WriteError(f"{where}: {remote.plain(error)}") from error


class BucketTarget(Bucket, Target):
    """A store in a bucket."""

    def __init__(self, location: Location) -> None:
        super().__init__(location)
        parent = location.parent()
        self.beside: Bucket = Bucket(parent.child(location.name + BESIDE))


def open_target(target: str | os.PathLike[str]) -> LocalTarget | BucketTarget:
    """The place that a path or URL names.

    Raises
    ------
    ParameterError
        For a place that cannot be written to.
    ConflictError
        Where a file is in the way.
    """
    location = parse_path(target)
    if location.scheme in ("http", "https"):
        raise ParameterError(
            f"{location.text}: nothing is written over {location.scheme}; name a folder, s3:// or gs://"
        )
    if location.is_root or location.inner:
        raise ParameterError(f"{location.text} cannot hold a store: name a folder for it")
    if not location.is_local:
        return BucketTarget(location)
    if os.path.exists(location.base) and not os.path.isdir(location.base):
        raise ConflictError(f"{location.base} is a file: a store is a folder; choose another place, or remove the file")
    return LocalTarget(location.base.rstrip("/"))


def _remove_folder(path: str) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        _remove_folder(path)
    else:
        os.unlink(path)


def _only(key: str) -> Any:
    import tensorstore as ts

    return ts.KvStore.KeyRange(key, key + "\0")


def _failed(path: str, error: OSError) -> WriteError | AccessError:
    if isinstance(error, PermissionError):
        return AccessError(f"{path}: permission denied. Check the rights of the folder")
    return WriteError(f"{path}: {error.strerror or error}")
