"""`chunkloom dashboard` and `chunkloom view`: the web page, empty or with data open in it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from chunkloom.cli.options import LOG_LEVELS

if TYPE_CHECKING:
    from chunkloom.dashboard.options import Start

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
@click.option("-d", "--data", "--data-path", "data", required=True, metavar="SOURCE", help="The volume to look at.")
@dashboard_options
def view(data: str, **kw: Any) -> None:
    """Open the dashboard with a volume in it.

    \b
    chunkloom view -d cell.zarr/em
    chunkloom view -d s3://bucket/cell.zarr/em
    """
    from chunkloom.cli import running
    from chunkloom.dashboard.options import Start

    with running.ending_cleanly():
        serve_dashboard(Start(data_path=data), **kw)


def serve_dashboard(
    start: Start,
    *,
    host: str,
    port: int,
    ready_file: str | None,
    token: str | None,
    allow_root: tuple[str, ...],
    no_browser: bool,
    log_level: str,
) -> None:
    """Run the dashboard until a signal. What `start` names is opened first, so that what is wrong is known at once."""
    import os

    from chunkloom.cli import running
    from chunkloom.dashboard.app import create_dashboard
    from chunkloom.dashboard.options import DashboardOptions, usual_sources
    from chunkloom.dashboard.starting import begin
    from chunkloom.logging_setup import configure_logging
    from chunkloom.memory import keep_freed_memory
    from chunkloom.serving.access import hosts_from_environment
    from chunkloom.serving.run import AppServer, bind
    from chunkloom.settings import environment

    configure_logging(log_level)
    keep_freed_memory()
    listening = bind(host, port)
    given: dict[str, Any] = {} if not (token or environment("TOKEN")) else {"token": token or environment("TOKEN")}
    hosts = (*hosts_from_environment(), *((host,) if host not in ("0.0.0.0", "::") else (_machine(),)))
    made = create_dashboard(
        DashboardOptions(
            sources=usual_sources(allow_root, start.data_path),
            hosts=hosts,
            start=start,
            cookie_suffix=str(listening.getsockname()[1]),
            **given,
        )
    )
    with contextlib.ExitStack() as stack:
        stdout = stack.enter_context(running.stdout_kept())
        stack.callback(made.close)
        server = stack.enter_context(AppServer(made, listening))
        made.pool.dashboard_url = server.url
        begin(made, server.url)
        link = f"{server.url}/?token={made.options.token}"
        ready = {"url": server.url, "host": server.host, "port": server.port, "pid": os.getpid(), "viewer": link}
        stack.enter_context(running.ready_file(ready_file, ready, stdout))
        write_service_url(server.url)
        click.echo(link, stdout)
        running.say(tunnel_help(host, server.port))
        if not no_browser:
            import webbrowser

            webbrowser.open(link)
        running.say("Serving until Ctrl-C.")
        running.wait_for_signal()


def write_service_url(url: str) -> None:
    """Where `SERVICE_URL_PATH` names a file, write the address there, whole or not at all."""
    import os
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
