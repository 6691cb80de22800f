"""What a network file refuses or fails at, each also the built-in it resembles."""

from __future__ import annotations

from chunkloom.errors import ChunkloomError, FormatError, ParameterError, WriteError

__all__ = [
    "ChunkloomError",
    "FormatError",
    "LockedError",
    "MissingDataError",
    "NetworkExistsError",
    "NetworkNotFoundError",
    "ParameterError",
    "RankError",
    "SetExistsError",
    "SetNotFoundError",
    "WriteError",
]


class NetworkNotFoundError(ChunkloomError, FileNotFoundError):
    """There is no network file at the path, or no such file, morphology or dataset in it."""

    __str__ = Exception.__str__


class NetworkExistsError(ChunkloomError, FileExistsError):
    """Something is already stored under that path or name, and overwriting was not asked for."""

    __str__ = Exception.__str__


class SetNotFoundError(ChunkloomError, KeyError):
    """A placement or connectivity set that the file does not have."""

    __str__ = Exception.__str__


class SetExistsError(ChunkloomError, ValueError):
    """A placement or connectivity set that is there already, or with other cell types."""


class MissingDataError(ChunkloomError, LookupError):
    """Some of the cells asked for have no such data (rotations, morphologies, an additional key)."""


class RankError(ChunkloomError, IndexError):
    """A cell's rank, or a mask, that does not fit the set it is used on."""


class LockedError(ChunkloomError, TimeoutError):
    """Another process or thread writes to the file, and did not finish within the time allowed."""

    __str__ = Exception.__str__
