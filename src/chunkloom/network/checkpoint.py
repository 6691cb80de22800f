"""A new base made of the old one and the journal, put in its place by a rename. A kill leaves the one or the other."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable

import h5py

from chunkloom.network import hdf5, statistics
from chunkloom.network.apply import Applier
from chunkloom.network.journal import START, Journal
from chunkloom.network.provenance import new_provenance
from chunkloom.network.records import Record
from chunkloom.network.statistics import Statistics
from chunkloom.network.view import View


def make_base(path: str, view: View, journal: Journal | None, stats: Statistics, stream: Iterable[Record]) -> None:
    """Replace the base at `path`.

    Parameters
    ----------
    view : View
        Of the base; brought up to date with the journal if it holds some of its records already.
    stats : Statistics
        Counts including the journal's. Gets the new generation, and counts `stream`.
    stream : iterable of records
        What else becomes part of the base.
    """
    temporary = f"{path}.new"
    try:
        if view.overlay.pages:  # the view holds changes: its image is nearly the new base
            if journal is not None:
                view.catch_up(journal)
            _finish(view.file, stats, stream)
            _copy(view, temporary)
        else:  # HDF5 is quicker on a file of its own
            _copy(view, temporary)
            with h5py.File(temporary, "r+", libver=hdf5.LIBVER, locking=False) as file:
                if journal is not None:
                    _apply(file, journal)
                _finish(file, stats, stream)
        put_in_place(temporary, path, view.mode)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def put_in_place(temporary: str, path: str, mode: int) -> None:
    """Rename a finished file over another, once the disk has it."""
    fd = os.open(temporary, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fchmod(fd, mode & 0o7777)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(temporary, path)
    sync_folder(path)


def sync_folder(path: str) -> None:
    """Make a rename last through a power cut, where the file system can."""
    fd = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError:
        pass  # some network file systems refuse this
    finally:
        os.close(fd)


def _copy(view: View, temporary: str) -> None:
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        view.overlay.store(fd)
    finally:
        os.close(fd)


def _apply(file: h5py.File, journal: Journal) -> None:
    applier = Applier(file)
    for record, end in journal.new_records(START):
        if end > journal.end:
            break
        applier.apply([record])
    applier.finish()


def _finish(file: h5py.File, stats: Statistics, stream: Iterable[Record]) -> None:
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
