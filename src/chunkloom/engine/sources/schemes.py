"""Sources of volumes by the scheme of their address: `myscheme://…`. A plug-in adds one by being imported."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from chunkloom.engine.volume import Volume
from chunkloom.errors import ParameterError

BUILT_IN = ("synthetic", "http", "https", "s3", "gs", "file")


class Source(ABC):
    """Volumes behind addresses of one scheme. A subclass is known from when it was made; nothing registers it.

    Attributes
    ----------
    scheme
        What stands before `://`: lower-case letters and digits. Those of chunkloom itself cannot be taken.
    """

    scheme: ClassVar[str] = ""

    @classmethod
    @abstractmethod
    def open(cls, address: str) -> Volume:
        """The volume at `address`, the scheme included.

        Raises
        ------
        ChunkloomError
            In words for whoever gave the address.
        """


def known_sources() -> dict[str, type[Source]]:
    """Every source that was imported, by its scheme."""
    found: dict[str, type[Source]] = {}
    waiting: list[type[Source]] = [*Source.__subclasses__()]
    while waiting:
        cls = waiting.pop()
        waiting.extend(cls.__subclasses__())
        if cls.scheme and cls.scheme not in BUILT_IN:
            found[cls.scheme] = cls
    return dict(sorted(found.items()))


def open_by_scheme(address: str) -> Volume | None:
    """The volume of a source that a plug-in knows; None where the scheme is none of theirs."""
    scheme, separator, _ = address.partition("://")
    source = known_sources().get(scheme.lower()) if separator else None
    if source is None:
        return None
    made = source.open(address)
    if not isinstance(made, Volume):
        raise ParameterError(f"source {source.scheme}:// gave a {type(made).__name__} for {address}: expected a Volume")
    return made
