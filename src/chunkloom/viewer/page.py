"""A folder of static files as a web page of this machine, isolated so that it may use threads.

Knows nothing of what the page is for: volumes and chunks do not pass through here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from chunkloom.errors import ServerError

# Shared memory, and with it threads in WebAssembly, is only for pages that let nobody else in.
ISOLATED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
TYPES = {
    "": "application/octet-stream",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".md": "text/plain; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
}


class _Files(SimpleHTTPRequestHandler):
    """Files of one folder; no listings."""

    protocol_version = "HTTP/1.1"
    extensions_map = TYPES

    def list_directory(self, path: Any) -> None:
        self.send_error(404)

    def end_headers(self) -> None:
        # Names of built files say what is in them; the others may change with the next installation.
        kept = self.path.split("?")[0].startswith("/assets/")
        self.send_header("Cache-Control", "max-age=31536000, immutable" if kept else "no-cache")
        for name, value in ISOLATED.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: stdout and stderr are for the person."""


@contextmanager
def page_served(folder: Path, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """The address of a page while the block runs.

    Parameters
    ----------
    folder
        Its ``index.html`` and all that belongs to it.
    host, port
        Where to answer; port 0 is any free one.

    Raises
    ------
    ServerError
        The address cannot be listened on.
    """
    try:
        server = ThreadingHTTPServer((host, port), partial(_Files, directory=str(folder)))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ServerError(
            f"cannot listen on {host} port {port}: {reason}: choose another with --port, or 0 for any free one"
        ) from error
    server.daemon_threads = True
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="chunkloom-page", daemon=True
    )
    thread.start()
    try:
        yield f"http://{host}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
