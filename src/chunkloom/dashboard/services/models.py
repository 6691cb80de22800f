"""The models that run: one server for each model and data, shared by the sessions that look at it.

A server computes any chain: the chain is part of a layer's address. So sessions share servers and never see each
other's settings.
"""

from __future__ import annotations

import json
import logging
import threading
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from chunkloom.chain.spec import PipelineSpec, chain_is_segmentation
from chunkloom.chain.steps import PostProcessor
from chunkloom.dashboard.logs import as_session
from chunkloom.dashboard.services.launching import ServerJob
from chunkloom.dashboard.services.layers import redraw
from chunkloom.dashboard.sessions import Session
from chunkloom.engine.sources import open_volume
from chunkloom.engine.volume import Kind
from chunkloom.errors import ChunkloomError, ParameterError, ServerError
from chunkloom.serving.launch import entry_argv, server_environment
from chunkloom.serving.probe import output_display_range
from chunkloom.serving.protocol import MODEL_INFO, layer_name
from chunkloom.viewer.layers import LayerSpec

if TYPE_CHECKING:
    import numpy as np

    from chunkloom.dashboard.state import Context

State = Literal["starting", "running", "failed", "stopped"]

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Server:
    """One process that computes one model over one volume."""

    key: str
    job: ServerJob | None
    dashboard_url: str
    users: set[str] = field(default_factory=set)
    url: str | None = None
    info: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    answered: threading.Event = field(default_factory=threading.Event)

    def tail(self, lines: int = 200) -> list[str]:
        """The end of its output; nothing of a server of this process."""
        return [] if self.job is None else self.job.tail(lines)


@dataclass(eq=False)
class RunningModel:
    """A model of a session."""

    name: str
    entry: dict[str, Any]
    server: Server
    stopped: bool = False

    @property
    def url(self) -> str | None:
        """Where its server answers; None while it does not."""
        return None if self.stopped else self.server.url

    @property
    def state(self) -> State:
        if self.stopped:
            return "stopped"
        if self.server.error is not None:
            return "failed"
        if self.server.url is None:
            return "starting"
        return "running"

    def layer(self, session: Session, color: str) -> LayerSpec:
        """The layer of its prediction under the session's chain. Raises `ChunkloomError` where it cannot be shown."""
        told = f"{self.server.dashboard_url}/equivalences/{session.equivalence_token}"
        segment = layer_name(self.server.info["name"], session.resolved, dashboard_url=told)
        url = f"{self.server.url}/{segment}/zarr"
        volume = open_volume(url)
        _, postprocess = session.resolved.build()
        kind = kind_of_output(postprocess, volume.levels[0].dtype)
        spec = LayerSpec.of_volume(volume, name=self.name, url=url, color=color)
        shown = output_display_range(session.resolved.postprocess, self.server.info.get("output_class"))
        if kind == "image" and shown is not None and volume.levels[0].dtype.kind == "f":
            spec = replace(spec, display_range=shown)
        return replace(spec, kind=kind, color=None if kind == "labels" else color)

    def described(self) -> dict[str, Any]:
        """For the page."""
        return {
            "name": self.name,
            "entry": self.entry,
            "state": self.state,
            "error": self.server.error,
            "info": self.server.info or None,
        }


class ModelPool:
    """Starts, shares and stops model servers."""

    def __init__(self, run_on: str = "auto") -> None:
        self.run_on = run_on
        self._lock = threading.Lock()
        self._servers: dict[str, Server] = {}
        self._closed = False
        self._context: Context | None = None
        # As model servers reach it; known once it listens.
        self.dashboard_url = ""

    def attach(self, context: Context) -> None:
        """The dashboard it works for."""
        self._context = context

    def adopt(self, name: str, entry: dict[str, Any], data_path: str, url: str) -> None:
        """Count on a server that this process runs itself: sessions that start this model over this data share it."""
        server = Server(_key(entry, data_path), None, self.dashboard_url, url=url)
        server.info = _model_info(url, name)
        server.answered.set()
        self._servers[server.key] = server

    def start(self, session: Session, entry: dict[str, Any]) -> RunningModel:
        """Run a model over the session's data; returns at once, and the layer appears when it answers.

        Raises
        ------
        ParameterError
            No data is open, or the entry is no model.
        """
        from chunkloom.models.registry import build_model

        if session.data_path is None:
            raise ParameterError("no data is open: open a volume first")
        build_model(entry)
        name = str(entry.get("name") or entry.get("type"))
        server = self._server(entry, session.data_path, session)
        running = RunningModel(name, entry, server)
        session.models[name] = running
        session.removed.discard(f"prediction:{name}")
        threading.Thread(target=self._follow, args=(session, running), name=f"start-{name}", daemon=True).start()
        return running

    def stop(self, session: Session, name: str) -> None:
        """Stop a model of the session, and its server if nobody else looks at it."""
        running = session.models.pop(name, None)
        if running is None:
            return
        running.stopped = True
        self._leave(running.server, session)
        redraw(session)
        log.info("stopped %s", name)

    def sync(self, session: Session, entries: list[dict[str, Any]]) -> None:
        """Start and stop so that exactly these run. What runs already, and did not fail, is left alone."""
        wanted = {str(entry.get("name") or entry.get("type")): entry for entry in entries}
        for name, running in list(session.models.items()):
            if wanted.get(name) != running.entry or running.state == "failed":
                self.stop(session, name)
        for name, entry in wanted.items():
            if name not in session.models:
                self.start(session, entry)

    def data_changed(self, session: Session) -> None:
        """Run the session's models over its new data."""
        entries = [running.entry for running in session.models.values()]
        for name in list(session.models):
            self.stop(session, name)
        for entry in entries:
            self.start(session, entry)

    def listed(self, session: Session) -> list[dict[str, Any]]:
        """The session's models, for the page."""
        return [running.described() for running in list(session.models.values())]

    def logs(self, session: Session) -> dict[str, list[str]]:
        """The ends of their outputs."""
        return {name: running.server.tail() for name, running in list(session.models.items())}

    def close(self) -> None:
        """Stop every server, those that are still starting too."""
        with self._lock:
            self._closed = True
            servers, self._servers = list(self._servers.values()), {}
        for server in servers:
            if server.job is not None:
                server.job.stop()

    def _server(self, entry: dict[str, Any], data_path: str, session: Session) -> Server:
        key = _key(entry, data_path)
        with self._lock:
            if self._closed:
                raise ServerError("the dashboard is closing")
            server = self._servers.get(key)
            if server is None or server.error is not None or (server.job is not None and server.job.ended):
                argv = entry_argv(entry, data_path)
                job = ServerJob(str(entry.get("name")), argv, server_environment(self.dashboard_url or None))
                server = Server(key, job, self.dashboard_url)
                self._servers[key] = server
                threading.Thread(target=self._launch, args=(server, job), daemon=True).start()
            server.users.add(session.id)
            return server

    def _launch(self, server: Server, job: ServerJob) -> None:
        try:
            url = job.start()
            server.info = _model_info(url)
            server.url = url
        except (ChunkloomError, OSError, ValueError) as error:
            server.error = str(error)
        finally:
            if self._closed:
                job.stop()
            server.answered.set()

    def _leave(self, server: Server, session: Session) -> None:
        with self._lock:
            server.users.discard(session.id)
            if server.users or server.job is None:
                return
            if self._servers.get(server.key) is server:
                del self._servers[server.key]
        server.job.stop()

    def _follow(self, session: Session, running: RunningModel) -> None:
        """Tell the session's page when its model answers, or why it does not."""
        from chunkloom.dashboard.services.pipeline import set_chain

        assert self._context is not None
        context = self._context
        with as_session(session.short):
            log.info("starting %s", running.name)
            running.server.answered.wait()
            if running.stopped:
                return
            if running.server.error is not None:
                for line in running.server.tail(40):
                    context.logs.say(line, session.short)
                log.error("%s did not start: %s", running.name, running.server.error)
            else:
                log.info("%s answers at %s", running.name, running.server.url)
                with session.lock:
                    if not running.stopped:
                        chain = _own_chain(running.server.info)
                        if not session.chain and not session.chain_set and chain:
                            set_chain(session, chain, context.chunks, None)
                        else:
                            redraw(session)
            context.logs.tell("state", {"reason": "models"}, session.short)


def kind_of_output(postprocess: Sequence[PostProcessor], dtype: np.dtype[Any]) -> Kind:
    """What a chain's output is: a zarr address does not say."""
    if not chain_is_segmentation(postprocess) or dtype.kind not in "iu":
        return "image"
    return "mask" if dtype.itemsize == 1 else "labels"


def _own_chain(info: dict[str, Any]) -> PipelineSpec | None:
    """The chain a model brings along."""
    try:
        return PipelineSpec.from_json_data(info.get("chain") or {})
    except ParameterError:
        return None


def _key(entry: dict[str, Any], data_path: str) -> str:
    return json.dumps([entry, data_path], sort_keys=True)


def _model_info(url: str, name: str | None = None) -> dict[str, Any]:
    query = "" if name is None else f"?model={quote(name)}"
    with urllib.request.urlopen(f"{url}{MODEL_INFO}{query}", timeout=10) as answer:
        info: dict[str, Any] = json.loads(answer.read())
    return info
