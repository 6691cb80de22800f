"""A Neuroglancer viewer of this process: its small web server, and the link a person opens.

The `neuroglancer` package serves the page and keeps page and Python state the same; chunks do not pass through it,
the page fetches them from the volumes' own servers. Neuroglancer is imported on first use: it is no part of the
start-up of a command that shows nothing.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from chunkloom.errors import ServerError

if TYPE_CHECKING:
    import neuroglancer

    from chunkloom.viewer.annotations import AnnotationSpec
    from chunkloom.viewer.layers import LayerSpec

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
    try:
        # Without credentials: a page that gets hold of the link must not be able to ask for the user's cloud tokens.
        return neuroglancer.Viewer(allow_credentials=False)
    except OSError as error:
        raise ServerError(f"the viewer's server cannot bind {host}: {error}") from error


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
