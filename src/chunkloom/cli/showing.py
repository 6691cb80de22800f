"""Looking: servers and a Neuroglancer link until Ctrl-C, or one chunk of each volume and a table."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from chunkloom.cli import running
from chunkloom.errors import ChunkReadError

if TYPE_CHECKING:
    from chunkloom.dashboard.options import Start
    from chunkloom.serving.run import VolumeServer
    from chunkloom.serving.volumes import Served
    from chunkloom.viewer.layers import LayerSpec


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


@dataclass(frozen=True)
class Viewing:
    """The values of `viewing_options`."""

    once: bool = False
    no_browser: bool = False
    viewer_port: int = 0


def viewing_of(values: dict[str, Any]) -> Viewing:
    """The values of `viewing_options`, taken out of a command line's."""
    return Viewing(*(values.pop(name) for name in ("once", "no_browser", "viewer_port")))


def no_more_layers(server: VolumeServer) -> list[LayerSpec]:
    """For those who show what is served and nothing else."""
    return []


def look(
    make: running.Make,
    options: running.ServerOptions,
    viewing: Viewing,
    *,
    ops: Sequence[str] = (),
    more_layers: Callable[[VolumeServer], list[LayerSpec]] = no_more_layers,
    start: Start | None = None,
) -> None:
    """Show what `make` gives in Neuroglancer, until a signal or, with `once`, one chunk of each.

    `more_layers` are shown over it, of the same server. `start` is the session that a dashboard opens with, beside the
    viewer: its models are those that `make` serves.
    """
    began = time.perf_counter()
    with (
        running.stdout_kept() as stdout,
        running.serving_made(make, options, ops=ops, ports=2) as (served, server),
    ):
        from chunkloom.viewer.bootstrap import viewer_link
        from chunkloom.viewer.scene import scene

        layers = scene(served.shown, server.url, raw=served.raw, raw_server_url=server.also_url)
        layers += more_layers(server)
        link = viewer_link(layers, host=options.host, port=viewing.viewer_port)
        with running.ready_file(options.ready_file, running.ready(server, link), stdout):
            running.say_notes(served)
            for volume in server.volumes():
                running.say(f"{volume['name']}: {volume['urls']['zarr3']}/s0")
            click.echo(link, stdout)
            if viewing.once:
                click.echo(table([fetch(server, name, began) for name in served.volumes]), stdout)
                return
            with contextlib.ExitStack() as stack:
                if start is not None:
                    link = stack.enter_context(dashboard_beside(start, served, server, options))
                    running.say(f"Dashboard: {link}")
                if not viewing.no_browser:
                    import webbrowser

                    webbrowser.open(link)
                running.say("Serving until Ctrl-C.")
                running.wait_for_signal()


@contextlib.contextmanager
def dashboard_beside(
    start: Start, served: Served, server: VolumeServer, options: running.ServerOptions
) -> Iterator[str]:
    """A dashboard over what this process serves, while the block runs; its link."""
    from chunkloom.cli.dashboard import dashboard_running
    from chunkloom.serving.protocol import Dashboard

    here = {name: (entry, server.url) for name, entry in zip(served.models, start.models, strict=True)}
    named = tuple({**entry, "name": name} for name, (entry, _) in here.items())
    here = {name: ({**entry, "name": name}, url) for name, (entry, url) in here.items()}
    begun = dataclasses.replace(start, models=named)
    with dashboard_running(
        begun, host=options.host, token=options.token, allow_root=options.allow_root, served_here=here
    ) as (_, running_dashboard, link):
        if hasattr(server.app, "dashboard"):
            server.app.dashboard = Dashboard(running_dashboard.url)
        yield link


def network_link(path: str, served: Served, server: VolumeServer, host: str) -> str:
    """Serve the cells and connections of a network file, and give a link that shows them on the served volumes."""
    from chunkloom.bridge.annotations import network_annotations
    from chunkloom.network import NetworkFile
    from chunkloom.viewer.annotations import AnnotationSpec
    from chunkloom.viewer.bootstrap import viewer_link
    from chunkloom.viewer.layers import PALETTE
    from chunkloom.viewer.scene import scene

    shown: list[AnnotationSpec] = []
    for collection in network_annotations(NetworkFile.open(path, "r")):
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", collection.name)
        server.app.add_folder(name, collection)
        color = PALETTE[(len(shown) + 1) % len(PALETTE)]
        shown.append(AnnotationSpec(collection.name, f"{server.url}/{name}/precomputed", color))
    layers = scene(served.volumes, server.url, raw=served.raw, raw_server_url=server.also_url)
    return viewer_link(layers, annotations=shown, host=host)


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
