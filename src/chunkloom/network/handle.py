"""One network file as this process has it: its base, its journal, its counts, its lock; scopes and checkpoints.

All objects of a process that work on the same path share one `Handle`. docs/design/network-journal.md tells the
protocol. This module knows records and counts, not what a placement set or a connection is.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import functools
import logging
import os
import random
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeVar, cast

import h5py

from chunkloom.network import hdf5, statistics
from chunkloom.network.apply import Applier
from chunkloom.network.errors import (
    FormatError,
    LockedError,
    NetworkNotFoundError,
    ParameterError,
)
from chunkloom.network.journal import START, Base, Journal
from chunkloom.network.lock import WriterLock
from chunkloom.network.overlay import Overlay
from chunkloom.network.provenance import new_provenance
from chunkloom.network.records import Record
from chunkloom.network.statistics import Statistics

CHECKPOINT_BYTES = 64 << 20
"""A journal longer than this, and longer than its base, is made part of the base."""

_Identity = tuple[int, int, int, int]
_F = TypeVar("_F", bound=Callable[..., Any])


class View:
    """The base with the journal's records applied in memory, up to offset `applied`."""

    def __init__(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.identity = identity(os.fstat(fd))
        self.mode = os.fstat(fd).st_mode
        self.overlay = Overlay(fd)
        self.applied = START
        try:
            self.file = h5py.File(self.overlay, "r+", libver=hdf5.LIBVER)
        except OSError as error:
            self.overlay.close()
            raise FormatError(
                f"{path} is not an HDF5 file that can be opened ({str(error).splitlines()[0]}); expected a network file"
            ) from error


class ReadHandle:
    """What a reader works with: `file` (base and journal as one) and `stats`."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    @property
    def file(self) -> h5py.File:
        """The network as an HDF5 file. What is written to it is lost: write through the sets."""
        return self._handle.file()

    def file_for_many(self) -> contextlib.AbstractContextManager[h5py.File]:
        """The same file for a bulk load: opened by HDF5 itself, which is quicker, while nothing waits in the
        journal."""
        return self._handle.file_for_many()

    @property
    def stats(self) -> Statistics:
        """Counts of everything written so far."""
        return self._handle.stats()

    def is_network(self) -> bool:
        """Whether the HDF5 file has the groups of a network file."""
        return all(root in self.file for root in (statistics.PLACEMENT, statistics.CONNECTIVITY))


class WriteHandle(ReadHandle):
    """What a writer works with: a `ReadHandle` that also takes records."""

    def submit(self, record: Record) -> None:
        """Write a record that has been checked. When this returns, a kill cannot undo it."""
        self._handle.submit(record)


class Handle:
    """The state shared by everything in this process that uses one network file. Made by `handle_of`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.timeout = 60.0
        self.lock = threading.RLock()
        self._writer = WriterLock(f"{path}.lock")
        self._holders = 0
        self._scopes = 0
        self._pins = 0
        self._view: View | None = None
        self._journal: Journal | None = None
        self._stats: Statistics | None = None
        self._base = Base(statistics.ZERO, -1)

    # ---- scopes

    @contextlib.contextmanager
    def reading(self) -> Iterator[ReadHandle]:
        """A handle that sees every acknowledged write, for one operation."""
        with self.lock:
            if not (self._pins and self._stats):
                self._refresh()
            with self._keep_out_others():
                yield ReadHandle(self)

    @contextlib.contextmanager
    def writing(self) -> Iterator[WriteHandle]:
        """A handle for one write: the only one, of any process or thread."""
        self.acquire()
        try:
            with self.lock:
                self._refresh()
                with self._keep_out_others():
                    yield WriteHandle(self)
                self._checkpoint_if_long()
        finally:
            self.release()

    @contextlib.contextmanager
    def read_scope(self) -> Iterator[ReadHandle]:
        """Many reads of one state of the file; writes of this process are seen, those of others when it ends."""
        with self.lock:
            self._refresh()
            self._pins += 1
        try:
            yield ReadHandle(self)
        finally:
            with self.lock:
                self._pins -= 1

    @contextlib.contextmanager
    def write_scope(self) -> Iterator[WriteHandle]:
        """Many writes under one lock and one checkpoint, which follows the outermost scope."""
        self.acquire()
        with self.lock:
            self._scopes += 1
            if self._scopes == 1:
                self._writer.keep_fresh()
        try:
            with self.lock:
                self._refresh()
            yield WriteHandle(self)
        finally:
            with self.lock:
                self._scopes -= 1
                try:
                    if self._scopes == 0:
                        self.checkpoint()
                finally:
                    self.release()

    def acquire(self) -> None:
        """Take the writer's lock for this process, waiting for up to `timeout` seconds.

        Raises
        ------
        LockedError
            It is held by another process all the while; the message names it.
        """
        deadline, delay = time.monotonic() + self.timeout, 0.0005
        while True:
            with self.lock:
                holder = self._writer.try_acquire() if self._holders == 0 else None
                if holder is None:
                    self._holders += 1
                    return
            if time.monotonic() > deadline:
                raise LockedError(
                    f"{self.path} is being written by {holder}: waited {self.timeout:g} s. "
                    "Wait for it to finish, or stop that process; its lock ends with it"
                )
            time.sleep(delay * random.uniform(0.5, 1.0))
            delay = min(delay * 1.5, 0.02)

    def release(self) -> None:
        """Give back what one `acquire` took."""
        with self.lock:
            self._holders -= 1
            if self._holders == 0:
                self._writer.release()

    # ---- state

    def stats(self) -> Statistics:
        """Counts, including those of the journal."""
        with self.lock:
            if self._stats is None:
                self._refresh()
            return cast(Statistics, self._stats)

    def file(self) -> h5py.File:
        """The view, brought up to date with the journal as far as it has been read."""
        with self.lock:
            if self._view is None:
                self._refresh()
            view = cast(View, self._view)
            journal = self._journal
            if journal is not None and view.applied < journal.end:
                try:
                    applier = Applier(view.file)
                    for record, end in journal.new_records(view.applied):
                        applier.apply([record])
                        view.applied = end
                        if end >= journal.end:
                            break
                    applier.finish()
                except BaseException:
                    self._view = None  # half applied: start again from the base
                    raise
            return view.file

    @contextlib.contextmanager
    def file_for_many(self) -> Iterator[h5py.File]:
        """`file()`, or the base opened by HDF5's own driver if that is the same. Closed at the end: an open file
        would keep an engine in this process that writes in place from opening it."""
        file, view = self.file(), cast(View, self._view)
        native = None
        if not view.overlay.pages:
            with contextlib.suppress(OSError):
                native = h5py.File(self.path, "r")
        if native is None:
            yield file
            return
        with native:
            same = identity(os.fstat(native.id.get_vfd_handle())) == view.identity
            yield native if same else file

    def submit(self, record: Record) -> None:
        """Write one record; the caller holds the writer's lock."""
        with self.lock:
            if self._stats is None:
                self._refresh()
            if self._journal is None:
                self._journal = Journal.create(f"{self.path}.journal", self._base)
                cast(View, self._view).applied = START
                _unsaved.add(self.path)
            self._journal.append(record)
            self.stats().note(record)

    def _checkpoint_if_long(self) -> None:
        journal, view = self._journal, self._view
        long = journal is not None and journal.end > CHECKPOINT_BYTES
        if long and view is not None and journal is not None and journal.end > view.overlay.base_size:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Make the journal part of the base. The caller holds the writer's lock."""
        with self.lock:
            self._refresh()
            if self._journal is not None and self._journal.end > START:
                with self._keep_out_others():
                    self._replace_base([])
            elif self._journal is None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"{self.path}.journal")  # left by a kill after its records became part of the base

    def absorb(self, stream: Iterable[Record]) -> None:
        """A checkpoint that also applies records from elsewhere. The caller holds the writer's lock."""
        with self.lock, self._keep_out_others():
            self._replace_base(stream)

    def _replace_base(self, stream: Iterable[Record]) -> None:
        temporary = f"{self.path}.new"
        try:
            stats = self.stats()
            if self._view is None:
                self._refresh()
            view = cast(View, self._view)
            if view.overlay.pages:
                self._write_attributes(self.file(), stream)
                self._put(temporary, view)
            else:
                self._put(temporary, view)
                self._apply_to(temporary, stream)
        except BaseException:
            self._drop()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        os.replace(temporary, self.path)
        _sync_folder(self.path)
        if self._journal is not None:
            os.unlink(f"{self.path}.journal")
            self._journal.close()
            self._journal = None
        self._base = Base(stats.generation, stats.state)
        self._view = None
        _unsaved.discard(self.path)

    def exchange(self, temporary: str) -> None:
        """Put a file with the same content in the base's place. The journal is empty, the writer's lock held."""
        with self.lock:
            fd = os.open(temporary, os.O_RDONLY)
            try:
                os.fchmod(fd, cast(View, self._view).mode & 0o7777)
                os.fsync(fd)
            finally:
                os.close(fd)
            os.replace(temporary, self.path)
            _sync_folder(self.path)
            self._view = None

    def _write_attributes(self, file: h5py.File, stream: Iterable[Record]) -> None:
        """The last of a new base: records from elsewhere, and the attributes with all counts."""
        stats = self.stats()
        applier = Applier(file)
        for record in stream:
            applier.apply([record])
            stats.note(record)
        applier.finish()
        if not stats.provenance:
            stats.provenance = new_provenance()
        stats.previous, stats.generation = stats.generation, uuid.uuid4().bytes
        statistics.write(stats, file)
        file.flush()

    def _apply_to(self, temporary: str, stream: Iterable[Record]) -> None:
        """Make a copy of the base the new one, where no view holds the journal's records yet: HDF5 writes by itself."""
        with h5py.File(temporary, "r+", libver=hdf5.LIBVER, locking=False) as file:
            if self._journal is not None:
                applier = Applier(file)
                for record, end in self._journal.new_records(START):
                    if end > self._journal.end:
                        break
                    applier.apply([record])
                applier.finish()
            self._write_attributes(file, stream)
        fd = os.open(temporary, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def _put(self, temporary: str, view: View) -> None:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            os.fchmod(fd, view.mode & 0o7777)
            view.overlay.store(fd)
            if view.overlay.pages:
                os.fsync(fd)
        finally:
            os.close(fd)

    def _refresh(self) -> None:
        """See what others wrote: a new base, more of the journal."""
        for _ in range(100):
            if self._synchronize():
                return
        raise LockedError(f"{self.path} changed a hundred times while it was opened; try again")

    def _synchronize(self) -> bool:
        try:
            now = identity(os.stat(self.path))
        except FileNotFoundError:
            self._drop()
            raise NetworkNotFoundError(f"no network file {self.path}; create it with NetworkFile.create") from None
        if self._view is None or self._view.identity != now:
            self._open_base()
        journal = self._journal
        try:
            number = os.stat(f"{self.path}.journal").st_ino
        except FileNotFoundError:
            if journal is not None:  # others made it part of a new base
                self._drop()
                return False
            return True
        if journal is None or os.fstat(journal.fd).st_ino != number:
            if journal is not None:
                self._drop()
                return False
            journal = Journal.open(f"{self.path}.journal")
            if journal is None or not self._belongs(journal):
                if journal is not None:
                    journal.close()
                return identity(os.stat(self.path)) == cast(View, self._view).identity
            self._journal = journal
            cast(View, self._view).applied = START
        stats = cast(Statistics, self._stats)
        if journal.size != journal.end:
            for record, end in journal.new_records(journal.end):
                stats.note(record)
                journal.end = end
        return True

    def _open_base(self) -> None:
        known = self._stats if self._journal is None else None
        self._view = view = View(self.path)
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        try:
            with self._keep_out_others():
                found = statistics.read_identity(view.file)
                if known is None or found != self._base or known.generation == statistics.ZERO:
                    self._stats = statistics.read(view.file)
                    self._base = found
        except BaseException:
            self._drop()
            raise

    def _belongs(self, journal: Journal) -> bool:
        """Whether a journal's records are still to be added to this base."""
        stats = cast(Statistics, self._stats)
        if journal.base == self._base:
            return True
        if identity(os.stat(self.path)) != cast(View, self._view).identity:
            return False  # the base was replaced between the two looks
        name = f"{self.path}.journal"
        if journal.base.generation == self._base.generation:
            raise FormatError(
                f"{self.path} was changed by another program while {name} held writes that are not in it yet (state "
                f"{journal.base.state} then, {self._base.state} now). Restore the file as it was, or give those writes up "
                f"with "
                "NetworkFile.discard_journal"
            )
        if journal.base.generation == stats.previous:
            return False  # killed after its records had become part of the base
        raise FormatError(
            f"{name} belongs to another file or to an older state of {self.path}. Put the right file in place, or give "
            f"its "
            "writes up with NetworkFile.discard_journal"
        )

    @contextlib.contextmanager
    def _keep_out_others(self) -> Iterator[None]:
        """While the base is used, engines that write in place and lock (HDF5 does, with `flock`) have to wait."""
        view = self._view
        if view is None:
            yield
            return
        fd, deadline = view.overlay.fd, time.monotonic() + self.timeout
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    break  # no flock on this file system
                if time.monotonic() > deadline:
                    raise LockedError(
                        f"{self.path} is open for writing in another program (HDF5 holds its lock); close it there "
                        f"first"
                    ) from error
                time.sleep(0.01)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                if view.overlay.fd >= 0:
                    fcntl.flock(view.overlay.fd, fcntl.LOCK_UN)

    # ---- ends

    def _drop(self) -> None:
        if self._journal is not None:
            self._journal.close()
        self._view = self._journal = self._stats = None

    @property
    def scopes(self) -> int:
        """Write scopes that are open."""
        return self._scopes

    def abandon(self) -> None:
        """Drop all that is open, and forget what was written and is not in the base: the file goes or is replaced."""
        with self.lock:
            self._drop()
            _unsaved.discard(self.path)

    def close(self) -> None:
        """Make the journal part of the base, unless another process is writing and will do it; drop all that is
        open."""
        with self.lock:
            try:
                if self._holders == 0 and os.path.exists(f"{self.path}.journal") and os.path.exists(self.path):
                    if self._writer.try_acquire() is None:
                        self._holders = 1
                        try:
                            self.checkpoint()
                        finally:
                            self.release()
            finally:
                self._drop()
                if self._holders == 0:
                    self._writer.close()

    def forget(self) -> None:
        """In a forked child: leave everything to the parent and start anew."""
        self.lock = threading.RLock()
        self._writer.forget()
        self._writer = WriterLock(f"{self.path}.lock")
        self._holders = self._scopes = self._pins = 0
        _kept_by_parent.append(self._view)
        self._view = self._journal = self._stats = None


OWN: Any = None
"""Default of `handle=` where `handles_handles` opens a handle for the call."""


def identity(stat: os.stat_result) -> _Identity:
    """What changes when a file is replaced, or written in place."""
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_dev


def handles_handles(mode: Literal["r", "a"]) -> Callable[[_F], _F]:
    """Let a method take `handle=`, and open one for it when it is not given.

    The method's object has a `network` with `reading()` and `writing()`. In mode "a" a given handle must be a
    `WriteHandle`.
    """

    def decorate(method: _F) -> _F:
        @functools.wraps(method)
        def wrapper(self: Any, *args: Any, handle: ReadHandle | None = None, **kwargs: Any) -> Any:
            if handle is not None:
                if mode == "a" and not isinstance(handle, WriteHandle):
                    raise ParameterError(
                        f"{method.__name__} writes: its handle must come from write_scope, not read_scope"
                    )
                return method(self, *args, handle=handle, **kwargs)
            with self.network.reading() if mode == "r" else self.network.writing() as opened:
                return method(self, *args, handle=opened, **kwargs)

        return cast(_F, wrapper)

    return decorate


def _sync_folder(path: str) -> None:
    fd = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError:
        pass  # some network file systems refuse this
    finally:
        os.close(fd)


_handles: weakref.WeakValueDictionary[str, Handle] = weakref.WeakValueDictionary()
_handles_lock = threading.Lock()
_unsaved: set[str] = set()
_kept_by_parent: list[View | None] = []


def handle_of(path: str | os.PathLike[str]) -> Handle:
    """The handle of a path in this process."""
    real = os.path.realpath(path)
    with _handles_lock:
        handle = _handles.get(real)
        if handle is None:
            handle = _handles[real] = Handle(real)
        return handle


def _at_exit() -> None:
    for handle in [handle_of(path) for path in _unsaved] + list(_handles.values()):
        try:
            handle.close()
        except Exception as error:  # the journal stays, and the next to open the file has all of it
            logging.getLogger(__name__).warning("%s: its journal stays beside it: %s", handle.path, error)


def _after_fork() -> None:
    global _handles_lock
    _handles_lock = threading.Lock()
    _unsaved.clear()
    for handle in list(_handles.values()):
        handle.forget()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
