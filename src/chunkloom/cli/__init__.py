"""The command `chunkloom`. Modules here import nothing slow before a command runs, so that `--help` answers at once."""

from __future__ import annotations

import os
import sys

import click

from chunkloom import __version__
from chunkloom.cli.demo import demo
from chunkloom.cli.infer import infer
from chunkloom.cli.inspect import inspect
from chunkloom.cli.materialize import materialize
from chunkloom.cli.network import network
from chunkloom.cli.ops import ops
from chunkloom.cli.serve import serve
from chunkloom.errors import CancelledWorkError, ChunkError, ChunkloomError, ChunkReadError, WriteError

DONE, FAILED, BAD_INPUT = 0, 1, 2


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="chunkloom")
def commands() -> None:
    """Shows, computes and keeps chunked volumes: open one, run a model over it, look at the result."""


for command in (demo, inspect, ops, serve, infer, materialize, network):
    commands.add_command(command)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 the work failed, 2 bad input, 128 + n on signal n."""
    # One BLAS thread: chunks are made side by side, and numpy imports in half the time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        code = commands.main(arguments, prog_name="chunkloom", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else DONE)
    except (click.exceptions.Abort, KeyboardInterrupt):
        sys.exit(130)
    except click.ClickException as error:
        fail(error.format_message())
    except (ChunkReadError, ChunkError, WriteError, CancelledWorkError) as error:
        fail(str(error), FAILED)
    except ChunkloomError as error:
        fail(str(error))


def fail(message: str, code: int = BAD_INPUT) -> None:
    """End with one line that says what is wrong."""
    print("chunkloom: " + " ".join(message.split()), file=sys.stderr, flush=True)
    sys.exit(code)
