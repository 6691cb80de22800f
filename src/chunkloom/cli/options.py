"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_bytes(text: str) -> int:
    """A number of bytes as written: `2GB`, `512MiB`, `1e9`, `0`. Raises `ValueError` for anything else."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:e\d{1,2})?)\s*(?:([KMGT])(i?)B?|B)?\s*", text, re.IGNORECASE)
    if match is None:
        raise ValueError(text)
    unit = (match[2] or "").upper()
    return int(float(match[1]) * (_BINARY[unit] if match[3] else _UNITS[unit]))


class Bytes(click.ParamType[int]):
    """A number of bytes: `2GB`, `512MiB`, `0`."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_bytes(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a size: expected one like 2GB, 512MiB or 0", param, ctx)


class Selection(click.ParamType[dict[str, int]]):
    """Positions on axes: `c=1,t=0`."""

    name = "axis=n,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, int]:
        if isinstance(value, dict):
            return value
        chosen = {}
        for part in str(value).split(","):
            match = re.fullmatch(r"\s*([A-Za-z]\w*)\s*=\s*(\d+)\s*", part)
            if match is None:
                self.fail(f"{value!r} is not a selection: expected one like c=1,t=0", param, ctx)
            chosen[match[1]] = int(match[2])
        return chosen


class Triple(click.ParamType[tuple[int, ...]]):
    """Three whole numbers z, y, x, or one for all axes: `64,64,64`, `64`."""

    name = "z,y,x"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        parts = re.split(r"\s*[,x]\s*", str(value).strip())
        if len(parts) not in (1, 3) or not all(part.isdigit() and int(part) > 0 for part in parts):
            self.fail(f"{value!r} is not a shape: expected three whole numbers like 64,64,64, or one", param, ctx)
        numbers = tuple(int(part) for part in parts)
        return numbers * 3 if len(numbers) == 1 else numbers


LOG_LEVELS = click.Choice(["debug", "info", "warning", "error"], case_sensitive=False)


def server_options(function: F) -> F:
    """Where and how to serve."""
    options = [
        click.option("--host", help="Address to listen on. Default: 127.0.0.1; all interfaces in a job."),
        click.option("-p", "--port", type=click.IntRange(0, 65535), default=0, help="Port; 0 is any free one."),
        click.option(
            "--ready-file", metavar="FILE", help="Write where the server is to FILE once it answers; - prints it."
        ),
        click.option(
            "--codec",
            type=click.Choice(["none", "zstd", "blosc", "gzip"]),
            help="How served chunks are packed. Default: as they are stored, else zstd.",
        ),
        click.option("--chunk", type=Triple(), help="Chunk shape of computed volumes."),
        click.option("--select", type=Selection(), help="A position on axes not wanted whole, such as c=1,t=0."),
        click.option(
            "--cache-decoded",
            type=Bytes(),
            metavar="SIZE",
            help="Memory for data read and computed, such as 2GB. [CHUNKLOOM_RAW_CACHE_BYTES]",
        ),
        click.option("--cache-encoded", type=Bytes(), metavar="SIZE", help="Memory for answers, such as 512MiB."),
        click.option(
            "--cache-predictions",
            type=Bytes(),
            metavar="SIZE",
            help="Memory for models' output, before postprocessing. [CHUNKLOOM_PREDICTION_CACHE_BYTES]",
        ),
        click.option("--certfile", metavar="FILE", help="Serve over HTTPS with this certificate (PEM)."),
        click.option("--keyfile", metavar="FILE", help="The certificate's key, where it is not in the same file."),
        click.option(
            "--allow-edit", is_flag=True, help="Let holders of the token make, replace and delete volumes over /api."
        ),
        click.option(
            "--token", metavar="TOKEN", help="The token that edits need; one is made when left out. [CHUNKLOOM_TOKEN]"
        ),
        click.option(
            "--allow-root",
            multiple=True,
            metavar="PLACE",
            help="A folder or URL below which sources may be opened over /api. Again for more.",
        ),
        click.option(
            "--allow-code", is_flag=True, help="Let holders of the token run Python code here: ops and models of it."
        ),
        click.option(
            "--cache-disk",
            type=Bytes(),
            metavar="SIZE",
            help="Disk for chunks that take long (coarse levels, predictions), kept when the server ends.",
        ),
        click.option("--log-level", type=LOG_LEVELS, default="warning", show_default=True, help="How much to tell."),
    ]
    for option in reversed(options):
        function = option(function)
    return function
