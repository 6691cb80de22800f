"""Starting a model server for the dashboard and following it until it answers, fails or is stopped."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from chunkloom.errors import ServerError

PATIENCE_S = 300.0


@dataclass(eq=False)
class LocalServer:
    """A model server as a process of this machine."""

    name: str
    argv: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="chunkloom-model-")))
    process: subprocess.Popen[bytes] | None = None

    @property
    def log_file(self) -> Path:
        return self.folder / "log.txt"

    def start(self) -> str:
        """Start it, and return its address once it answers.

        Raises
        ------
        ServerError
            It ended first (with the last lines it wrote), or took too long.
        """
        ready = self.folder / "ready.json"
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [*self.argv, "--ready-file", str(ready)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **self.environment},
            )
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            if ready.exists():
                return str(json.loads(ready.read_text())["url"])
            if self.process.poll() is not None:
                raise ServerError(self.last_words() or f"it ended with exit code {self.process.returncode}")
            time.sleep(0.05)
        self.stop()
        raise ServerError(f"it did not answer within {PATIENCE_S:.0f} s")

    def last_words(self) -> str:
        """The last line it wrote, which is the reason where it failed."""
        lines = self.tail(20)
        return lines[-1].removeprefix("chunkloom: ") if lines else ""

    def tail(self, lines: int = 200) -> list[str]:
        """The end of its output."""
        try:
            return self.log_file.read_text(errors="replace").splitlines()[-lines:]
        except OSError:
            return []

    @property
    def ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def stop(self) -> None:
        """End it and all it started: politely, then not."""
        if self.process is None:
            return
        for number, patience in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience)
                return
