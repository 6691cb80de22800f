"""`chunkloom serve`: a volume, ops over it or a model's prediction, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

import click

from chunkloom.cli.options import server_options

if TYPE_CHECKING:
    from chunkloom.serving.run import VolumeServer


@click.command()
@click.argument("source", required=False)
@click.option("-d", "--data", "--data-path", "data", metavar="SOURCE", help="The same as SOURCE.")
@click.option(
    "--op",
    "ops",
    multiple=True,
    metavar="OP",
    help="An op over the source (over the prediction, with --model), such as threshold:low=120. Again for more.",
)
@click.option(
    "--model",
    metavar="MODEL",
    help="A model to run: a .onnx or .py file, a folder with a model.json, a JSON entry, or a bundled model's name.",
)
@click.option("--raw", is_flag=True, help="With --op: serve the source too, as raw. (With --model it always is.)")
@click.option(
    "--network",
    metavar="NETWORK.hdf5",
    help="Serve its cells and connections as annotations, and print a link that shows them on the volume.",
)
@click.option("--name", help="What the result is called. Default: the model's name, or from SOURCE's path.")
@server_options
def serve(
    source: str | None,
    data: str | None,
    ops: tuple[str, ...],
    model: str | None,
    raw: bool,
    network: str | None,
    name: str | None,
    **kw: Any,
) -> None:
    """Serve a volume, ops over it, or a model's prediction, as zarr v2, zarr v3, N5 and precomputed.

    SOURCE is a folder or URL, or synthetic://em. Each volume is at URL/NAME/zarr2, /zarr3, /n5 and /precomputed, its
    levels below as s0, s1, … `chunkloom ops` lists the ops.

    \b
    chunkloom serve cell.zarr/em --op threshold:low=120
    chunkloom serve cell.zarr/em --model fibsem-membrane
    chunkloom serve cell.zarr/em --network net.hdf5
    """
    from chunkloom.cli import running

    options = running.parse_options(kw)
    path = one_source(source, data)
    with running.ending_cleanly(), running.stdout_kept() as stdout:
        chosen = None
        if model is not None:
            from chunkloom.models.registry import parse_model

            chosen = parse_model(model)
        with running.serving(path, options, ops=ops, model=chosen, name=name, with_raw=raw) as (served, server):
            link = None
            if network is not None:
                from chunkloom.cli.showing import network_link

                link = network_link(network, served, server, options.host)
            with running.ready_file(options.ready_file, running.ready(server, link), stdout):
                running.announce(server, options, stdout)
                running.say_notes(served)
                tell(server, link, stdout)
                running.wait_for_signal()


def tell(server: VolumeServer, link: str | None, stdout: TextIO) -> None:
    """Say what is served, and where."""
    from chunkloom.cli import running
    from chunkloom.engine.formats import FORMATS

    others = [word for word in FORMATS if word != "zarr3"]
    for volume in server.volumes():
        running.say(f"{volume['name']}: {volume['urls']['zarr3']} (also as {', '.join(others)})")
    for folder in server.folders():
        running.say(f"{folder['name']}: {folder['url']}")
    if link is not None:
        click.echo(link, stdout)
    running.say("Serving until Ctrl-C.")


def one_source(source: str | None, data: str | None) -> str:
    """The source, from the argument or from -d."""
    if source and data and source != data:
        raise click.UsageError(f"two sources, {source} and -d {data}: give one")
    found = source or data
    if not found:
        raise click.UsageError("no source: give the path or URL of a volume, or synthetic://em")
    return found
