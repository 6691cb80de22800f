"""Looking: servers and a Neuroglancer link until Ctrl-C, or one chunk of each volume and a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from chunkloom.cli import running
from chunkloom.errors import ChunkReadError

if TYPE_CHECKING:
    from chunkloom.models.kinds import ModelConfig
    from chunkloom.serving.run import VolumeServer


F = TypeVar("F", bound=Callable[..., Any])


def viewing_options(function: F) -> F:
    """Options of commands that open a viewer."""
    options = [
        click.option("--once", is_flag=True, help="Fetch a chunk of each volume, print how long it took, and end."),
        click.option("--no-browser", is_flag=True, help="Print the link, open no browser."),
        click.option(
            "--viewer-port", type=click.IntRange(0, 65535), default=0, help="Port of the link; 0 is any free one."
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def look(
    source: str,
    model: ModelConfig,
    options: running.ServerOptions,
    *,
    ops: Sequence[str] = (),
    once: bool,
    no_browser: bool,
    viewer_port: int,
) -> None:
    """Show the raw data and the model's prediction in Neuroglancer, until a signal or, with `once`, one chunk each."""
    began = time.perf_counter()
    with (
        running.stdout_kept() as stdout,
        running.serving(source, options, ops=ops, model=model, ports=2) as (served, server),
    ):
        from chunkloom.viewer.bootstrap import viewer_link
        from chunkloom.viewer.scene import scene

        layers = scene(served.volumes, server.url, raw=served.raw, raw_server_url=server.also_url)
        link = viewer_link(layers, host=options.host, port=viewer_port)
        with running.ready_file(options.ready_file, running.ready(server, link), stdout):
            running.say_notes(served)
            for volume in server.volumes():
                running.say(f"{volume['name']}: {volume['urls']['zarr3']}/s0")
            click.echo(link, stdout)
            if once:
                click.echo(table([fetch(server, name, began) for name in served.volumes]), stdout)
                return
            if not no_browser:
                import webbrowser

                webbrowser.open(link)
            running.say("Serving until Ctrl-C.")
            running.wait_for_signal()


@dataclass(frozen=True)
class Fetched:
    """One chunk, fetched over HTTP."""

    name: str
    since_start_s: float
    took_ms: float
    nbytes: int


def fetch(server: VolumeServer, name: str, began: float) -> Fetched:
    """The middle chunk of a served volume's finest level."""
    import urllib.error
    import urllib.request

    level = server.app.volumes[name].volume.levels[0]
    index = "/".join(["0"] * len(level.channels) + [str((n - 1) // 2) for n in level.chunk_grid])
    url = f"{server.url}/{name}/zarr2/s0/{index}"
    sent = time.perf_counter()
    try:
        with urllib.request.urlopen(url, timeout=120) as answer:
            body = answer.read()
    except urllib.error.HTTPError as error:
        reason = error.read()
        if error.code != 404:
            raise ChunkReadError(f"{url}: {error.code}: {reason.decode(errors='replace').strip()}") from error
        body = b""  # nothing stored there: all fill value
    except OSError as error:
        raise ChunkReadError(f"{url}: {error}") from error
    done = time.perf_counter()
    return Fetched(name, done - began, (done - sent) * 1000, len(body))


def table(rows: list[Fetched]) -> str:
    """The fetched chunks as text."""
    width = max(len("volume"), *(len(row.name) for row in rows))
    lines = [f"{'volume':<{width}}  {'after start (s)':>15}  {'chunk (ms)':>10}  {'bytes':>9}"]
    for row in rows:
        lines.append(f"{row.name:<{width}}  {row.since_start_s:>15.2f}  {row.took_ms:>10.0f}  {row.nbytes:>9}")
    return "\n".join(lines)
