"""How a run begins: what is at the target, and what follows from it. `look` reads, `decide` decides, `prepare` acts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chunkloom.engine.volume import Volume
from chunkloom.engine.writing.caches import made_of
from chunkloom.engine.writing.documents import StoreDescription
from chunkloom.engine.writing.record import Identity, recorded
from chunkloom.engine.writing.target import BESIDE, BucketTarget, LocalTarget
from chunkloom.errors import ConflictError
from chunkloom.io.hierarchy import UNFINISHED

_ROOTS = (".zgroup", ".zattrs", ".zarray", ".zmetadata", "zarr.json", "attributes.json", "info")


@dataclass(frozen=True)
class Found:
    """What is at a target.

    Attributes
    ----------
    names : of files and folders there.
    runs : runs that did not end.
    same_metadata : whether its metadata, the mark aside, are those this run would write.
    unfinished : whether it carries the mark.
    finished : the identity of the run that finished it, and its counts, where the place remembers.
    """

    name: str
    names: tuple[str, ...]
    runs: tuple[Identity, ...]
    same_metadata: bool
    unfinished: bool
    finished: tuple[Identity, Mapping[str, int]] | None

    @property
    def is_empty(self) -> bool:
        return not self.names

    @property
    def is_store(self) -> bool:
        return self.is_empty or any(name in _ROOTS for name in self.names)


@dataclass(frozen=True)
class Done:
    """The same run finished this store before."""

    counts: Mapping[str, int]


@dataclass(frozen=True)
class Begin:
    """Write.

    Attributes
    ----------
    clear : remove what is there first.
    forget : runs whose records go first.
    beside : runs that stay unfinished in this store.
    """

    clear: bool = False
    forget: tuple[Identity, ...] = ()
    beside: tuple[Identity, ...] = ()


Action = Done | Begin


def look(place: LocalTarget | BucketTarget, store: StoreDescription) -> Found:
    """What is at the target now. Reads alone."""
    names = tuple(name for name in place.names() if name != BESIDE)
    same, unfinished = bool(names), False
    if names:
        for key, text in store.documents().items():
            found = place.read(key)
            if key == store.root_document and found is not None:
                unfinished, found = _without_mark(found, text)
            same = same and found == text
    note = place.recall() if names else None
    return Found(place.name, names, tuple(recorded(place.beside)), same, unfinished, _note(note))


def decide(found: Found, identity: Identity, store: StoreDescription, *, overwrite: bool, resume: bool) -> Action:
    """What to do with what is there.

    Raises
    ------
    ConflictError
        Where it is something else and may not be replaced.
    """
    ours = identity in found.runs
    strangers = [run for run in found.runs if not run.shares_store(identity)]
    others = tuple(run for run in found.runs if run.shares_store(identity) and run != identity)
    if ours:
        if resume:
            return Begin(beside=others)
        if identity.extent == "level":
            return Begin(forget=(identity,), beside=others)
        return Begin(clear=True, forget=found.runs)
    if (
        found.finished is not None
        and found.finished[0] == identity
        and found.same_metadata
        and resume
        and not overwrite
    ):
        return Done(found.finished[1])
    if overwrite:
        if not found.is_store:
            raise ConflictError(
                f"{found.name} holds files that are no store ({', '.join(found.names[:3])}): it is not removed; choose "
                "another place, or remove it yourself"
            )
        return Begin(clear=not found.is_empty, forget=found.runs)
    if strangers:
        raise ConflictError(
            f"{found.name} is an unfinished store of {strangers[0].difference(identity)}: finish it with the command "
            "that began it, replace it with overwrite, or write elsewhere"
        )
    if found.is_empty:
        return Begin(beside=others)
    if identity.extent == "level" and found.same_metadata and (others or not found.unfinished):
        if found.finished is not None and not found.finished[0].shares_store(identity):
            raise ConflictError(
                f"{found.name} holds {found.finished[0].difference(identity)}: replace it with overwrite, or write "
                "elsewhere"
            )
        return Begin(beside=others)
    what = "a store that its run did not finish, without its record" if found.unfinished else "something already"
    if found.finished is not None:
        what = found.finished[0].difference(identity) if found.finished[0] != identity else "this store already"
    raise ConflictError(f"{found.name} holds {what}: replace it with overwrite (--overwrite), or write elsewhere")


def refuse_what_is_read(place: LocalTarget | BucketTarget, volume: Volume) -> None:
    """Refuse a target that is, holds or lies in an array that the volume is read from: it would be written over.

    Raises
    ------
    ConflictError
    """
    if not isinstance(place, LocalTarget):
        return
    target = os.path.realpath(place.name)
    for one in made_of(volume):
        for number in range(len(one.levels)):
            stored = one.stored(number)
            folder = None if stored is None else stored.folder
            if folder is None:
                continue
            read = os.path.realpath(folder)
            if os.path.commonpath([target, read]) in (target, read):
                raise ConflictError(f"{place.name} is where {folder} is read from: write to a folder of its own")


def prepare(place: LocalTarget | BucketTarget, found: Found, action: Begin) -> None:
    """Remove what is in the way, and what dead runs left behind."""
    for run in action.forget:
        place.beside.delete(f"run-{run.run}.json")
        place.beside.delete(f"run-{run.run}.map")
    tidy(place, keep=True)
    if action.clear:
        place.clear()


def tidy(place: LocalTarget | BucketTarget, *, keep: bool) -> None:
    """Without temporary files; with `keep`, records stay. The lock always does, it has a holder."""
    for name in place.beside.names():
        if name.startswith(("spill", ".writing-")) or (not keep and name.startswith("run-")):
            place.beside.delete(name)
        elif name.startswith("old-") and isinstance(place, LocalTarget):
            place.beside.remove_folder(name)


def _without_mark(text: bytes, wanted: bytes) -> tuple[bool, bytes]:
    """Whether a root document carries the mark, and `wanted` itself where it is equal but for it."""
    try:
        data = json.loads(text)
    except ValueError:
        return False, text
    holder: Any = data.get("attributes", data) if isinstance(data, dict) else {}
    if not isinstance(holder, dict) or UNFINISHED not in holder:
        return False, text
    del holder[UNFINISHED]
    return True, wanted if data == json.loads(wanted) else text


def _note(text: str | None) -> tuple[Identity, Mapping[str, int]] | None:
    try:
        data = json.loads(text or "")
        return Identity(**data["identity"]), data["counts"]
    except (ValueError, TypeError, KeyError):
        return None
