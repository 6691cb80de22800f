"""A Neuroglancer viewer of this process: its small web server, and the link a person opens.

The `neuroglancer` package serves the page and keeps page and Python state the same; chunks do not pass through it,
the page fetches them from the volumes' own servers. Neuroglancer is imported on first use: it is no part of the
start-up of a command that shows nothing.
"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from chunkloom.errors import ServerError
from chunkloom.viewer.bundle import HOW_TO_BUILD, built
from chunkloom.viewer.page import TYPES

if TYPE_CHECKING:
    import neuroglancer

    from chunkloom.viewer.annotations import AnnotationSpec
    from chunkloom.viewer.layers import LayerSpec

log = logging.getLogger(__name__)

# Neuroglancer's server holds viewers weakly: one that nobody keeps answers 404.
_kept: list[neuroglancer.Viewer] = []


def new_viewer(*, host: str = "127.0.0.1", port: int = 0) -> neuroglancer.Viewer:
    """A viewer with no layers, served on `port` of `host` (0: any free one).

    Its address holds an unguessable token. It is served for as long as the object is kept, and until `stop_viewer`.
    All viewers of a process share one web server.

    Raises
    ------
    ServerError
        The server cannot bind `host`, or already runs on another one.
    """
    import neuroglancer

    if neuroglancer.is_server_running():
        running = urlsplit(neuroglancer.server.get_server_url()).hostname
        if running != host:
            raise ServerError(f"the viewer's server runs on {running}, asked for {host}: call stop_viewer() first")
    else:
        neuroglancer.set_server_bind_address(host, port)
        _use_our_client()
    try:
        # Without credentials: a page that gets hold of the link must not be able to ask for the user's cloud tokens.
        return neuroglancer.Viewer(allow_credentials=False)
    except OSError as error:
        raise ServerError(f"the viewer's server cannot bind {host}: {error}") from error


def client_in_use() -> str:
    """Which Neuroglancer viewers show: "chunkloom", our own build of it, or "neuroglancer", the Python package's."""
    return "neuroglancer" if built("viewer") is None else "chunkloom"


def _use_our_client() -> None:
    """Serve our own build of Neuroglancer, where there is one; else the Python package's client is the page."""
    import neuroglancer

    folder = built("viewer")
    if folder is None:
        log.info("our build of Neuroglancer is not in this installation: %s", HOW_TO_BUILD)
        return
    neuroglancer.set_static_content_source(source=_Client(folder))


class _Client:
    """The files of a built client, by the names that it asks for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, name: str, query: str) -> tuple[bytes, str]:
        """A file and its type; the server answers 404 to a `ValueError`."""
        name = name or "index.html"
        path = self.folder / name
        if not re.fullmatch(r"[A-Za-z0-9_][\w.-]*", name) or not path.is_file():
            raise ValueError(f"no file {name}")
        return path.read_bytes(), TYPES.get(path.suffix, TYPES[""])


def viewer_link(
    layers: Sequence[LayerSpec],
    *,
    annotations: Sequence[AnnotationSpec] = (),
    host: str = "127.0.0.1",
    port: int = 0,
) -> str:
    """Show `layers`, and `annotations` over them, in a viewer of their own, and give its address, ``http://127.0.0.1:PORT/v/TOKEN/``.

    On all interfaces (``0.0.0.0``), the address names this machine, so that others can open it.

    The viewer is kept, and the link works, until `stop_viewer`.
    """
    from chunkloom.viewer.layers import show

    viewer = new_viewer(host=host, port=port)
    show(viewer, layers, annotations=annotations)
    _kept.append(viewer)
    link = urlsplit(str(viewer.get_viewer_url()))
    if host in ("0.0.0.0", "::"):
        link = link._replace(netloc=f"{socket.gethostname()}:{link.port}")
    return link.geturl()


def stop_viewer() -> None:
    """Stop the web server of this process's viewers; their links stop working. Nothing happens if none runs."""
    import sys

    if "neuroglancer" in sys.modules:
        import neuroglancer

        _kept.clear()
        neuroglancer.stop()
