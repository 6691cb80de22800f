"""What state files are in: a short text that changes when one of them is written anew.

Looking costs a system call a file, so what was seen counts for a moment, the longer the more it took. Knows paths, not
what is in them.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Hashable, Iterable, Sequence

FRESH_S = 1.0
"""For how long what was seen counts, at the least."""
SHARE = 100
"""Looking takes at most one part in so many of the time."""
MOST = 100_000
"""Texts kept."""


class FileStates:
    """The states of groups of files, each looked at now and then. Safe to use from threads."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, tuple[str, float]] = {}

    def of(self, group: Hashable, files: Callable[[], Iterable[str]]) -> str:
        """The state of the files of `group`, as it was a moment ago."""
        seen = self.seen(group)
        if seen is not None:
            return seen
        began = time.monotonic()
        text = state_of(files())
        ended = time.monotonic()
        if len(self._seen) >= MOST:
            self._seen.clear()
        self._seen[group] = (text, ended + max(FRESH_S, SHARE * (ended - began)))
        return text

    def seen(self, group: Hashable) -> str | None:
        """What was seen of a group a moment ago; None where that is too long ago."""
        seen = self._seen.get(group)
        return seen[0] if seen is not None and time.monotonic() < seen[1] else None

    def forget(self) -> None:
        """Look again at the next question."""
        self._seen.clear()


def state_of(files: Iterable[str]) -> str:
    """Time and size of one file ("missing" where there is none), or a digest of those of several."""
    return together([_state(file) for file in files])


def together(states: Sequence[str]) -> str:
    """One text for several states; that of a single one is itself."""
    if len(states) <= 1:
        return "".join(states)
    return hashlib.blake2b("|".join(states).encode(), digest_size=12).hexdigest()


def _state(file: str) -> str:
    try:
        found = os.stat(file)
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"error-{error.errno}"
    return f"{found.st_mtime_ns}-{found.st_size}"
