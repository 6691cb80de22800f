"""Asking a scheduler's commands, with a time limit and out of reach of the terminal's Ctrl-C."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chunkloom.errors import ChunkloomError

ASK_TIMEOUT_S = 30.0


class NoAnswerError(ChunkloomError, OSError):
    """A scheduler's command is not there, or did not end in time."""

    __str__ = Exception.__str__


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit code."""

    code: int
    stdout: str
    stderr: str

    @property
    def said(self) -> str:
        """Its last words, for a message."""
        return " ".join((self.stderr.strip() or self.stdout.strip()).split())[-500:] or "nothing"


def ask(argv: Sequence[str], *, timeout: float | None = ASK_TIMEOUT_S, env: Mapping[str, str] | None = None) -> Answer:
    """Run a command to its end.

    Raises
    ------
    NoAnswerError
        There is no such command, or it did not end in `timeout` seconds (and was ended).
    """
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env=None if env is None else {**os.environ, **env},
            # In a session of its own: a Ctrl-C must not cut off a submission half way.
            start_new_session=True,
        )
    except OSError as error:
        raise NoAnswerError(f"{argv[0]}: cannot be run: {error.strerror or error}") from error
    with process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            _end(process)
            raise NoAnswerError(f"{argv[0]}: no answer in {timeout:g} s") from error
        except BaseException:
            _end(process)
            raise
    return Answer(process.returncode, out, err)


def _end(process: subprocess.Popen[str]) -> None:
    """End the command and what it started, which may hold its pipes open."""
    try:
        os.killpg(process.pid, 9)
    except ProcessLookupError:
        process.kill()
    process.wait()
