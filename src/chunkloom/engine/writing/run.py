"""Writing one array: walk its served chunks, each once, and write the pieces they complete.

Decides nothing: region, plan, record and target are given. Threads walk, compute, stitch, encode and write; after the
first failure, or a cancel, nothing is begun any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from chunkloom.engine.demand import Work
from chunkloom.engine.formats.base import served_format
from chunkloom.engine.stitch import Completed, Stitcher
from chunkloom.engine.volume import Array, Volume
from chunkloom.engine.writing.documents import StoreDescription
from chunkloom.engine.writing.encode import encoder
from chunkloom.engine.writing.plan import ArrayPlan
from chunkloom.engine.writing.record import LEFT_OUT, TO_DO, WRITTEN, Record
from chunkloom.engine.writing.region import Index, Region
from chunkloom.engine.writing.scratch import ScratchFile
from chunkloom.engine.writing.target import BucketTarget, LocalTarget
from chunkloom.errors import CancelledWorkError, ChunkError, ChunkloomError
from chunkloom.geometry import Box
from chunkloom.io.source import StoredArray


class Cancel(Protocol):
    """Anything with `is_set`, such as a `threading.Event`."""

    def is_set(self) -> bool: ...


@dataclass(frozen=True)
class Progress:
    """How far a materialize is. Every count only grows.

    Attributes
    ----------
    done
        Chunks of the arrays that are finished, written or left out; those an earlier run finished among them.
    total
        Chunks of the arrays in all.
    written
        Chunks of the arrays that are in files.
    bytes
        Bytes of those files.
    computed, needed
        Served chunks computed by this run (or passed on as they are stored), of those it has to. Twice each where
        objects are joined over chunks: once to find which are one, once to write them.
    files
        Files written: as many as `written` but for shards.
    """

    done: int
    total: int
    written: int
    bytes: int
    computed: int
    needed: int
    files: int


@dataclass(frozen=True)
class Job:
    """One array to write.

    Attributes
    ----------
    open : gives the volume; called when the array's turn comes (a coarser level is made of the one before).
    number : of the array in the store.
    first : position in the record of the array's first piece.
    """

    open: Callable[[], Volume]
    region: Region
    plan: ArrayPlan
    number: int
    first: int


class Stop(Work):
    """Why a run ends early: the first failure, or a cancel."""

    def __init__(self, cancel: Cancel | None) -> None:
        self._cancel = cancel
        self.failure: BaseException | None = None
        self._lock = threading.Lock()

    def __call__(self, failure: BaseException) -> None:
        with self._lock:
            self.failure = self.failure or failure

    @property
    def asked(self) -> bool:
        return self.failure is not None or (self._cancel is not None and self._cancel.is_set())

    def check(self) -> None:
        if self.asked:
            raise CancelledWorkError("the run was stopped")


class Counts:
    """The counts behind `Progress`, for all arrays of a run."""

    def __init__(self, total: int, report: Callable[[Progress], None] | None) -> None:
        self._report = report
        self._lock = threading.Lock()
        self.done = self.written = self.bytes = self.computed = self.needed = self.files = 0
        self.total = total

    def finished(self, chunks: int, written: int, nbytes: int, files: int) -> None:
        with self._lock:
            self.done += chunks
            self.written += written
            self.bytes += nbytes
            self.files += files

    def report(self, computed: int = 0) -> None:
        """`computed` more served chunks. One report at a time, so that they come in order."""
        with self._lock:
            self.computed += computed
            if self._report is not None:
                self._report(self.snapshot())

    def snapshot(self) -> Progress:
        return Progress(self.done, self.total, self.written, self.bytes, self.computed, self.needed, self.files)


class ArrayWriter:
    """Writes one array of a store."""

    def __init__(
        self,
        job: Job,
        store: StoreDescription,
        target: LocalTarget | BucketTarget,
        record: Record,
        *,
        skip_empty: bool,
        counts: Counts,
        stop: Stop,
    ) -> None:
        self._job, self._region, self._store, self._target = job, job.region, store, target
        self._record, self._counts, self._stop, self._skip_empty = record, counts, stop, skip_empty
        spill = target.beside.path("spill") if isinstance(target, LocalTarget) else None
        self.scratch = ScratchFile(spill, job.region.piece_nbytes)
        self.stitcher = Stitcher(job.region, store.fill, buffers=job.plan.in_memory, scratch=self.scratch)
        self._encode = encoder(store, job.number, self.stitcher.is_fill, skip_empty)
        self._walk_lock = threading.Lock()

    def take_stock(self) -> None:
        """Count what the record says is done, after a look at whether it is there."""
        region, local = self._region, isinstance(self._target, LocalTarget)
        count = region.pieces.size
        states = self._record.states[self._job.first : self._job.first + count]
        if states.any():
            for piece in region.pieces.indices():
                position = self._job.first + region.position(piece)
                state = int(self._record.states[position])
                if state == TO_DO:
                    continue
                size = 0
                if state == WRITTEN and local:
                    # A host that went down may have lost files whose names it had kept.
                    size = self._target.size(self._key(piece)) or 0
                    if not size:
                        self._record.mark(position, TO_DO)
                        continue
                inner = region.inner_count(piece)
                self._counts.finished(inner, inner * (state == WRITTEN), size, int(state == WRITTEN))
        self._feeding: Array | None = None
        if states.any():
            self._feeding = region.feeding((states == TO_DO).reshape(region.pieces.shape))
        self._counts.needed += region.chunks.size if self._feeding is None else int(self._feeding.sum())

    def run(self) -> None:
        """Write what is not done. Raises what made it stop."""
        if self._feeding is not None and not self._feeding.any():
            return
        volume = self._job.open()
        stored = self._passable(volume)
        read = self._reader(volume)
        walk = self._wanted_chunks()

        def lane() -> None:
            while not self._stop.asked:
                with self._walk_lock:
                    index = next(walk, None)
                if index is None:
                    return
                try:
                    self._one(read, stored, index)
                except MemoryError as failure:
                    self._stop(ChunkError(f"{self._name_of(index)}: {_reason(failure)}. Choose smaller chunks"))
                except BaseException as failure:
                    self._stop(failure)

        lanes = [
            threading.Thread(target=lane, name=f"chunkloom-write-{i}", daemon=True)
            for i in range(self._job.plan.concurrency)
        ]
        try:
            for thread in lanes:
                thread.start()
            for thread in lanes:
                thread.join()
        except BaseException as interrupt:
            self._stop(interrupt)
            for thread in lanes:
                if thread.ident is not None:
                    thread.join()
            raise
        finally:
            self.scratch.close()
        if self._stop.failure is not None:
            raise self._stop.failure

    def _one(self, read: Callable[[Box], Array], stored: StoredArray | None, index: Index) -> None:
        """One served chunk: made, scattered, and what it completes written."""
        if stored is not None and self._pass_on(stored, index):
            self._counts.report(1)
            return
        try:
            voxels: Array | None = read(self._region.chunk_box(index))
        except CancelledWorkError:
            if self._stop.asked:
                return
            raise
        except Exception as error:
            raise ChunkError(f"{self._name_of(index)}: {_reason(error)}") from error
        expected = (*self._region.level.channels, *self._region.chunk_box(index).shape)
        if voxels is None or voxels.shape != expected or voxels.dtype != self._region.level.dtype:
            found = "nothing" if voxels is None else f"{voxels.dtype} of shape {voxels.shape}"
            raise ChunkError(
                f"{self._name_of(index)}: {found} came, expected {self._region.level.dtype} of shape {expected}"
            )
        if self._stop.asked:
            return
        completed = self.stitcher.add(index, voxels, self._wanted if self._feeding is not None else None)
        del voxels
        for piece in completed:
            if self._stop.asked:
                return
            self._write(piece)
        if not self._stop.asked:
            self._counts.report(1)

    def _write(self, completed: Completed) -> None:
        piece, voxels = completed.piece, completed.voxels
        inner = self._region.inner_count(piece)
        if voxels is None:
            if self._skip_empty:
                self._mark(piece, LEFT_OUT)
                self._counts.finished(inner, 0, 0, 0)
                return
            voxels = np.full(self._region.piece_shape, self._store.fill, self._region.array.dtype)
        data, chunks = self._encode(voxels, piece)
        del voxels
        completed.release()
        self._stop.check()
        self._target.write(self._key(piece), data)
        self._mark(piece, WRITTEN)
        self._counts.finished(inner, chunks, len(data), 1)

    def _pass_on(self, stored: StoredArray, index: Index) -> bool:
        """Write a chunk as it is stored, where it is a piece as it is; False where it is not, or not there."""
        piece = self._region.overlaps(index)[0].piece
        if not self._region.passes(piece):
            return False
        where = (*(0,) * len(self._region.level.channels), *index)
        file = stored.stored_file(where) if isinstance(self._target, LocalTarget) else None
        if file is not None:
            try:
                size = stored.check_stored_file(file)
            except FileNotFoundError:
                return False
            except (ChunkloomError, OSError) as error:
                raise ChunkError(f"{self._name_of(index)}: {_reason(error)}") from error
            if self._may_be_empty(size):
                return False
            self._target.copy(file, self._key(piece))
        else:
            try:
                data = stored.stored_chunk(where)
            except ChunkloomError as error:
                raise ChunkError(f"{self._name_of(index)}: {_reason(error)}") from error
            if data is None or self._may_be_empty(len(data)):
                return False
            size = len(data)
            self._stop.check()
            self._target.write(self._key(piece), data)
        self._mark(piece, WRITTEN)
        self._counts.finished(1, 1, size, 1)
        return True

    def _may_be_empty(self, size: int) -> bool:
        """Whether a stored chunk of this size can hold nothing but one value: then it is decoded to see.

        All codecs pack such a chunk to less than a 64th; one stored without packing has all its bytes.
        """
        return self._skip_empty and (size * 64 < self._region.piece_nbytes or size >= self._region.piece_nbytes)

    def _passable(self, volume: Volume) -> StoredArray | None:
        """The stored array whose chunk files may become this array's, None where they may not."""
        region = self._region
        shard = self._store.shards[self._job.number] if self._store.shards else None
        found = volume.stored(region.number)
        if found is None or found.stored_layout is None or shard is not None:
            return None
        if region.level.chunk_shape != region.array.chunk_shape:
            return None
        served = served_format(self._store.format, self._store.codec)
        return found if served.passes(found.stored_layout, region.level) else None

    def _reader(self, volume: Volume) -> Callable[[Box], Array]:
        """Makes a served chunk. One that is stored is not kept: nobody asks for it again."""
        number = self._region.number
        array = volume.stored(number)
        if array is not None:
            return array.read
        return lambda box: volume.read_box(number, box, self._stop)

    def _wanted_chunks(self) -> Iterator[Index]:
        feeding, lo = self._feeding, self._region.chunks.lo
        for index in self._region.walk():
            if feeding is None or feeding[tuple(i - b for i, b in zip(index, lo, strict=True))]:
                yield index

    def _wanted(self, piece: Index) -> bool:
        return bool(self._record.states[self._job.first + self._region.position(piece)] == TO_DO)

    def _mark(self, piece: Index, state: int) -> None:
        self._record.mark(self._job.first + self._region.position(piece), state)

    def _key(self, piece: Index) -> str:
        return self._store.chunk_key(self._job.number, piece)

    def _name_of(self, index: Index) -> str:
        """A served chunk by the volume's name, level and index; with "level", the chunk of the store."""
        if self._region.extent == "box":
            return f"chunk {self._store.name}/{self._region.number}/{'.'.join(map(str, index))}"
        words = [self._store.path(self._job.number), *["0"] * len(self._region.level.channels), *map(str, index)]
        return f"chunk {'/'.join(words)} of {self._store.name}"


def _reason(error: BaseException) -> str:
    text: Any = str(error)
    return text or type(error).__name__
