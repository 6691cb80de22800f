"""The writer's lock of a network file: one process at a time, named, on local and network file systems.

`flock` on a lock file beside the network, which the kernel gives back when its holder dies. The file's text names the
holder; between hosts, where `flock` may be local, a fresh text of another host counts as held. Where `flock` does not
exist the file itself, created exclusively, is the lock. Knows nothing of what it protects.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import threading
import time
from dataclasses import dataclass

LEASE = 60.0
"""Seconds after which a holder on another host that gave no sign of life is taken over."""

_RENEW = 20.0
_NO_FLOCK = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}
_HELD, _FREE = b"+", b"-"


@dataclass(frozen=True)
class Holder:
    """Who holds a lock: a process of a host, since when (seconds of the epoch)."""

    host: str
    pid: int
    started: str
    since: float

    def __str__(self) -> str:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"process {self.pid} on {self.host}, since {when}"


class WriterLock:
    """The lock of `path`; `try_acquire` and `release` are called by one thread at a time."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1
        self._exclusive = False  # held by creating the file
        self._timer: threading.Timer | None = None
        self._identity = (socket.gethostname(), os.getpid(), _start_of(os.getpid()))

    def try_acquire(self) -> Holder | None:
        """Take the lock if it is free. None: it is ours now; else who holds it."""
        while True:
            if self._fd < 0:
                self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in _NO_FLOCK:
                    return self._acquire_exclusively()
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise
                return _holder(self._fd) or Holder("an unknown host", 0, "", time.time())
            if _same_file(self._fd, self.path):
                break
            os.close(self._fd)  # the holder removed the file as it closed
            self._fd = -1
        other = _holder(self._fd)
        if other is not None and other.host != self._identity[0] and _age(self._fd) < LEASE:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            return other
        self._sign(_HELD)
        return None

    def keep_fresh(self) -> None:
        """Give signs of life until `release`: for locks held longer than a moment."""
        self._timer = threading.Timer(_RENEW, self._renew)
        self._timer.daemon = True
        self._timer.start()

    def release(self) -> None:
        """Give the lock back."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._exclusive:
            self._exclusive = False
            os.unlink(f"{self.path}.held")
        elif self._fd >= 0:
            os.pwrite(self._fd, _FREE, 0)
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Remove the lock file if nobody holds it."""
        if self._fd < 0:
            return
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same_file(self._fd, self.path) and _holder(self._fd) is None:
                os.unlink(self.path)
        except OSError:
            pass  # held by another, or no flock here: the next one to close removes it
        os.close(self._fd)
        self._fd = -1

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the end of the interpreter anything may be gone
            self.close()

    def forget(self) -> None:
        """In a forked child: drop what is the parent's, without giving its lock back."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._exclusive, self._timer = -1, False, None

    def _sign(self, mark: bytes) -> None:
        host, pid, started = self._identity
        text = json.dumps({"host": host, "pid": pid, "started": started, "since": time.time()})
        os.pwrite(self._fd, mark + text.encode().ljust(255), 0)

    def _renew(self) -> None:
        if self._timer is not None and self._fd >= 0:
            os.utime(f"{self.path}.held" if self._exclusive else self.path)
            self.keep_fresh()

    def _acquire_exclusively(self) -> Holder | None:
        held = f"{self.path}.held"
        try:
            fd = os.open(held, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            return self._take_over(held)
        os.close(self._fd)
        self._fd, self._exclusive = fd, True
        self._sign(_HELD)
        return None

    def _take_over(self, held: str) -> Holder | None:
        try:
            fd = os.open(held, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return self._acquire_exclusively()
        try:
            holder = _holder(fd) or Holder("an unknown host", 0, "", time.time())
            here = holder.host == self._identity[0]
            dead = _start_of(holder.pid) != holder.started if here else _age(fd) > LEASE
            if not dead:
                return holder
            aside = f"{held}.{os.getpid()}.{threading.get_ident()}"
            os.rename(held, aside)  # one of several who find it dead succeeds with this very file
            taken = os.stat(aside).st_ino == os.fstat(fd).st_ino
            os.unlink(aside) if taken else os.rename(aside, held)
        except FileNotFoundError:
            pass
        finally:
            os.close(fd)
        return self._acquire_exclusively()


def _holder(fd: int) -> Holder | None:
    """Who the lock file names as its holder; None when it was given back."""
    text = os.pread(fd, 256, 0)
    if not text.startswith(_HELD):
        return None
    try:
        named = json.loads(text[1:])
        return Holder(named["host"], int(named["pid"]), named["started"], float(named["since"]))
    except (ValueError, KeyError, TypeError):
        return None


def _age(fd: int) -> float:
    return time.time() - os.fstat(fd).st_mtime


def _same_file(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _start_of(pid: int) -> str:
    """When a process of this host started, as the kernel tells it: tells a reused pid from the old one."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            return f.read().rsplit(b")", 1)[1].split()[19].decode()
    except (OSError, IndexError):
        return "" if not _alive(pid) else "?"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
