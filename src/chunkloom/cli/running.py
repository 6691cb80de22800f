"""What `serve`, `infer` and `demo` do alike: make the volumes, start the servers, say where, and end cleanly."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from chunkloom.cli.options import parse_bytes

if TYPE_CHECKING:
    from types import FrameType

    from chunkloom.engine.cache import ChunkCache
    from chunkloom.engine.disk import DiskCache
    from chunkloom.engine.op import Op
    from chunkloom.models.kinds import ModelConfig
    from chunkloom.serving.access import ApiOptions
    from chunkloom.serving.app import ChunkApp
    from chunkloom.serving.protocol import Dashboard
    from chunkloom.serving.run import VolumeServer
    from chunkloom.serving.volumes import Served

    Make = Callable[[list[Op]], Served]


@dataclass(frozen=True)
class ServerOptions:
    """The values of `options.server_options`."""

    host: str = "127.0.0.1"
    port: int = 0
    ready_file: str | None = None
    codec: str | None = None
    chunk: tuple[int, ...] | None = None
    select: dict[str, int] | None = None
    cache_decoded: int | None = None
    cache_encoded: int | None = None
    cache_predictions: int | None = None
    certfile: str | None = None
    keyfile: str | None = None
    cache_disk: int | None = None
    allow_edit: bool = False
    token: str | None = field(default=None, repr=False)
    allow_root: tuple[str, ...] = ()
    allow_code: bool = False
    log_level: str = "warning"


def parse_options(values: dict[str, Any]) -> ServerOptions:
    """The options of a command line, with what a job's environment says.

    A server that a job starts (it is told where to write its ready file) is for other machines: it listens on all
    interfaces, and has edits off.
    """
    from chunkloom.errors import ParameterError
    from chunkloom.settings import environment

    job_file = environment("READY_FILE")
    if values.get("keyfile") and not values.get("certfile"):
        raise ParameterError("--keyfile without --certfile: give the certificate too")
    for name in ("certfile", "keyfile"):
        if values.get(name) and not os.path.isfile(values[name]):
            raise ParameterError(f"--{name} {values[name]}: no such file")
    if job_file:
        if values.get("allow_edit"):
            raise ParameterError("--allow-edit: edits are off in servers that jobs start (CHUNKLOOM_READY_FILE is set)")
        values = {**values, "ready_file": values.get("ready_file") or job_file}
    if values.get("host") is None:
        values = {**values, "host": "0.0.0.0" if job_file else "127.0.0.1"}
    return ServerOptions(**values)


class Interrupted(BaseException):
    """A signal asked the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def say(text: str) -> None:
    """A line for the person, on stderr: stdout is for what other programs read."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def stdout_kept() -> Iterator[TextIO]:
    """stdout for what other programs read: what models and libraries print while the block runs goes to stderr."""
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "w") as kept:
        os.dup2(2, 1)
        try:
            with contextlib.redirect_stdout(sys.stderr):
                yield kept
        finally:
            with contextlib.suppress(OSError):  # a reader that is gone
                kept.flush()
            os.dup2(kept.fileno(), 1)


def say_notes(served: Served) -> None:
    """What a person should know of what is served, once everything else has gone well."""
    for note in served.notes:
        say(f"note: {note}")


@contextmanager
def ending_cleanly() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP unwind the block, so that everything it started is stopped; exit 128 + n."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    came: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) == 1:  # another would hit what is being stopped, in the middle
            raise Interrupted(number)

    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    except BaseException:
        # Libraries turn what is raised in the middle of them into errors of their own.
        if came:
            sys.exit(128 + came[0])
        raise
    finally:
        if not came:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def serving(
    source: str,
    options: ServerOptions,
    *,
    ops: Sequence[str] = (),
    model: ModelConfig | None = None,
    name: str | None = None,
    with_raw: bool = False,
) -> Iterator[tuple[Served, VolumeServer]]:
    """The volumes of a command line, served while the block runs."""
    make = making(source, options, model=model, name=name, with_raw=with_raw)
    with serving_made(make, options, ops=ops) as made:
        yield made


def making(
    source: str,
    options: ServerOptions,
    *,
    model: ModelConfig | None = None,
    name: str | None = None,
    with_raw: bool = False,
) -> Make:
    """What makes the volumes of one source, given the ops over it."""

    def make(parsed: list[Op]) -> Served:
        from chunkloom.serving.volumes import volumes_to_serve

        return volumes_to_serve(
            source,
            ops=parsed,
            model=model,
            name=name,
            with_raw=with_raw,
            select=options.select,
            chunk=options.chunk,
            predictions=None if model is None else prediction_cache(options),
        )

    return make


@contextmanager
def serving_made(
    make: Make, options: ServerOptions, *, ops: Sequence[str] = (), ports: int = 1
) -> Iterator[tuple[Served, VolumeServer]]:
    """What `make` gives, served while the block runs, on one port or two (the second is any free one).

    It is called with the parsed ops once the port is bound.
    """
    from chunkloom.engine import chunked
    from chunkloom.engine.cache import ChunkCache
    from chunkloom.engine.op import parse_op
    from chunkloom.logging_setup import configure_logging
    from chunkloom.memory import keep_freed_memory
    from chunkloom.serving.run import VolumeServer, bind

    configure_logging(options.log_level)
    keep_freed_memory()
    decoded = options.cache_decoded
    if decoded is None:
        decoded = bytes_of_environment("RAW_CACHE_BYTES")
    if decoded is not None or options.cache_disk:
        chunked.use_process_cache(ChunkCache(decoded, disk_cache(options)))
    if options.allow_code:
        from chunkloom.engine.ops.python import allow_code

        allow_code()
    parsed = [parse_op(text) for text in ops]
    api = api_options(options)
    # Bound before anything slow: a taken port is known at once.
    listening = bind(options.host, options.port)
    try:
        served = make(parsed)
        app = app_of(served, options, api)
    except BaseException:
        listening.close()
        raise
    also = bind(options.host, 0) if ports > 1 else None
    with VolumeServer(app, listening, also, certfile=options.certfile, keyfile=options.keyfile) as server:
        if api.allow_edit and not given_token(options):
            say(f"token for edits: {api.token}")
        yield served, server


def app_of(served: Served, options: ServerOptions, api: ApiOptions) -> ChunkApp:
    """The app that serves volumes, with the addresses of a model server where models are among them."""
    from chunkloom.serving.app import ENCODED_BYTES, create_app

    encoded_bytes = ENCODED_BYTES if options.cache_encoded is None else options.cache_encoded
    if not served.models:
        return create_app(served.volumes, codec=options.codec, encoded_bytes=encoded_bytes, api=api)
    from chunkloom.serving.model_server import create_model_app

    return create_model_app(
        served.volumes,
        served.models,
        dashboard=dashboard_of_environment(),
        codec=options.codec,
        encoded_bytes=encoded_bytes,
        api=api,
    )


def dashboard_of_environment() -> Dashboard:
    """Who started this server. Older dashboards do not say, but tell where they want the ready file."""
    from chunkloom.serving.protocol import Dashboard
    from chunkloom.settings import environment

    older = "CELLMAP_FLOW_READY_FILE" in os.environ and "CHUNKLOOM_READY_FILE" not in os.environ
    return Dashboard(environment("DASHBOARD_URL") or None, tolerant=older)


PREDICTION_BYTES = 16 << 30


def prediction_cache(options: ServerOptions) -> ChunkCache:
    """Where models' output is kept: of the size asked for, else 16 GiB or a quarter of free memory."""
    from chunkloom.engine.cache import ChunkCache
    from chunkloom.memory import free_memory

    asked = options.cache_predictions
    if asked is None:
        asked = bytes_of_environment("PREDICTION_CACHE_BYTES")
    return ChunkCache(min(PREDICTION_BYTES, (free_memory() or PREDICTION_BYTES) // 4) if asked is None else asked)


def bytes_of_environment(name: str) -> int | None:
    """The size that a variable gives, or None where it is not set."""
    from chunkloom.errors import ParameterError
    from chunkloom.settings import environment

    text = environment(name)
    if text is None:
        return None
    try:
        return parse_bytes(text)
    except ValueError:
        raise ParameterError(f"CHUNKLOOM_{name} is {text!r}: expected a size like 16GB, 1e9 or 0") from None


def disk_cache(options: ServerOptions) -> DiskCache | None:
    """Where chunks are kept on disk: in the folder `cache` of the user's own chunkloom files."""
    from chunkloom.engine.disk import DiskCache
    from chunkloom.settings import home

    return DiskCache(home() / "cache", options.cache_disk) if options.cache_disk else None


def api_options(options: ServerOptions) -> ApiOptions:
    """What the REST API allows, by the command line."""
    import secrets
    import socket

    from chunkloom.serving.access import ApiOptions, SourceRules, hosts_from_environment
    from chunkloom.serving.run import public_address

    token = given_token(options)
    if token is None and options.allow_edit:
        token = secrets.token_urlsafe(32)
    hosts = [*hosts_from_environment(), options.host]
    if options.host not in ("127.0.0.1", "localhost", "::1"):
        hosts += [socket.gethostname(), public_address()]
    return ApiOptions(
        allow_edit=options.allow_edit,
        token=token,
        sources=SourceRules.parse(options.allow_root),
        allow_code=options.allow_code,
        hosts=tuple(hosts),
    )


def given_token(options: ServerOptions) -> str | None:
    """The token of the command line or the environment."""
    from chunkloom.settings import environment

    return options.token if options.token is not None else environment("TOKEN") or None


def ready(server: VolumeServer, viewer: str | None = None) -> dict[str, Any]:
    """What the ready file says."""
    data: dict[str, Any] = {"url": server.url, "host": server.host, "port": server.port, "pid": os.getpid()}
    job = os.environ.get("LSB_JOBID") or os.environ.get("SLURM_JOB_ID")
    if job:
        data["job_id"] = job
    data["volumes"] = server.volumes()
    if server.folders():
        data["annotations"] = server.folders()
    if viewer:
        data["viewer"] = viewer
    return data


def announce(server: VolumeServer, options: ServerOptions, stdout: TextIO) -> None:
    """Print the address as older readers look for it: on `stdout`, unless that is for the ready data alone."""
    from chunkloom.jobs.ready import announce as printed

    printed(server.url, sys.stderr if options.ready_file == "-" else stdout)


@contextmanager
def ready_file(path: str | None, data: dict[str, Any], stdout: TextIO) -> Iterator[None]:
    """The ready file, there while the block runs."""
    from chunkloom.errors import ParameterError
    from chunkloom.jobs.ready import remove_ready_file, write_ready_file

    if path is None:
        yield
        return
    try:
        write_ready_file(path, data, stdout)
    except OSError as error:
        raise ParameterError(f"--ready-file {path}: cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        remove_ready_file(path)


def wait_for_signal() -> None:
    """Until a signal comes."""
    while True:  # one that another thread was given, or that came just before the wait, does not end a wait
        time.sleep(0.2)
