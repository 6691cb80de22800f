"""Why a chunk could not be made, in words for whoever asked over HTTP: without the server's own paths.

Errors name files, as a person at the machine needs. A client is told the volume, the level and the chunk instead;
the whole message is in the server's log. Knows nothing of HTTP.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from chunkloom.engine.sources.dataset import DatasetVolume
from chunkloom.engine.volume import Volume, behind
from chunkloom.errors import ChunkloomError

MOST = 2000
# An absolute path of two names or more, and a drive's. Quotes and brackets end it, as text around it would.
_PATH = re.compile(r"""(?<![\w:/.~-])(?:~|[A-Za-z]:)?[/\\][^\s/\\'"`,;:()\[\]<>|]+(?:[/\\][^\s/\\'"`,;:()\[\]<>|]*)+""")

# The same in quotation marks, where it may hold spaces.
_QUOTED = re.compile(r"""(['"`])(?:~|[A-Za-z]:)?[/\\](?:(?!\1).)+\1""")


def stored_places(volume: Volume) -> tuple[str, ...]:
    """Where the stored arrays behind a volume lie: paths and URLs, the longest first."""
    places = {array.meta.path for part in behind(volume) if isinstance(part, DatasetVolume) for array in part.arrays}
    places |= {str(Path(place).resolve()) for place in places if "://" not in place}
    return tuple(sorted(places, key=len, reverse=True))


def reason(failure: BaseException) -> str:
    """The whole message, for the log."""
    text = str(failure) or "no reason given"
    return text if isinstance(failure, ChunkloomError) else f"{type(failure).__name__}: {text}"


def told(text: str, places: Sequence[str], name: str) -> str:
    """`text` for a client: `places` become the volume's name, and other paths of this machine are left out."""
    for place in _with_parents(places):
        text = text.replace(place, name)
    text = _PATH.sub("(a path)", _QUOTED.sub(r"\1(a path)\1", text))
    return text if len(text) <= MOST else text[: MOST - 1] + "…"


def _with_parents(places: Sequence[str]) -> Iterable[str]:
    """`places`, and the group each may lie in: messages name its documents too."""
    parents = {place.rstrip("/").rpartition("/")[0] for place in places}
    return [*places, *sorted((p for p in parents if p.count("/") > 1 and not p.endswith("/")), key=len, reverse=True)]
