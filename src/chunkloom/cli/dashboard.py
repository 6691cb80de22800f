"""`chunkloom dashboard` and `chunkloom view`: the web page, empty or with data open in it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from chunkloom.cli.options import LOG_LEVELS

if TYPE_CHECKING:
    from chunkloom.dashboard.app import Dashboard
    from chunkloom.dashboard.options import Start
    from chunkloom.serving.run import AppServer

F = TypeVar("F", bound=Callable[..., Any])


def dashboard_options(function: F) -> F:
    """Where the dashboard listens, and what may be opened in it."""
    options = [
        click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
        click.option("-p", "--port", type=click.IntRange(0, 65535), default=0, help="Port; 0 is any free one."),
        click.option("--ready-file", metavar="FILE", help="Write where it is to FILE once it answers; - prints it."),
        click.option("--token", metavar="TOKEN", help="The token of the link; one is made when left out."),
        click.option(
            "--allow-root",
            multiple=True,
            metavar="PLACE",
            help="A folder or URL below which data may be opened from the page. Again for more. "
            "Default: the home and the working folder, public buckets and https.",
        ),
        click.option("--no-browser", is_flag=True, help="Print the link, open no browser."),
        click.option("--log-level", type=LOG_LEVELS, default="info", show_default=True, help="How much to tell."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.command()
@dashboard_options
def dashboard(**kw: Any) -> None:
    """Open the dashboard: choose data, run models, tune the chain, and see it in Neuroglancer."""
    from chunkloom.cli import running
    from chunkloom.dashboard.options import Start

    with running.ending_cleanly():
        serve_dashboard(Start(), **kw)


@click.command()
@click.argument("source", required=False)
@click.option("-d", "--data", "--data-path", "data", metavar="SOURCE", help="The same as SOURCE.")
@dashboard_options
def view(source: str | None, data: str | None, **kw: Any) -> None:
    """Open the dashboard with a volume in it.

    \b
    chunkloom view cell.zarr/em
    chunkloom view s3://bucket/cell.zarr/em
    """
    from chunkloom.cli import running
    from chunkloom.cli.serve import one_source
    from chunkloom.dashboard.options import Start

    path = one_source(source, data)
    with running.ending_cleanly():
        serve_dashboard(Start(data_path=path), **kw)


def serve_dashboard(start: Start, *, ready_file: str | None, no_browser: bool, log_level: str, **kw: Any) -> None:
    """Run the dashboard until a signal. What `start` names is opened first, so that what is wrong is known at once."""
    from chunkloom.cli import running
    from chunkloom.logging_setup import configure_logging
    from chunkloom.memory import keep_freed_memory

    configure_logging(log_level)
    keep_freed_memory()
    with running.stdout_kept() as stdout, dashboard_running(start, **kw) as (_, server, link):
        ready = {"url": server.url, "host": server.host, "port": server.port, "pid": os.getpid(), "viewer": link}
        with running.ready_file(ready_file, ready, stdout):
            write_service_url(server.url)
            click.echo(link, stdout)
            running.say(tunnel_help(kw["host"], server.port))
            if not no_browser:
                import webbrowser

                webbrowser.open(link)
            running.say("Serving until Ctrl-C.")
            running.wait_for_signal()


@contextlib.contextmanager
def dashboard_running(
    start: Start,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    allow_root: tuple[str, ...] = (),
    served_here: Mapping[str, tuple[dict[str, Any], str]] | None = None,
) -> Iterator[tuple[Dashboard, AppServer, str]]:
    """A dashboard that answers while the block runs, and its link.

    `served_here` are models that a server of this process computes already: their entries and its address, by name.
    """
    from chunkloom.dashboard.app import create_dashboard
    from chunkloom.dashboard.options import DashboardOptions, usual_sources
    from chunkloom.dashboard.starting import begin
    from chunkloom.serving.access import hosts_from_environment
    from chunkloom.serving.run import AppServer, bind
    from chunkloom.settings import environment

    listening = bind(host, port)
    secret = token or environment("TOKEN")
    given: dict[str, Any] = {"token": secret} if secret else {}
    hosts = (*hosts_from_environment(), *((host,) if host not in ("0.0.0.0", "::") else (_machine(),)))
    made = create_dashboard(
        DashboardOptions(
            sources=usual_sources(allow_root, start.data_path, *(layer["path"] for layer in start.extra_layers)),
            hosts=hosts,
            start=start,
            cookie_suffix=str(listening.getsockname()[1]),
            **given,
        )
    )
    try:
        with AppServer(made, listening) as server:
            made.pool.dashboard_url = server.url
            for name, (entry, url) in (served_here or {}).items():
                made.pool.adopt(name, entry, start.data_path or "", url)
            begin(made, server.url)
            yield made, server, f"{server.url}/?token={made.options.token}"
    finally:
        made.close()


def write_service_url(url: str) -> None:
    """Where `SERVICE_URL_PATH` names a file, write the address there, whole or not at all."""
    import tempfile
    from pathlib import Path

    from chunkloom.errors import ParameterError

    named = os.environ.get("SERVICE_URL_PATH")
    if not named:
        return
    try:
        handle, temporary = tempfile.mkstemp(prefix=".url.", dir=Path(named).parent)
        with os.fdopen(handle, "w") as stream:
            stream.write(url + "\n")
        os.replace(temporary, named)
    except OSError as error:
        raise ParameterError(f"SERVICE_URL_PATH {named}: cannot be written: {error.strerror}") from error


def tunnel_help(host: str, port: int) -> str:
    """How to get to it from another machine."""
    if host not in ("127.0.0.1", "localhost", "::1"):
        return "Others can open the link too: whoever has it can use this dashboard."
    return f"From another machine: ssh -N -L {port}:127.0.0.1:{port} {_machine()}, then open the link there as it is."


def _machine() -> str:
    import socket

    return socket.gethostname()
