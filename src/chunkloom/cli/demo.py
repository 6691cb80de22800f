"""`chunkloom demo`: the main job in one command, on real data or on made-up EM."""

from __future__ import annotations

from typing import Any

import click

from chunkloom.cli.options import server_options

SYNTHETIC = "synthetic://em"


@click.command()
@click.option("-d", "--data", metavar="SOURCE", help="The volume; made-up EM when left out.")
@click.option("--model", default="fibsem-membrane", show_default=True, help="As for serve --model.")
@click.option("--once", is_flag=True, help="Fetch a chunk of each volume, print how long it took, and end.")
@click.option("--no-browser", is_flag=True, help="Print the link, open no browser.")
@server_options
def demo(data: str | None, model: str, once: bool, no_browser: bool, **kw: Any) -> None:
    """See EM and a membrane prediction, computed where you look.

    \b
    chunkloom demo
    chunkloom demo --data cell.zarr/em
    """
    from chunkloom.cli import running
    from chunkloom.cli.showing import look
    from chunkloom.models.registry import parse_model

    with running.ending_cleanly():
        if data is None:
            running.say(f"No --data given: showing a made-up volume, {SYNTHETIC}")
        look(data or SYNTHETIC, parse_model(model), running.ServerOptions(**kw), once=once, open_browser=not no_browser)
