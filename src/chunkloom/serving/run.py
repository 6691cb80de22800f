"""Running a chunk server: the port is bound first, so that the address is known before anything is told of it."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any, Self

from chunkloom.errors import ServerError

if TYPE_CHECKING:
    import uvicorn

    from chunkloom.serving.app import ChunkApp


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises `ServerError` naming what holds a taken port."""
    if not host:
        raise ServerError(
            "no address to listen on: expected one such as 127.0.0.1, or 0.0.0.0 for all of this machine's"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(512)
    except (OSError, OverflowError) as error:
        made.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise ServerError(
            f"cannot listen on {host} port {port}: {reason}: choose another with --port, or 0 for any free one"
        ) from error
    made.setblocking(False)
    return made


def public_address() -> str:
    """The address under which other machines reach this one: that of the interface the way out goes through.

    Sends nothing: a datagram socket that is connected only picks its interface. 127.0.0.1 where there is no way out.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("8.8.8.8", 53))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


class AppServer:
    """An ASGI app answering on a bound port, in a thread of this process.

    Use as a context manager: it answers inside, and is stopped outside.

    Parameters
    ----------
    listening
        From `bind`; any free port of 127.0.0.1 when left out.
    also
        A second such socket, to answer on too: `also_url`.
    """

    def __init__(
        self,
        app: Any,
        listening: socket.socket | None = None,
        also: socket.socket | None = None,
        *,
        certfile: str | None = None,
        keyfile: str | None = None,
    ) -> None:
        self.app = app
        self._socket = listening or bind("127.0.0.1", 0)
        self.host: str = self._socket.getsockname()[0]
        self.port: int = self._socket.getsockname()[1]
        scheme = "https" if certfile else "http"
        named = public_address() if self.host in ("0.0.0.0", "::") else self.host
        shown = f"[{named}]" if ":" in named else named
        self.url = f"{scheme}://{shown}:{self.port}"
        self._certfile, self._keyfile = certfile, keyfile
        self._sockets = [self._socket] if also is None else [self._socket, also]
        self.also_url = None if also is None else f"{scheme}://{shown}:{also.getsockname()[1]}"
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin answering; returns once it does."""
        import uvicorn

        config = uvicorn.Config(
            self.app,
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="on",
            timeout_graceful_shutdown=1,
            ssl_certfile=self._certfile,
            ssl_keyfile=self._keyfile,
        )
        self._server = uvicorn.Server(config)
        # Signals belong to whoever runs this server.
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": self._sockets}, name="chunkloom-server", daemon=True
        )
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                self.stop()
                raise ServerError(f"the server at {self.url} ended before it answered")
            self._thread.join(0.005)

    def stop(self) -> None:
        """Stop answering, free the port. May be called twice."""
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(10)
        for listening in self._sockets:
            listening.close()


class VolumeServer(AppServer):
    """A chunk server: `app` is from `create_app`, and its work is dropped when it stops."""

    app: ChunkApp

    def stop(self) -> None:
        """Stop answering, drop what waits, free the port. May be called twice."""
        super().stop()
        self.app.close()

    def volumes(self) -> list[dict[str, Any]]:
        """What is served, as the ready file lists it."""
        from chunkloom.serving.app import WORDS

        listed = []
        for name, served in self.app.volumes.items():
            level = served.volume.levels[0]
            listed.append(
                {
                    "name": name,
                    "shape": list(level.shape),
                    "dtype": level.dtype.name,
                    "digest": served.digest,
                    "urls": {word: f"{self.url}/{name}/{word}" for word in WORDS},
                }
            )
        return listed

    def folders(self) -> list[dict[str, str]]:
        """What is served beside volumes: names and addresses."""
        from chunkloom.serving.folders import WORD

        return [{"name": name, "url": f"{self.url}/{name}/{WORD}"} for name in self.app.folders]
