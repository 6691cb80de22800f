"""The command `chunkloom`. Modules here import nothing slow before a command runs, so that `--help` answers at once."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from typing import NoReturn

import click

from chunkloom import __version__
from chunkloom.cli.app import app
from chunkloom.cli.blockwise import blockwise
from chunkloom.cli.dashboard import dashboard, view
from chunkloom.cli.demo import demo
from chunkloom.cli.doctor import doctor
from chunkloom.cli.infer import infer
from chunkloom.cli.inspect import inspect
from chunkloom.cli.materialize import materialize
from chunkloom.cli.models import models
from chunkloom.cli.network import network
from chunkloom.cli.ops import ops
from chunkloom.cli.plugins import plugins
from chunkloom.cli.serve import serve
from chunkloom.cli.session import yaml
from chunkloom.errors import CancelledWorkError, ChunkError, ChunkloomError, ChunkReadError, WriteError

DONE, FAILED, BAD_INPUT = 0, 1, 2


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="chunkloom")
def commands() -> None:
    """Shows, computes and keeps chunked volumes: open one, run a model over it, look at the result."""
    from chunkloom.models.older_imports import older_imports
    from chunkloom.plugins import load_plugins

    # stdout is for what other programs read.
    with contextlib.redirect_stdout(sys.stderr):
        load_plugins(older_imports)


for command in (
    *(app, blockwise, dashboard, demo, doctor, infer, inspect, materialize, models, network),
    *(ops, plugins, serve, view, yaml),
):
    commands.add_command(command)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 the work failed, 2 bad input, 128 + n on signal n."""
    # One BLAS thread: chunks are made side by side, and numpy imports in half the time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    leave(run(arguments))


def run(arguments: list[str] | None) -> int:
    """The exit code of a command line; what went wrong is one line on stderr."""
    try:
        code = commands.main(arguments, prog_name="chunkloom", standalone_mode=False)
        return code if isinstance(code, int) else DONE
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else DONE if ended.code is None else FAILED
    except (click.exceptions.Abort, KeyboardInterrupt):
        return 130
    except click.ClickException as error:
        return told(error.format_message(), BAD_INPUT)
    except (ChunkReadError, ChunkError, WriteError, CancelledWorkError) as error:
        return told(str(error), FAILED)
    except ChunkloomError as error:
        return told(str(error), BAD_INPUT)
    except BaseException as error:
        if os.environ.get("CHUNKLOOM_TRACEBACK"):
            raise
        reason = f"{type(error).__name__}: {error}"
        return told(f"unexpected: {reason} (CHUNKLOOM_TRACEBACK=1 shows where; please report it)", FAILED)


def told(message: str, code: int) -> int:
    """The code, after one line that says what is wrong."""
    print("chunkloom: " + " ".join(message.split()), file=sys.stderr, flush=True)
    return code


def leave(code: int) -> NoReturn:
    """Exit, also when a model script started a thread that never ends."""
    if all(t.daemon or t is threading.main_thread() for t in threading.enumerate()):
        sys.exit(code)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
