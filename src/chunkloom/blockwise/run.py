"""The master of a whole-volume run: daisy hands out the blocks, the markers on disk say what became of them."""

from __future__ import annotations

import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from chunkloom.blockwise.markers import failed
from chunkloom.blockwise.task import BlockwiseTask
from chunkloom.blockwise.work import Prepared, loaded, planned
from chunkloom.engine.writing.lock import locked
from chunkloom.engine.writing.target import LocalTarget
from chunkloom.errors import ConflictError, MissingExtraError

logger = logging.getLogger(__name__)

# A block whose worker died is tried again; one that failed with an error is not.
RETRIES = 2
RESTARTS_PER_WORKER = 3
FIRST_TRACEBACKS = 3
MAX_FAILURES = "CHUNKLOOM_MAX_FAILURES"

Follow = Callable[[int, int], None]


@dataclass(frozen=True)
class BlockwiseSummary:
    """What became of a run.

    Attributes
    ----------
    blocks
        Planned ones. `done` were written by this run, `skipped` by earlier ones, `failed` raised an error; the rest
        (`left`) were not computed.
    tracebacks
        Of the first blocks that failed, by the block's name.
    unwritten_voxels
        Of the regions, that no block covers (fit valid).
    seconds
        Per stage.
    """

    blocks: int
    done: int
    skipped: int
    failed: int
    tracebacks: dict[str, str] = field(default_factory=dict)
    unwritten_voxels: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def left(self) -> int:
        return self.blocks - self.done - self.skipped - self.failed

    @property
    def complete(self) -> bool:
        """Every planned block is written."""
        return self.done + self.skipped == self.blocks

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {**asdict(self), "left": self.left, "complete": self.complete}


def precheck(task: BlockwiseTask) -> Prepared:
    """Everything that a run checks before it writes; loads no model where it is described beside its weights.

    Raises
    ------
    ChunkloomError
        The file, the model, the data or what is at the output do not fit.
    """
    prepared = planned(task)
    for store in prepared.stores:
        if not store.check() and not task.create:
            raise ConflictError(f"{store.folder}: is not there, and the task says create: false")
    return prepared


def run(
    task: BlockwiseTask,
    *,
    serial: bool = False,
    max_failures: int | None = None,
    progress: Follow | None = None,
) -> BlockwiseSummary:
    """Run a task, or go on with it where an earlier run stopped.

    Parameters
    ----------
    serial
        All blocks in this process, one after the other.
    max_failures
        Compute no further block once so many failed.
    progress
        Called with finished and planned blocks, once a second. The same is in `status.json` in the folder of progress.

    Raises
    ------
    ChunkloomError
        Something does not fit, or another master runs this task; before anything is written.
    """
    _daisy()
    began = time.monotonic()
    prepared = precheck(task)
    with locked(LocalTarget(str(task.progress_dir))):
        return _run(prepared, began, serial, max_failures, progress)


def _run(
    prepared: Prepared, began: float, serial: bool, max_failures: int | None, progress: Follow | None
) -> BlockwiseSummary:
    task, seconds = prepared.task, {}
    for store in prepared.stores:
        if not store.check():
            store.create()
        store.tidy()
    prepared.progress.begin(prepared.identity(), resume=task.track_progress)
    skipped = count_done(prepared)
    total = sum(1 for number in range(len(prepared.plan.regions)) for _ in prepared.plan.indices(number))
    seconds["plan"] = time.monotonic() - began
    if skipped < total:
        began = time.monotonic()
        with following(prepared, total, progress), _max_failures(max_failures):
            worker = loaded(task) if serial else None
            for number in range(len(prepared.plan.regions)):
                run_region(prepared, number, worker)
        seconds["blocks"] = time.monotonic() - began
    failures = failed(prepared.progress.failures)
    summary = BlockwiseSummary(
        blocks=total,
        done=count_done(prepared) - skipped,
        skipped=skipped,
        failed=len(failures),
        tracebacks=dict(list(failures.items())[:FIRST_TRACEBACKS]),
        unwritten_voxels=prepared.plan.unwritten,
        seconds=seconds,
    )
    prepared.progress.tell({"state": "ended", **summary.to_dict()})
    return summary


def run_region(prepared: Prepared, number: int, worker: Prepared | None) -> None:
    """Give a region's blocks to daisy; with `worker`, to be computed in this process."""
    daisy = _daisy()
    plan, blocks = prepared.plan, prepared.plan.regions[number].blocks
    if not blocks.size:
        return
    origin = [b * n for b, n in zip(blocks.lo, plan.block, strict=True)]
    shape = [b * n for b, n in zip(blocks.shape, plan.block, strict=True)]
    task_id = prepared.task_id(number)
    markers = prepared.progress.of(task_id)

    def known(block: Any) -> bool:
        index = index_of(block, plan.block)
        return not plan.owns(number, index) or markers.done(prepared.marker(index))

    def one(block: Any) -> None:
        assert worker is not None
        if not attempt(worker, number, index_of(block, plan.block)):
            block.status = daisy.BlockStatus.FAILED

    step = daisy.Roi((0, 0, 0), plan.block)
    with warnings.catch_warnings():
        # daisy recommends its own markers, which are numbered: a changed task would skip the wrong blocks.
        warnings.filterwarnings("ignore", message="Task.check_function", category=UserWarning)
        made = daisy.Task(
            task_id,
            daisy.Roi(origin, shape),
            step,
            step,
            one if worker is not None else _spawning(prepared.task, number),
            check_function=known,
            read_write_conflict=False,
            fit="overhang",
            max_workers=prepared.task.workers,
            max_retries=RETRIES if worker is None else 0,
            max_worker_restarts=RESTARTS_PER_WORKER * prepared.task.workers,
            timeout=None,
        )
    try:
        daisy.run_blockwise(
            made,
            multiprocessing=worker is None,
            progress=False,
            summary=False,
            return_states=True,
            host="127.0.0.1" if worker is None and _local() else None,
        )
    except RuntimeError as error:
        # Workers that died too often: the blocks left are in the summary.
        logger.error("%s: %s", task_id, error)


def attempt(worker: Prepared, number: int, index: tuple[int, ...]) -> bool:
    """Compute a block, unless it failed before in this run, or too many have."""
    failures = worker.progress.failures
    most = os.environ.get(MAX_FAILURES)
    if most is not None and len(failed(failures)) >= int(most):
        return False
    if (failures / f"{worker.task_id(number)}__{worker.marker(index)}.txt").exists():
        return False
    return worker.process(number, index)


def index_of(block: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of daisy's block."""
    return tuple(int(b) // n for b, n in zip(block.write_roi.begin, shape, strict=True))


def count_done(prepared: Prepared) -> int:
    """How many planned blocks have a marker."""
    count = 0
    for number in range(len(prepared.plan.regions)):
        names = prepared.progress.of(prepared.task_id(number)).names()
        if names:
            count += sum(prepared.marker(index) in names for index in prepared.plan.indices(number))
    return count


@contextmanager
def following(prepared: Prepared, total: int, follow: Follow | None) -> Iterator[None]:
    """Report the number of markers once a second while the block runs: to the status file, and to `follow`."""
    stop, began = threading.Event(), time.time()

    def report() -> None:
        done = count_done(prepared)
        prepared.progress.tell({"state": "running", "blocks": total, "finished": done, "began": began})
        if follow is not None:
            follow(done, total)

    def watch() -> None:
        while not stop.wait(1):
            report()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    report()


@contextmanager
def _max_failures(most: int | None) -> Iterator[None]:
    """Tell workers, here and elsewhere, through the environment that they inherit."""
    before = os.environ.pop(MAX_FAILURES, None)
    if most is not None:
        os.environ[MAX_FAILURES] = str(most)
    try:
        yield
    finally:
        os.environ.pop(MAX_FAILURES, None)
        if before is not None:
            os.environ[MAX_FAILURES] = before


def _spawning(task: BlockwiseTask, number: int) -> Callable[[], None]:
    path, tag = str(task.path), number

    def worker() -> None:
        from chunkloom.blockwise.worker import run_as_job

        run_as_job(path, tag)

    return worker


def _local() -> bool:
    from chunkloom.jobs.launch import scheduler_for
    from chunkloom.jobs.site import site_profile

    return scheduler_for(site_profile()).name == "local"


def _daisy() -> Any:
    try:
        import daisy.v2 as daisy
        from daisy import logging as daisy_logging
    except ImportError as error:
        raise MissingExtraError(
            "whole-volume runs need daisy, which is not installed: pip install 'chunkloom[blockwise]'"
        ) from error
    # No ./daisy_logs: what workers print is in their jobs' logs.
    daisy_logging.set_log_basedir(None)  # type: ignore[no-untyped-call]
    return daisy
