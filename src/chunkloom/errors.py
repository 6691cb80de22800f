"""Every error a user can meet, in one tree.

Each class is also the built-in it resembles, so that `except FileNotFoundError` works. A message says what was
asked for, what was found, what was expected and what to do; the command line prints it as one line.
"""

from __future__ import annotations


class ChunkloomError(Exception):
    """Anything chunkloom refuses or fails at. The message is written for the person who asked."""


class VolumeNotFoundError(ChunkloomError, FileNotFoundError):
    """There is nothing at the path, or what is there is not a volume."""

    # FileNotFoundError prints (errno, strerror) pairs; ours is a sentence.
    __str__ = Exception.__str__


class FormatError(ChunkloomError, ValueError):
    """Stored metadata or a stored chunk breaks its format's rules, or uses what cannot be read."""


class ChunkReadError(ChunkloomError, OSError):
    """A chunk that should be there could not be read. Never answered with fill values."""

    __str__ = Exception.__str__


class AccessError(ChunkloomError, PermissionError):
    """A place refuses to be read (403, or the rights of a file)."""

    __str__ = Exception.__str__


class ParameterError(ChunkloomError, ValueError):
    """A name, parameter or option that does not exist or does not fit."""


class ConfigError(ParameterError):
    """A configuration file that cannot be used; the message names the file, the line and the key."""


class ModelError(ChunkloomError, ValueError):
    """A model cannot be loaded, or does not do what it declares."""


class ServerError(ChunkloomError, OSError):
    """A server cannot start, for example because its port is taken."""

    __str__ = Exception.__str__


class ChunkError(ChunkloomError, RuntimeError):
    """A chunk of a volume could not be made; the message names it and says why."""


class WriteError(ChunkloomError, OSError):
    """Something could not be written: a full disk, a folder without rights, a bucket that refuses."""

    __str__ = Exception.__str__


class ConflictError(ChunkloomError, FileExistsError):
    """A target holds something else already, or another run is writing it."""

    __str__ = Exception.__str__


class CancelledWorkError(ChunkloomError):
    """Work given up because nobody waits for it any more. Not a failure."""


class YieldedWorkError(CancelledWorkError):
    """Long work put back in the queue, because something that should come before it waits."""


class MissingExtraError(ChunkloomError, ImportError):
    """An optional package is needed. The message ends with the command that installs it."""


def nearest(name: str, known: list[str] | tuple[str, ...]) -> str:
    """A hint with the name most like `name`, or all of them: the last part of an "unknown …" message."""
    import difflib

    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}? Known: {', '.join(sorted(known))}"
    return f"known: {', '.join(sorted(known))}"
