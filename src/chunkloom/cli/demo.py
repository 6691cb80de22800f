"""`chunkloom demo`: the main job in one command, on real data or on made-up EM."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import click

from chunkloom.cli.options import server_options
from chunkloom.cli.showing import look, viewing_of, viewing_options

PUBLIC = "s3://janelia-cosem-datasets/jrc_mus-liver/jrc_mus-liver.zarr/recon-1/em/fibsem-uint8"
SYNTHETIC = "synthetic://em"


@click.command()
@click.option(
    "-d",
    "--data",
    metavar="SOURCE",
    help="The volume. Default: a public one if it answers within a second, else made-up EM.",
)
@click.option("--model", default="fibsem-membrane", show_default=True, help="As for serve --model.")
@viewing_options
@server_options
def demo(data: str | None, model: str, **kw: Any) -> None:
    """See EM and a membrane prediction, computed where you look.

    \b
    chunkloom demo
    chunkloom demo --data cell.zarr/em
    """
    from chunkloom.cli import running
    from chunkloom.models.registry import parse_model

    with running.ending_cleanly():
        source = data
        if source is None:
            source = PUBLIC if answers(public_address()) else SYNTHETIC
            kind = "a public volume" if source == PUBLIC else "a made-up volume (the public one does not answer)"
            running.say(f"No --data given: showing {kind}, {source}")
        viewing, options = viewing_of(kw), running.parse_options(kw)
        look(running.making(source, options, model=parse_model(model)), options, viewing)


def public_address() -> str:
    """Where the metadata of the public volume lie on the web."""
    bucket, key = PUBLIC.removeprefix("s3://").split("/", 1)
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    base = f"{endpoint.rstrip('/')}/{bucket}" if endpoint else f"https://{bucket}.s3.amazonaws.com"
    return f"{base}/{key}/.zattrs"


def answers(address: str, seconds: float = 1.0) -> bool:
    """Whether there is something at an address, known within `seconds`, name look-up included."""
    import threading
    import urllib.request

    found: list[bool] = []

    def ask() -> None:
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=seconds) as answer:
            found.append(answer.status == 200)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(seconds)
    return bool(found) and found[0]
