"""A run's progress for people: a bar on a terminal, plain lines elsewhere. On stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chunkloom.engine.materialize import MaterializePlan, Progress

EVERY_S = 5.0
Follow = Callable[["Progress"], None]


@contextmanager
def following(plan: MaterializePlan, notes: Sequence[str], *, quiet: bool) -> Iterator[Follow | None]:
    """What to call with each `Progress` while the block runs; says the plan first. Nothing with `quiet`."""
    if quiet:
        yield None
        return
    for line in (*plan.lines(), *(f"note: {note}" for note in notes)):
        print(line, file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        with _bar() as follow:
            yield follow
        return
    yield _lines()


@contextmanager
def _bar() -> Iterator[Follow]:
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[counts]}"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), refresh_per_second=4) as shown:
        task = shown.add_task("materialize", total=None, counts="")

        def follow(progress: Progress) -> None:
            # Served chunks move during the first slab, when no chunk of the array is complete yet.
            shown.update(task, completed=progress.computed, total=progress.needed, counts=told(progress))

        yield follow


def _lines() -> Follow:
    last = [time.monotonic() - EVERY_S]

    def follow(progress: Progress) -> None:
        now = time.monotonic()
        if progress.computed == progress.needed or now - last[0] >= EVERY_S:
            last[0] = now
            share = 100 * progress.computed // max(1, progress.needed)
            print(f"{share:3d} %  {told(progress)}", file=sys.stderr, flush=True)

    return follow


def told(progress: Progress) -> str:
    """The counts in words."""
    from chunkloom.engine.materialize import size_text

    return f"{progress.done} of {progress.total} chunks, {size_text(progress.bytes)}"


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """What to call with the number of chunks done, and of all, while the block runs."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress as Bars

        with Bars(console=Console(stderr=True), refresh_per_second=4) as shown:
            task = shown.add_task(what, total=None)
            yield lambda done, total: shown.update(task, completed=done, total=total)
        return
    last = [time.monotonic()]

    def follow(done: int, total: int) -> None:
        now = time.monotonic()
        if done == total or now - last[0] >= EVERY_S:
            last[0] = now
            print(f"{what}: {done} of {total} chunks", file=sys.stderr, flush=True)

    yield follow
