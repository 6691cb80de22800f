"""`chunkloom materialize`: write a volume, ops over it or a model's prediction to a store."""

from __future__ import annotations

import re
from typing import Any

import click

from chunkloom.cli.options import LOG_LEVELS, Bytes, Selection, Triple


class BoxText(click.ParamType[tuple[tuple[float | None, float | None], ...]]):
    """Three ranges: `0:64,10:90,:`. A side left out is the level's."""

    name = "z0:z1,y0:y1,x0:x1"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        number = r"\s*(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)?\s*"
        found = re.fullmatch(",".join([f"{number}:{number}"] * 3), str(value), re.IGNORECASE)
        if found is None:
            self.fail(f"{value!r} is not a box: expected three ranges like 0:64,10:90,20:84", param, ctx)
        sides = [None if side is None else float(side) for side in found.groups()]
        return tuple(zip(sides[::2], sides[1::2], strict=True))


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("--op", "ops", multiple=True, metavar="OP", help="As for serve. Again for more.")
@click.option("--model", metavar="MODEL", help="As for serve: the prediction is written, with the ops over it.")
@click.option("--box", type=BoxText(), help="Voxels of the level that is written; all of it when left out.")
@click.option("--roi-nm", type=BoxText(), help="The same in nm of the world: the voxels that touch it.")
@click.option(
    "--extent",
    type=click.Choice(["box", "level"]),
    default="box",
    show_default=True,
    help="An array of exactly the box; or of the whole level's shape, with the box's chunks in it.",
)
@click.option(
    "--level", "levels", type=click.IntRange(0), multiple=True, metavar="N", help="Default 0. Again for more."
)
@click.option(
    "--format",
    type=click.Choice(["zarr2", "zarr3", "n5", "precomputed"]),
    default="zarr3",
    show_default=True,
    help="What is written.",
)
@click.option(
    "--codec", type=click.Choice(["none", "zstd", "blosc", "gzip"]), help="Default: zstd; precomputed is written raw."
)
@click.option("--chunk", type=Triple(), help="Chunk shape. Default: the volume's.")
@click.option("--shard", type=Triple(), help="Shard shape, a multiple of the chunk (zarr3).")
@click.option("--pyramid", type=click.IntRange(0), metavar="N", help="Make N coarser levels of what is written.")
@click.option("--keep-empty", is_flag=True, help="Write chunks that hold nothing but the fill value.")
@click.option("--fill-value", default="0", show_default=True, help="A number, or NaN.")
@click.option("--overwrite", is_flag=True, help="Replace what is at TARGET.")
@click.option("--no-resume", is_flag=True, help="Begin anew where the same run did not end.")
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Chunks made at a time. Default: one per core.")
@click.option("--memory-limit", type=Bytes(), metavar="SIZE", help="Memory for all of it, such as 2GiB.")
@click.option("--select", type=Selection(), help="A position on axes not wanted whole, such as c=1,t=0.")
@click.option("--name", help="The volume's name in the metadata. Default: TARGET's.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and end.")
@click.option("--json", "as_json", is_flag=True, help="Print the result (or the plan) as one JSON object.")
@click.option("--log-level", type=LOG_LEVELS, default="warning", show_default=True, help="How much to tell.")
def materialize(source: str, target: str, **kw: Any) -> None:
    """Write SOURCE, ops over it or a model's prediction, or a box of it, to the store TARGET.

    TARGET is a folder, s3:// or gs://. Stopped or killed, the same command goes on where it was.

    \b
    chunkloom materialize cell.zarr/em crop.zarr --box 0:512,100:612,0:512
    chunkloom materialize cell.zarr/em mito.zarr --model fibsem-membrane --pyramid 3
    """
    from chunkloom.cli import running
    from chunkloom.logging_setup import configure_logging

    configure_logging(kw.pop("log_level"))
    with running.ending_cleanly():
        write(source, target, **kw)


def write(
    source: str,
    target: str,
    *,
    ops: tuple[str, ...],
    model: str | None,
    box: Any,
    roi_nm: Any,
    levels: tuple[int, ...],
    keep_empty: bool,
    fill_value: str,
    overwrite: bool,
    no_resume: bool,
    workers: int | None,
    select: dict[str, int] | None,
    dry_run: bool,
    as_json: bool,
    **kw: Any,
) -> None:
    """The command, once its words are read."""
    import json

    from chunkloom.cli.progress import following
    from chunkloom.engine.materialize import materialize as run
    from chunkloom.engine.materialize import plan_materialize
    from chunkloom.memory import keep_freed_memory

    if kw["memory_limit"] is None:
        keep_freed_memory()
    volume, notes = volume_of(source, ops, model, select)
    if roi_nm is not None:
        box = box_of_roi(volume.level(min(levels, default=0)), roi_nm, box)
    options = {
        **kw,
        "box": box,
        "levels": levels or None,
        "skip_empty": not keep_empty,
        "fill_value": number(fill_value),
        "concurrency": workers,
    }
    plan = plan_materialize(volume, target, **options)
    if dry_run:
        click.echo(json.dumps(plan.to_dict(), indent=2) if as_json else "\n".join(plan.lines()))
        return
    with following(plan, notes, quiet=as_json) as progress:
        done = run(volume, target, overwrite=overwrite, resume=not no_resume, progress=progress, **options)
    if as_json:
        click.echo(json.dumps(done.to_dict(), indent=2))
        return
    from chunkloom.engine.materialize import size_text

    left_out = f", {done.skipped} left out as empty" if done.skipped else ""
    click.echo(
        f"{done.target}: {' x '.join(map(str, done.shape))}, {done.written} chunks written{left_out}, "
        f"{size_text(done.bytes)} in {done.seconds:.1f} s"
    )


def volume_of(
    source: str, ops: tuple[str, ...], model: str | None, select: dict[str, int] | None
) -> tuple[Any, tuple[str, ...]]:
    """The volume of a command line, and what a person should know of it."""
    from chunkloom.engine.op import parse_op

    parsed = [parse_op(text) for text in ops]
    if model is None:
        from chunkloom.engine.sources import open_volume

        volume = open_volume(source, select=select)
        if not parsed:
            return volume, volume.warnings
        from chunkloom.engine.pipeline import Pipeline

        return Pipeline(volume, parsed), volume.warnings
    from chunkloom.models.registry import parse_model
    from chunkloom.serving.volumes import volumes_to_serve

    served = volumes_to_serve(source, ops=parsed, model=parse_model(model), select=select)
    assert served.result is not None
    return served.volumes[served.result], served.notes


def box_of_roi(level: Any, roi_nm: Any, box: Any) -> tuple[tuple[float, float], ...]:
    """The voxels of a level that touch a region of the world."""
    from chunkloom.geometry import Roi

    if box is not None:
        raise click.UsageError("--box and --roi-nm are both given: give one")
    whole = level.grid.box_to_world(level.box)
    begin = [whole.begin[a] if roi_nm[a][0] is None else roi_nm[a][0] for a in range(3)]
    end = [whole.end[a] if roi_nm[a][1] is None else roi_nm[a][1] for a in range(3)]
    if any(b >= e for b, e in zip(begin, end, strict=True)):
        raise click.UsageError("--roi-nm is empty: expected begin before end along z, y and x")
    found = level.grid.world_to_covering_box(Roi(begin, [e - b for b, e in zip(begin, end, strict=True)]))
    return tuple(zip(found.lo, found.hi, strict=True))


def number(text: str) -> Any:
    """A fill value as typed: a whole number stays one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise click.UsageError(f"--fill-value {text!r}: expected a number, or NaN")
