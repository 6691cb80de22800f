"""`chunkloom app`: the browser app for a browser of this machine, with a volume open in it or without."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from urllib.parse import quote

import click


@click.command()
@click.argument("source", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("-p", "--port", type=click.IntRange(0, 65535), default=0, help="Port; 0 is any free one.")
@click.option("--ready-file", metavar="FILE", help="Write where the app is to FILE once it answers; - prints it.")
@click.option("--no-browser", is_flag=True, help="Print the link, open no browser.")
def app(source: str | None, host: str, port: int, ready_file: str | None, no_browser: bool) -> None:
    """Open the browser app: models and ops computed in the page, boxes of them saved.

    With SOURCE (a folder or URL), that volume is open in it. Without, the page asks for one.

    \b
    chunkloom app
    chunkloom app cell.zarr/em
    """
    import os

    from chunkloom.cli import running
    from chunkloom.errors import ServerError
    from chunkloom.viewer.bundle import HOW_TO_BUILD, built
    from chunkloom.viewer.page import page_served

    folder = built("app")
    if folder is None:
        raise ServerError(f"the browser app is not in this installation: {HOW_TO_BUILD}")
    with (
        running.ending_cleanly(),
        running.stdout_kept() as stdout,
        address_of(source, host) as data,
        page_served(folder, host=host, port=port) as url,
    ):
        link = url
        if data:
            state = json.dumps({"tab": "view", "data": data}, separators=(",", ":"))
            link = f"{url}?state={quote(state, safe='')}"
        ready = {"url": url, "host": host, "port": int(url.rsplit(":", 1)[1].strip("/")), "pid": os.getpid()}
        with running.ready_file(ready_file, {**ready, "viewer": link}, stdout):
            if ready_file != "-":
                click.echo(link, stdout)
                stdout.flush()
            if host not in ("127.0.0.1", "localhost", "::1"):
                running.say("note: browsers give pages threads and storage over https or on 127.0.0.1 only")
            if not no_browser:
                import webbrowser

                webbrowser.open(link)
            running.say("Serving until Ctrl-C.")
            running.wait_for_signal()


@contextlib.contextmanager
def address_of(source: str | None, host: str) -> Iterator[str | None]:
    """Where the page finds a volume: served by a chunk server of this process while the block runs."""
    if source is None:
        yield None
        return
    from chunkloom.cli import running

    with running.serving(source, running.ServerOptions(host=host)) as (served, server):
        running.say_notes(served)
        (volume,) = server.volumes()
        yield volume["urls"]["zarr3"]
