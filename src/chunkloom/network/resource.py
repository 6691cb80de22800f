"""What every resource of a network file is: a path inside the file, and the file. Knows nothing of chunks."""

from __future__ import annotations

import contextlib
from typing import Protocol

from chunkloom.network.access import ReadHandle, WriteHandle
from chunkloom.network.errors import ParameterError


class Network(Protocol):
    """What resources need of a network file."""

    def reading(self) -> contextlib.AbstractContextManager[ReadHandle]: ...

    def writing(self) -> contextlib.AbstractContextManager[WriteHandle]: ...


class Resource:
    """A group of a network file that has a meaning of its own.

    Parameters
    ----------
    network : NetworkFile
        The file it is in.
    path : str
        Its group, "<root>/<name>".
    """

    def __init__(self, network: Network, path: str) -> None:
        self.network = network
        self._path = path

    @property
    def path(self) -> str:
        return self._path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resource) and (self.network, self._path) == (other.network, other._path)

    def __hash__(self) -> int:
        return hash((id(self.network), self._path))


def checked_name(name: str, what: str) -> str:
    """A name that can be one group of the file.

    Raises
    ------
    ParameterError
        It is empty, is "." or contains "/", which would nest groups.
    """
    if not name or "/" in name or name in (".", ".."):
        raise ParameterError(f"{what} {name!r}: a name cannot be empty, '.', or contain '/'")
    return name
