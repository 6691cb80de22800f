"""`chunkloom view`: a volume as it is, in Neuroglancer."""

from __future__ import annotations

from typing import Any

import click

from chunkloom.cli.options import server_options
from chunkloom.cli.serve import one_source
from chunkloom.cli.showing import look, viewing_of, viewing_options


@click.command()
@click.argument("source", required=False)
@click.option("-d", "--data", "--data-path", "data", metavar="SOURCE", help="The same as SOURCE.")
@viewing_options
@server_options
def view(source: str | None, data: str | None, **kw: Any) -> None:
    """Look at a volume in Neuroglancer.

    \b
    chunkloom view cell.zarr/em
    """
    from chunkloom.cli import running

    path = one_source(source, data)
    with running.ending_cleanly():
        viewing, options = viewing_of(kw), running.parse_options(kw)
        look(running.making(path, options), options, viewing)
