"""The lock of a store: one live run at a time. It names host, process and when that started.

On a local file system the kernel's own lock lies over the file, so that a holder that died is known to be dead. Where
there is none, and in buckets, the holder renews its lock; one on another host that has not for `LEASE_S` is dead.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

from chunkloom.engine.writing.target import Bucket, BucketTarget, Folder, LocalTarget
from chunkloom.errors import ConflictError, WriteError

LEASE_S, RENEW_S = 120.0, 20.0


@contextlib.contextmanager
def locked(target: LocalTarget | BucketTarget) -> Iterator[None]:
    """The store is this run's while the block runs.

    Raises
    ------
    ConflictError
        While another live run has it.
    """
    if isinstance(target, BucketTarget):
        held: _BucketLock | _FileLock = _BucketLock(target.beside, target.name)
    else:
        held = _FileLock(target.beside, target.name)
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEW_S):
            held.renew()

    thread = threading.Thread(target=renew, name="chunkloom-lock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        held.release()


def holder() -> dict[str, Any]:
    """This process, as a lock names it."""
    return {
        "host": host(),
        "pid": os.getpid(),
        "started": started(os.getpid()),
        "token": os.urandom(16).hex(),
    }


def host() -> str:
    """The name of this machine."""
    if hasattr(os, "uname"):
        return os.uname().nodename
    import platform

    return platform.node()


def started(pid: int) -> str | None:
    """When a process started, as text that no other process with its number shares; None where it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            ticks = file.read().rsplit(")", 1)[1].split()[19]
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{file.read().strip()}/{ticks}"
    except FileNotFoundError:
        if os.path.isdir("/proc/self"):
            return None
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass
    return "unknown"


def is_alive(found: dict[str, Any], age_s: float) -> bool:
    """Whether the holder that a lock names lives; `age_s` since it was last renewed."""
    if found.get("host") != host():
        return age_s < LEASE_S
    pid = found.get("pid")
    if not isinstance(pid, int) or pid == os.getpid():
        return False
    return started(pid) is not None and started(pid) == found.get("started")


def parsed(text: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(text or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def refusal(name: str, found: dict[str, Any]) -> ConflictError:
    who = f"process {found.get('pid', '?')} on {found.get('host', 'another host')}"
    return ConflictError(f"{name} is being written by another run ({who}): wait for it or stop it, or write elsewhere")


class _FileLock:
    def __init__(self, beside: Folder, name: str) -> None:
        import fcntl

        self._path = beside.path("lock")
        self._folder = beside.name
        while True:
            try:
                os.makedirs(self._folder, exist_ok=True)
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            except FileNotFoundError:
                continue  # the run before this one has just ended, and took the folder with it
            except OSError as error:
                raise WriteError(f"{self._path}: {error.strerror}") from error
            found = parsed(os.pread(self._file, 4096, 0))
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._file)
                raise refusal(name, found) from None
            except OSError:
                pass  # a file system without locks: what the file says decides
            if not self._is_current():
                os.close(self._file)
                continue
            found = parsed(os.pread(self._file, 4096, 0))
            if found and is_alive(found, self._age_s()):
                os.close(self._file)
                raise refusal(name, found)
            break
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, json.dumps(holder()).encode(), 0)

    def _is_current(self) -> bool:
        try:
            return os.stat(self._path).st_ino == os.fstat(self._file).st_ino
        except FileNotFoundError:
            return False

    def _age_s(self) -> float:
        """By the clock of the file system, which is the one that renewed it."""
        probe = f"{self._path}-{os.urandom(16).hex()}"
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT, 0o600))
        try:
            return os.stat(probe).st_mtime - os.fstat(self._file).st_mtime
        finally:
            os.unlink(probe)

    def renew(self) -> None:
        with contextlib.suppress(OSError):
            os.utime(self._file)

    def release(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        os.close(self._file)
        with contextlib.suppress(OSError):
            os.rmdir(self._folder)


class _BucketLock:
    def __init__(self, beside: Bucket, name: str) -> None:
        self._beside = beside
        self._me = holder()
        text, generation = beside.read_with_generation("lock")
        found = parsed(text)
        if found and is_alive(found, time.time() - float(found.get("renewed", 0))):
            raise refusal(name, found)
        if not beside.write_if("lock", self._text(), generation):
            raise refusal(name, parsed(beside.read("lock")))

    def _text(self) -> bytes:
        return json.dumps({**self._me, "renewed": time.time()}).encode()

    def renew(self) -> None:
        with contextlib.suppress(WriteError):
            self._beside.write("lock", self._text())

    def release(self) -> None:
        with contextlib.suppress(WriteError):
            self._beside.delete("lock")
