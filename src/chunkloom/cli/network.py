"""`chunkloom network …`: cells and connections out of volumes into a network file, and what can be done with one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from chunkloom.cli.options import LOG_LEVELS, Selection
from chunkloom.errors import ChunkloomError, FormatError, WriteError

if TYPE_CHECKING:
    from chunkloom.engine.volume import Volume


class Lengths(click.ParamType[tuple[float, float, float]]):
    """Three lengths in nm along z, y, x, or one for all axes: `50000`, `40000,50000,50000`."""

    name = "z,y,x"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(float(part) for part in re.split(r"\s*,\s*", str(value).strip()))
        except ValueError:
            numbers = ()
        if len(numbers) not in (1, 3) or not all(0 < n < float("inf") for n in numbers):
            self.fail(f"{value!r} is no size: expected three lengths in nm like 40000,50000,50000, or one", param, ctx)
        return numbers * 3 if len(numbers) == 1 else numbers


@click.group()
def network() -> None:
    """Network files: cells and connections, in HDF5 that the Brain Scaffold Builder opens.

    \b
    chunkloom network extract cells.zarr/labels net.hdf5 --cell-type granule
    chunkloom network connect synapses.zarr/labels cells.zarr/labels net.hdf5 --tag syn --pre granule --post granule
    chunkloom serve em.zarr --network net.hdf5
    """


@contextmanager
def using(file: str) -> Iterator[None]:
    """A signal ends the block cleanly; a full disk, or a file that breaks off, is one line."""
    from chunkloom.cli import running

    with running.ending_cleanly():
        try:
            yield
        except ChunkloomError:
            raise
        except OSError as error:
            reason = error.strerror or str(error).partition("\n")[0]
            raise WriteError(f"{file} cannot be read or written: {reason}") from error
        except (RuntimeError, KeyError) as error:
            # How HDF5 tells that its own structures are damaged.
            if "Unable to synchronously" not in str(error) and "iteration failed" not in str(error):
                raise
            raise FormatError(f"{file} is damaged: {error}") from error


def sweeping(function: Any) -> Any:
    """Options of commands that go over a volume."""
    for option in reversed(
        [
            click.option("--select", type=Selection(), help="A position on axes not wanted whole, such as c=1,t=0."),
            click.option(
                "--workers", type=click.IntRange(1), metavar="N", help="Chunks at a time. Default: a core each."
            ),
            click.option("--overwrite", is_flag=True, help="Replace what the file has under that name."),
            click.option(
                "--log-level", type=LOG_LEVELS, default="warning", show_default=True, help="How much to tell."
            ),
        ]
    ):
        function = option(function)
    return function


@network.command()
@click.argument("segmentation")
@click.argument("file", metavar="NETWORK.hdf5")
@click.option("--cell-type", required=True, metavar="NAME", help="What the cells are called in the network.")
@click.option("--objects", metavar="FILE", help="A table of the volume's objects (.parquet, .csv), measured before.")
@click.option(
    "--chunk-size-nm", type=Lengths(), help="Chunks of a file that has none yet, in nm. Default: 100000 (100 µm)."
)
@click.option("--op", "ops", multiple=True, metavar="OP", help="An op over SEGMENTATION, as for serve. Again for more.")
@sweeping
def extract(
    segmentation: str,
    file: str,
    cell_type: str,
    objects: str | None,
    chunk_size_nm: tuple[float, float, float] | None,
    ops: tuple[str, ...],
    select: dict[str, int] | None,
    workers: int | None,
    overwrite: bool,
    log_level: str,
) -> None:
    """Place every object of SEGMENTATION, a volume of labels, as a cell of NETWORK.hdf5, made if it is not there.

    A cell is at the centroid of its object, in µm, and keeps its id (label_id), size (voxels) and box. Ended early, the
    file stays as it was.

    \b
    chunkloom network extract cells.zarr/labels net.hdf5 --cell-type granule
    chunkloom network extract synapses.zarr/mask net.hdf5 --cell-type synapse --op connected_components
    """
    from chunkloom.cli import running
    from chunkloom.cli.progress import counting
    from chunkloom.logging_setup import configure_logging

    configure_logging(log_level)
    with using(file):
        from chunkloom.bridge.extract import extract as run
        from chunkloom.engine.sweep import in_threads

        volume = opened(segmentation, ops, select)
        table = None
        if objects is not None:
            from chunkloom.engine.objects import read_objects

            table = read_objects(objects)
        with counting("measuring") as progress:
            done = run(
                volume,
                file,
                cell_type,
                table=table,
                chunk_size_nm=chunk_size_nm,
                overwrite=overwrite,
                each=in_threads(workers),
                progress=progress,
            )
        click.echo(f"{file}: {done.cells} cells of type {done.cell_type!r} in {done.chunks} chunks")
        if done.at_border:
            running.say(f"note: {done.at_border} of them touch an end of the volume, and may be cut there")
        if done.cells == 1:
            running.say(
                "note: all voxels have one id; if this is a mask, --op connected_components gives each object one"
            )


@network.command()
@click.argument("synapses")
@click.argument("segmentation")
@click.argument("file", metavar="NETWORK.hdf5")
@click.option("--tag", required=True, metavar="T", help="What the connections are called in the network.")
@click.option("--pre", required=True, metavar="TYPE", help="Cell type they come from.")
@click.option("--post", required=True, metavar="TYPE", help="Cell type they go to.")
@click.option(
    "--direction",
    metavar="VOLUME",
    help="Where a side is known: 1 presynaptic, 2 postsynaptic. Without it, connections go both ways.",
)
@click.option(
    "--min-voxels",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Least voxels with which a synapse touches a cell (faces, with --contacts).",
)
@click.option(
    "--contacts", is_flag=True, help="SYNAPSES is a mask: connect each pair of cells that share faces in it, once."
)
@click.option("--op", "ops", multiple=True, metavar="OP", help="An op over SYNAPSES, as for serve. Again for more.")
@sweeping
def connect(
    synapses: str,
    segmentation: str,
    file: str,
    tag: str,
    pre: str,
    post: str,
    direction: str | None,
    min_voxels: int,
    contacts: bool,
    ops: tuple[str, ...],
    select: dict[str, int] | None,
    workers: int | None,
    overwrite: bool,
    log_level: str,
) -> None:
    """Connect cells of NETWORK.hdf5 where SYNAPSES, a volume of labels, touches them in SEGMENTATION.

    SEGMENTATION is the volume the cells were extracted from. A synapse touches the cells its voxels lie in or border
    on; each pair of them is connected once per synapse. A mask (such as the op `contacts` makes) is one of contacts:
    each pair of cells that touch in it is connected once. Ended early, the file stays as it was.
    """
    from chunkloom.cli import running
    from chunkloom.cli.progress import counting
    from chunkloom.logging_setup import configure_logging

    configure_logging(log_level)
    with using(file):
        from chunkloom.bridge.connect import Ends, connect_contacts, connect_synapses
        from chunkloom.engine.sweep import in_threads
        from chunkloom.network import NetworkFile

        of_synapses = opened(synapses, ops, select)
        is_mask = contacts or of_synapses.kind == "mask"
        with NetworkFile.open(file) as into, counting("looking") as progress:
            done = (connect_contacts if is_mask else connect_synapses)(
                of_synapses,
                opened(segmentation, (), select),
                into,
                Ends(tag, pre, post),
                direction=None if direction is None else opened(direction, (), select),
                min_voxels=min_voxels,
                overwrite=overwrite,
                each=in_threads(workers),
                progress=progress,
            )
        what = "pairs in contact" if is_mask else "synapses"
        click.echo(f"{file}: {done.connections} connections {tag!r} from {done.found} {what}")
        if done.found == 1 and not is_mask:
            running.say(
                "note: all voxels have one id; if this is a mask, --op connected_components gives each object one"
            )
        for count, why in (
            (done.alone, "synapses touch fewer than two cells"),
            (done.undirected, f"{what} have no direction in {direction}"),
            (done.elsewhere, f"connections are left out: the network has no such {pre!r} or {post!r}"),
        ):
            if count:
                running.say(f"note: {count} {why}")


def opened(source: str, ops: tuple[str, ...], select: dict[str, int] | None) -> Volume:
    """A volume of the command line, or ops over it."""
    from chunkloom.cli.materialize import volume_of

    volume: Volume = volume_of(source, ops, None, select)[0]
    return volume


@network.command()
@click.argument("file", metavar="NETWORK.hdf5")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def inspect(file: str, as_json: bool) -> None:
    """Say what is in a network file."""
    from chunkloom.bridge.summary import summary
    from chunkloom.network import NetworkFile

    with using(file):
        found = summary(NetworkFile.open(file, "r"))
    click.echo(json.dumps(found.to_dict(), indent=2) if as_json else "\n".join(found.lines()))


@network.command()
@click.argument("file", metavar="NETWORK.hdf5")
def check(file: str) -> int:
    """Read everything in a network file and name every fault; exit 1 if there are any."""
    from chunkloom.network import NetworkFile
    from chunkloom.network import check as run

    with using(file):
        try:
            faults = run(NetworkFile.open(file, "r"))
        except (RuntimeError, KeyError) as error:
            # What HDF5 raises where its own structures are damaged: nothing beyond can be told.
            faults = [f"{file} is damaged: HDF5 cannot go on: {error}"]
    for fault in faults:
        click.echo(fault)
    click.echo(f"{file}: {len(faults)} faults" if faults else f"{file}: sound", err=bool(faults))
    return 1 if faults else 0


@network.command()
@click.argument("file", metavar="NETWORK.hdf5")
def compact(file: str) -> None:
    """Write a network file anew without the holes that replaced data leave."""
    from chunkloom.engine.materialize import size_text
    from chunkloom.network import NetworkFile
    from chunkloom.network import compact as run

    with using(file), NetworkFile.open(file) as into:
        before, after = run(into)
        click.echo(f"{file}: {size_text(before)} before, {size_text(after)} now")


@network.command()
@click.argument("file", metavar="NETWORK.hdf5")
def merge(file: str) -> None:
    """Make the parts that workers wrote beside a network file part of it."""
    from chunkloom.network import NetworkFile, merge_parts

    with using(file), NetworkFile.open(file) as into:
        click.echo(f"{file}: {merge_parts(into)} parts merged")


@network.command()
@click.argument("file", metavar="NETWORK.hdf5")
@click.argument("folder")
@click.option(
    "--format",
    "word",
    type=click.Choice(["sonata", "parquet"]),
    default="sonata",
    show_default=True,
    help="SONATA's nodes and edges in HDF5, or a Parquet table of each set.",
)
@click.option("--overwrite", is_flag=True, help="Replace files of the same names.")
def export(file: str, folder: str, word: str, overwrite: bool) -> None:
    """Write the cells and connections of a network file to FOLDER, for other programs."""
    from chunkloom.bridge import sonata, tables
    from chunkloom.network import NetworkFile

    with using(folder):
        write = {"sonata": sonata.export, "parquet": tables.export}[word]
        for path in write(NetworkFile.open(file, "r"), folder, overwrite=overwrite):
            click.echo(path)
