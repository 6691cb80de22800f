"""The command line of a model server, for a job or a process of its own. Starts nothing."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from chunkloom.errors import ParameterError
from chunkloom.models.kinds import ModelConfig
from chunkloom.settings import environment


def server_words() -> list[str]:
    """The command that serves: the words of `$CHUNKLOOM_SERVER_COMMAND`, else this Python's own `chunkloom serve`."""
    named = environment("SERVER_COMMAND")
    if not named:
        # -P: the folder that a job happens to start in is no place to import from.
        return [sys.executable, "-P", "-m", "chunkloom", "serve"]
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise ParameterError(f"CHUNKLOOM_SERVER_COMMAND {named!r} is not a command line: {error}") from error
    if not words:
        raise ParameterError(f"CHUNKLOOM_SERVER_COMMAND {named!r} is empty: expected one like 'chunkloom serve'")
    return words


def server_argv(model: ModelConfig, data: str, *, resample: bool | None = None) -> list[str]:
    """The words of a command that serves a model over `data`."""
    return entry_argv(model.to_dict(), data, resample=resample)


def server_argv_for(kind: str, parameters: Mapping[str, Any], data: str, *, resample: bool | None = None) -> list[str]:
    """The same from a kind's word and its parameters; the model is not made, so nothing is read or downloaded."""
    entry = {"type": kind, **{name: value for name, value in parameters.items() if value is not None}}
    return entry_argv(entry, data, resample=resample)


def entry_argv(entry: Mapping[str, Any], data: str, *, resample: bool | None = None) -> list[str]:
    """The same from a model entry."""
    try:
        text = json.dumps(entry, separators=(",", ":"), allow_nan=False, default=str)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"model entry {entry!r} holds what JSON cannot: {error}") from error
    words = [*server_words(), "--model", text, "-d", data]
    return words if resample is None else [*words, "--resample" if resample else "--no-resample"]


def server_environment(dashboard_url: str | None = None) -> dict[str, str]:
    """What the environment of the server must say besides: who started it."""
    return {} if dashboard_url is None else {"CHUNKLOOM_DASHBOARD_URL": dashboard_url}


def shell_line(argv: list[str]) -> str:
    """The words as one line for ``bash -c``, quoted with double quotes only.

    LSF puts the line between single quotes once more.

    Raises
    ------
    ParameterError
        A word that holds a single quote, a line break or NUL: no quoting gets it through.
    """
    return " ".join(_quoted(word) for word in argv)


def server_command(model: ModelConfig, data: str, *, resample: bool | None = None) -> str:
    """`server_argv` as one line."""
    return shell_line(server_argv(model, data, resample=resample))


def _quoted(word: str) -> str:
    for bad, called in (("'", "a single quote"), ("\n", "a line break"), ("\r", "a line break"), ("\0", "NUL")):
        if bad in word:
            raise ParameterError(f"{word!r} holds {called}, which cannot be given to a job: name the file otherwise")
    if word and all(letter.isalnum() or letter in "-_./:=,@%+" for letter in word) and word.isascii():
        return word
    escaped = "".join(f"\\{letter}" if letter in '\\"$`' else letter for letter in word)
    return f'"{escaped}"'
