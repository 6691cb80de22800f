"""One network file as this process has it: its base, its journal, its counts, its lock; scopes and checkpoints.

All objects of a process that work on the same path share one `Handle`. docs/design/network-journal.md tells the
protocol. This module knows records and counts, not what a placement set or a connection is.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import random
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from typing import cast

import h5py

from chunkloom.network import statistics
from chunkloom.network.access import ReadHandle, WriteHandle
from chunkloom.network.checkpoint import make_base, put_in_place
from chunkloom.network.errors import FormatError, LockedError, NetworkNotFoundError, ParameterError
from chunkloom.network.journal import START, Base, Journal
from chunkloom.network.lock import Holder, WriterLock
from chunkloom.network.records import Record
from chunkloom.network.statistics import Statistics
from chunkloom.network.view import Identity, View, identity

CHECKPOINT_BYTES = 64 << 20
"""A journal longer than this, and longer than its base, is made part of the base."""


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
        self._counted: Identity | None = None  # the base that was just made here, which `_stats` are of

    # ---- scopes

    @contextlib.contextmanager
    def reading(self) -> Iterator[ReadHandle]:
        """A handle that sees every acknowledged write, for one operation."""
        with self.lock:
            if not (self._pins and self._stats):
                self._refresh()
            with self._guarded():
                yield ReadHandle(self)

    @contextlib.contextmanager
    def writing(self) -> Iterator[WriteHandle]:
        """A handle for one write: the only one, of any process or thread."""
        self.acquire()
        try:
            with self.lock:
                self._refresh()
                with self._guarded():
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
                holder = self._try_acquire()
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

    def _try_acquire(self) -> Holder | None:
        if self._holders:
            return None
        try:
            return self._writer.try_acquire()
        except FileNotFoundError:
            raise NetworkNotFoundError(f"there is no folder {os.path.dirname(self.path)}; make it first") from None
        except PermissionError as error:
            raise ParameterError(
                f"{self.path} cannot be written: no file can be made beside it ({error.strerror}). "
                "Open it with mode='r'"
            ) from error

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
                    view.catch_up(journal)
                except BaseException:
                    self._view = None  # half applied: start again from the base
                    raise
            return view.file

    def has_roots(self, *names: str) -> bool:
        """Whether the base has these groups."""
        with self.lock:
            self.stats()
            view = self._view
            return view is not None and all(name in view.file for name in names)

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
            if self._holders == 0:
                raise ParameterError(f"{self.path}: this handle's write scope has ended; open another to write")
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
                with self._guarded():
                    self._replace_base([])
            elif self._journal is None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"{self.path}.journal")  # left by a kill after its records became part of the base

    def absorb(self, stream: Iterable[Record]) -> None:
        """A checkpoint that also applies records from elsewhere. The caller holds the writer's lock."""
        with self.lock, self._guarded():
            self._replace_base(stream)

    def _replace_base(self, stream: Iterable[Record]) -> None:
        if self._view is None:
            self._refresh()
        stats = self.stats()
        try:
            make_base(self.path, cast(View, self._view), self._journal, stats, stream)
        except BaseException:
            self._drop()
            raise
        if self._journal is not None:
            os.unlink(f"{self.path}.journal")
            self._journal.close()
            self._journal = None
        self._base = Base(stats.generation, stats.state)
        self._view, self._counted = None, identity(os.stat(self.path))
        _unsaved.discard(self.path)

    def exchange(self, temporary: str) -> None:
        """Put a file with the same content in the base's place. The journal is empty, the writer's lock held."""
        with self.lock:
            put_in_place(temporary, self.path, cast(View, self._view).mode)
            self._view = None
            self._counted = identity(os.stat(self.path))

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
            raise NetworkNotFoundError(
                f"no network file {self.path}; NetworkFile.create and `chunkloom network extract` make one"
            ) from None
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
        counted = self._counted
        self._view = view = View(self.path)
        self._counted = None
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        try:
            with self._guarded():
                if self._stats is None or counted != view.identity:
                    self._stats = statistics.read(view.file)
                    self._base = Base(self._stats.generation, self._stats.state)
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
                f"{journal.base.state} then, {self._base.state} now). Restore the file as it was, or give those writes "
                "up with NetworkFile.discard_journal"
            )
        if journal.base.generation == stats.previous:
            return False  # killed after its records had become part of the base
        raise FormatError(
            f"{name} belongs to another file or to an older state of {self.path}. Put the right file in place, or give "
            "its writes up with NetworkFile.discard_journal"
        )

    def _guarded(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._view is None else self._view.guarded(self.timeout)

    # ---- ends

    def _drop(self) -> None:
        if self._journal is not None:
            self._journal.close()
        self._view = self._journal = self._stats = self._counted = None

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
                waiting = os.path.exists(f"{self.path}.journal") and os.path.exists(self.path)
                if waiting and self._holders == 0 and self._writer.try_acquire() is None:
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
