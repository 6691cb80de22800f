"""Where chunkloom keeps its own files, and the environment variables it reads.

`CHUNKLOOM_X` is ours; the older `CELLMAP_FLOW_X` is read when ours is not set.
"""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """Folder of the user's own chunkloom files: `$CHUNKLOOM_HOME`, else `~/.chunkloom`. Not created here."""
    named = os.environ.get("CHUNKLOOM_HOME")
    return Path(named) if named else Path.home() / ".chunkloom"


def environment(name: str, default: str | None = None) -> str | None:
    """`$CHUNKLOOM_<name>`, else the older `$CELLMAP_FLOW_<name>`, else `default`."""
    for prefix in ("CHUNKLOOM_", "CELLMAP_FLOW_"):
        value = os.environ.get(prefix + name)
        if value is not None:
            return value
    return default
