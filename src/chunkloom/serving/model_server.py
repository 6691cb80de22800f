"""The model server: a chunk server that makes a layer for each chain its clients name, and says what its model is.

``/<model>__CFLOW_ARGS__<blob>__CFLOW_ARGS__/zarr/…`` (every format word works), the older channel-last address without
one, and ``/__control__/…``. A layer is built when it is first asked for; its model output is kept apart from what the
chain makes of it, so that another postprocessing computes no forward.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from chunkloom.engine.demand import Scheduler
from chunkloom.engine.formats import URL_WORDS, Format
from chunkloom.engine.volume import Volume
from chunkloom.errors import AccessError, ChunkloomError, ConflictError, ModelError, ParameterError, nearest
from chunkloom.serving import answers
from chunkloom.serving.access import ApiOptions
from chunkloom.serving.answers import Answer, Receive, Scope, Send
from chunkloom.serving.app import ENCODED_BYTES, ChunkApp
from chunkloom.serving.equivalences import EquivalencePoster
from chunkloom.serving.gate import read_body, route_path
from chunkloom.serving.guard import MAX_BODY_BYTES, too_large
from chunkloom.serving.older_zarr import WORD as OLDER
from chunkloom.serving.older_zarr import OlderZarr
from chunkloom.serving.protocol import (
    ARGS,
    MODEL_INFO,
    OUTPUT_PROBE,
    RESTART,
    RESTART_TOKEN_HEADER,
    Dashboard,
    parse_layer_name,
)
from chunkloom.serving.restart_token import same_token
from chunkloom.serving.served import JSON, ServedVolume
from chunkloom.serving.served_model import ServedModel

log = logging.getLogger(__name__)

LAYERS = 32


@dataclass(frozen=True)
class Restart:
    """What `/__control__/restart` does: only of servers that can train again.

    Attributes
    ----------
    token
        The secret that the request must carry.
    apply
        Given the request's body. Raises `ConflictError` or `ParameterError` for what cannot be done now or at all.
    """

    token: str
    apply: Callable[[dict[str, Any]], None]


class ServedLayer(ServedVolume):
    """A prediction, which also answers at the older address."""

    declared_nm: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def addressed(self, rest: list[str]) -> tuple[str, str] | None:
        if rest[0] in URL_WORDS:
            return super().addressed(rest)
        return OLDER, "/".join(rest)

    def format(self, word: str) -> Format:
        if word == OLDER:
            return self.formats.setdefault(word, OlderZarr(self.declared_nm))
        return super().format(word)


class ModelApp(ChunkApp):
    """The ASGI app of a model server. Made with `create_model_app`."""

    def __init__(
        self,
        volumes: Mapping[str, Volume],
        models: Mapping[str, ServedModel],
        *,
        dashboard: Dashboard | None = None,
        restart: Restart | None = None,
        **options: Any,
    ) -> None:
        self.models = dict(models)
        self._alone = len(models) == 1
        self._predictions = {name: volumes[name] for name in models}
        self.dashboard = dashboard or Dashboard()
        self.restart = restart
        self.poster = EquivalencePoster()
        self._layers: OrderedDict[str, ServedLayer] = OrderedDict()
        self._layers_lock = threading.Lock()
        # One at a time: a layer whose statistics come from the whole volume reads much, and two need not race.
        self._builder = ThreadPoolExecutor(1, thread_name_prefix="chunkloom-layer")
        super().__init__(volumes, **options)

    # Volumes

    def add(self, name: str, volume: Volume) -> None:
        super().add(name, volume)
        if self._predictions.get(name) is not volume:
            self._forget(name)

    def remove(self, name: str) -> None:
        super().remove(name)
        self._forget(name)

    def _forget(self, name: str) -> None:
        """There is another volume under a model's name now, or none: its layers go with it."""
        with self._layers_lock:
            if self.models.pop(name, None) is not None:
                self._predictions.pop(name, None)
                self._end_layers()

    def _end_layers(self) -> None:
        for layer in self._layers.values():
            layer.end()
        self._layers.clear()

    def made(self, name: str, volume: Volume) -> ServedVolume:
        model = self.models.get(name)
        if model is None or self._predictions.get(name) is not volume:
            return super().made(name, volume)
        return self._made_layer(name, volume, model)

    def current(self, served: ServedVolume) -> bool:
        return self._layers.get(served.name) is served or super().current(served)

    async def unlisted(self, name: str) -> ServedVolume | Answer | None:
        if ARGS not in name:
            return None
        with self._layers_lock:
            found = self._layers.get(name)
            if found is not None:
                self._layers.move_to_end(name)
                return found
        try:
            return await asyncio.get_running_loop().run_in_executor(self._builder, self._layer, name)
        except AccessError as error:
            return answers.refusal(403, str(error))
        except (ParameterError, ModelError) as error:
            # Not 404: viewers show that as an empty volume.
            return answers.refusal(400, str(error))
        except ConflictError as error:
            return answers.refusal(503, str(error))
        except ChunkloomError as error:
            log.warning("layer: %s", error)
            return answers.refusal(500, str(error))
        except Exception as error:
            # A step of somebody else's may refuse its parameters in a way of its own.
            log.exception("layer")
            return answers.refusal(500, f"this layer cannot be made: {type(error).__name__}: {error}")

    def _layer(self, segment: str) -> ServedLayer:
        with self._layers_lock:
            found = self._layers.get(segment)
        if found is not None:
            return found
        named = parse_layer_name(segment)
        model = self._model_called(named.model)
        dashboard_url = self.dashboard.admitted(named.dashboard_url)
        # Built first: a chain that is refused must not be looked at any further.
        chain = model.chain if named.chain is None else named.chain.canonical()
        volume = model.layer(chain)
        made = self._made_layer(segment, volume, model)
        seams = volume.seams
        if dashboard_url is not None and seams is not None:
            tell = functools.partial(self.poster.tell, dashboard_url, f"{segment}/zarr", seams.groups)
            made.ending.append(seams.listen(tell))
        with self._layers_lock:
            if not any(known is model for known in self.models.values()):
                raise ConflictError(f"model {model.name!r} was replaced meanwhile: ask again")
            self._layers[segment] = made
            while len(self._layers) > LAYERS:
                self._layers.popitem(last=False)[1].end()
        return made

    def _made_layer(self, name: str, volume: Volume, model: ServedModel) -> ServedLayer:
        made = ServedLayer(name, volume, self.codec)
        made.declared_nm = model.runner.model.geometry.output_voxel_size
        return made

    def _model_called(self, name: str) -> ServedModel:
        """The model that a layer names. A server of one model takes any name: to older dashboards it is a label."""
        if name in self.models:
            return self.models[name]
        if self._alone and self.models:
            (only,) = self.models.values()
            log.info("a layer calls the model %r: it is %r here", name, only.name)
            return only
        raise ParameterError(f"no model {name!r} here: {nearest(name, list(self.models))}")

    def weights_changed(self, name: str, model: ServedModel, volume: Volume) -> None:
        """Serve `model` (other weights, another version) under `name` from now on; `volume` is its prediction."""
        with self._layers_lock:
            self.models[name] = model
            self._predictions[name] = volume
            self._end_layers()
        self.add(name, volume)

    # Control

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = route_path(scope)
            if path == "/" or path.startswith("/__control__"):
                answer = await self._control(path, scope, receive)
                if answer is not None:
                    self.answered[answer.start["status"]] += 1
                    await send(answer.start)
                    await send(
                        {"type": "http.response.body", "body": b""} if scope["method"] == "HEAD" else answer.body
                    )
                return
        elif scope["type"] == "lifespan":
            try:
                await super().__call__(scope, receive, send)
            finally:
                self.poster.close()
                self._builder.shutdown(wait=False, cancel_futures=True)
            return
        await super().__call__(scope, receive, send)

    async def _control(self, path: str, scope: Scope, receive: Receive) -> Answer | None:
        method = scope["method"]
        if path == RESTART:
            return await self._restart(scope, receive)
        if method == "OPTIONS":
            return answers.preflight(scope)
        if method not in ("GET", "HEAD"):
            return answers.refusal(405, f"{method} is not answered here: GET, HEAD and OPTIONS are")
        if path == "/":
            return _redirect((scope.get("root_path") or "") + MODEL_INFO)
        if path in (MODEL_INFO, OUTPUT_PROBE):
            return self._info(scope)
        return answers.refusal(404, f"no such control route: there are {MODEL_INFO}, {OUTPUT_PROBE} and {RESTART}")

    def _info(self, scope: Scope) -> Answer:
        """Of the model that `?model=` names; of the first where it names none."""
        from urllib.parse import parse_qs

        models, predictions = dict(self.models), dict(self._predictions)
        asked = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("model")
        named = asked[0] if asked else next(iter(models), "")
        if named not in models or named not in predictions:
            return answers.refusal(404, f"no model {named!r} here: {nearest(named, list(models))}")
        document = {**models[named].info(predictions[named]), "name": named, "models": list(models)}
        return answers.answer(200, (json.dumps(document, indent=2) + "\n").encode(), JSON, cache=b"no-store")

    async def _restart(self, scope: Scope, receive: Receive) -> Answer | None:
        if scope["method"] != "POST":
            return answers.refusal(405, "a restart is asked for with POST")
        guard = self.gate.guard
        refused = guard.foreign(scope) or guard.too_large(scope)
        body = b""
        if refused is None:
            found = await read_body(receive)
            if found is None:
                return None  # the client is gone
            refused, body = (too_large(), b"") if len(found) > MAX_BODY_BYTES else (None, found)
        if refused is not None:
            return _outcome(refused.status, refused.reason)
        if self.restart is None:
            return _outcome(501, "this server serves a model that is not being trained: there is nothing to restart")
        if not same_token(answers.header(scope, RESTART_TOKEN_HEADER.lower().encode()), self.restart.token):
            return _outcome(401, f"a restart needs the job's token, as {RESTART_TOKEN_HEADER}")
        try:
            request = _restart_request(body)
            await asyncio.to_thread(self.restart.apply, request)
        except (ParameterError, ConflictError) as error:
            return _outcome(409, str(error))
        except Exception as error:
            # Whatever the trainer's code raises: the asker learns it, the server goes on.
            log.exception("restart")
            return _outcome(500, f"{type(error).__name__}: {error}")
        return _outcome(200, None)


def _restart_request(body: bytes) -> dict[str, Any]:
    """The body of a restart. Raises `ParameterError` for anything but ``{"restart": true, …}``."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"the body is not JSON: {error}") from error
    if not isinstance(data, dict) or data.get("restart") is not True:
        raise ParameterError('the body must be {"restart": true, "timestamp": …, "params": {…}}')
    if not isinstance(data.get("params", {}), dict):
        raise ParameterError('member "params" must be an object')
    return data


def _outcome(status: int, error: str | None) -> Answer:
    """As older callers read it. No CORS: pages of other sites restart nothing."""
    data = {"success": True} if error is None else {"success": False, "error": error}
    body = json.dumps(data).encode()
    headers = [
        (b"content-type", JSON),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    return Answer(
        {"type": "http.response.start", "status": status, "headers": headers},
        {"type": "http.response.body", "body": body},
    )


def _redirect(target: str) -> Answer:
    headers = [(b"location", target.encode("latin-1", "replace")), (b"content-length", b"0"), *answers.CORS]
    return Answer(
        {"type": "http.response.start", "status": 307, "headers": headers},
        {"type": "http.response.body", "body": b""},
    )


def create_model_app(
    volumes: Mapping[str, Volume],
    models: Mapping[str, ServedModel],
    *,
    dashboard: Dashboard | None = None,
    restart: Restart | None = None,
    codec: str | None = None,
    scheduler: Scheduler | None = None,
    encoded_bytes: int = ENCODED_BYTES,
    api: ApiOptions | None = None,
) -> ModelApp:
    """An ASGI app as `create_app` makes it, for volumes of which some are predictions of models.

    Parameters
    ----------
    models
        The models by the names that their predictions have among `volumes`.
    dashboard
        Who started the server; nobody when left out.
    restart
        What `/__control__/restart` does; 501 when left out.

    Raises
    ------
    ParameterError
        As `create_app`; no models, or one whose prediction is not among the volumes.
    """
    missing = [name for name in models if name not in volumes]
    if missing or not models:
        raise ParameterError(
            f"a model server needs the predictions of its models among its volumes: {missing or 'none'}"
        )
    return ModelApp(
        volumes,
        models,
        dashboard=dashboard,
        restart=restart,
        codec=codec,
        scheduler=scheduler,
        encoded_bytes=encoded_bytes,
        api=api,
    )
