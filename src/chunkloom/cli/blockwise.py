"""`chunkloom blockwise`: a task file over the whole volume, on many workers."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from chunkloom.cli.options import LOG_LEVELS

if TYPE_CHECKING:
    from chunkloom.blockwise.run import BlockwiseSummary
    from chunkloom.blockwise.work import Prepared

EVERY_S = 5.0


@click.command()
@click.argument("task", nargs=-1, required=True)
@click.option("--client", is_flag=True, help="Work for a master: it starts its workers so.")
@click.option("--serial", is_flag=True, help="All blocks in this process, one after the other.")
@click.option("--max-failures", type=click.IntRange(1), metavar="N", help="Compute no further block once N failed.")
@click.option("--dry-run", is_flag=True, help="Check the tasks, say what would be done, and end.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary of each task as one JSON object.")
@click.option("--log-level", type=LOG_LEVELS, default="warning", show_default=True, help="How much to tell.")
def blockwise(
    task: tuple[str, ...],
    client: bool,
    serial: bool,
    max_failures: int | None,
    dry_run: bool,
    as_json: bool,
    log_level: str,
) -> int:
    """Compute the whole volume of each TASK, a YAML file, block by block, and write it.

    Stopped or killed, the same command goes on where it was.

    Exits 0 when every block of every task is written, 1 when one is not, 2 for a task that does not fit.
    """
    from chunkloom.cli import running
    from chunkloom.logging_setup import configure_logging

    configure_logging(log_level)
    from chunkloom.blockwise.run import precheck, run
    from chunkloom.blockwise.task import load_task

    with running.ending_cleanly():
        loaded = [load_task(path) for path in task]
        if client:
            from chunkloom.blockwise.worker import REGION, work

            work(loaded[0], int(os.environ.get(REGION, "0")))
            return 0
        # All of them before the first: a mistake in the last must not show after a night.
        prepared = [precheck(one_task) for one_task in loaded]
        for one in prepared:
            say_plan(one)
        if dry_run:
            return 0
        complete = True
        for one_task in loaded:
            follow = following(one_task.task_name) if not as_json else None
            summary = run(one_task, serial=serial, max_failures=max_failures, progress=follow)
            report(one_task.task_name, summary, as_json)
            complete &= summary.complete
    return 0 if complete else 1


def say_plan(prepared: Prepared) -> None:
    """What will be written."""
    from chunkloom.cli.running import say

    task, plan = prepared.task, prepared.plan
    blocks = sum(region.blocks.size for region in plan.regions)
    for output in prepared.outputs:
        shape = " x ".join(map(str, output.level.shape))
        say(f"{task.output_path / output.name / 's0'}: {shape} {output.level.dtype}, {task.format}")
    size = " x ".join(map(str, plan.block))
    say(f"{task.task_name}: {blocks} blocks of {size}, {task.workers} workers")
    for warning in (*task.config.warnings, *prepared.pipeline.warnings):
        say(f"note: {warning}")
    if plan.unwritten:
        say(f"note: fit valid leaves {plan.unwritten} voxels of the regions unwritten: no whole block covers them")


def following(name: str) -> Callable[[int, int], None]:
    """Lines with the rate and the time left."""
    from chunkloom.cli.running import say

    began, told, first = time.monotonic(), [time.monotonic()], [-1]

    def follow(done: int, total: int) -> None:
        now = time.monotonic()
        if first[0] < 0:
            first[0] = done
        if now - told[0] < EVERY_S and done < total:
            return
        told[0] = now
        rate = (done - first[0]) / (now - began) if done > first[0] else 0.0
        left = f", {rate:.2g} a second, {(total - done) / rate:.0f} s left" if rate and done < total else ""
        say(f"{name}: {done} of {total} blocks{left}")

    return follow


def report(name: str, summary: BlockwiseSummary, as_json: bool) -> None:
    """The summary, and the first traceback."""
    import json

    from chunkloom.cli.running import say

    for block, traceback in list(summary.tracebacks.items())[:1]:
        say(f"block {block} failed:\n{traceback.rstrip()}")
    if as_json:
        print(json.dumps({"task": name, **summary.to_dict()}), file=sys.stdout, flush=True)
        return
    seconds = ", ".join(f"{stage} {value:.1f} s" for stage, value in summary.seconds.items())
    say(
        f"{name}: {summary.blocks} blocks: {summary.done} done, {summary.skipped} skipped, {summary.failed} failed, "
        f"{summary.left} left ({seconds})"
    )
