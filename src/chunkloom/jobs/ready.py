"""How a server says where it is: a ready file, and a printed marker.

The file appears whole, once the port is bound and answers.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, TextIO

from chunkloom.errors import ParameterError

MARKER = "CELLMAP_FLOW_SERVER_IP("
MARKER_END = ")CELLMAP_FLOW_SERVER_IP"


def write_ready_file(path: str, data: dict[str, Any], stdout: TextIO) -> None:
    """Write `data` as JSON at `path`, whole or not at all; "-" prints it on `stdout` as one line."""
    if path == "-":
        print(json.dumps(data, separators=(",", ":")), file=stdout, flush=True)
        return
    target = Path(path)
    if os.path.lexists(target) and (target.is_symlink() or not target.is_file()):
        raise ParameterError(f"--ready-file {path}: is there and no plain file: name another, or - to print it")
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(json.dumps(data, indent=2) + "\n")
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def remove_ready_file(path: str) -> None:
    """Remove the file if it is still there and this process's own: readers delete it too, and others write theirs."""
    if path != "-":
        with contextlib.suppress(OSError, ValueError):
            if json.loads(Path(path).read_text()).get("pid") == os.getpid():
                os.unlink(path)


def announce(url: str, stream: TextIO) -> None:
    """Print the address between the markers that older readers look for."""
    print(f"{MARKER}{url}{MARKER_END}", file=stream, flush=True)
