"""The REST API of a chunk server, below `/api`, and `/metrics`. Imported at the first call, by `serving.gate`.

The gate has already decided who may ask; here, bodies are read, volumes made and told of. Volumes are made in threads;
they are put up and taken down on the event loop.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from chunkloom import __version__
from chunkloom.engine.volume import as_box
from chunkloom.errors import AccessError, ChunkloomError, ParameterError, nearest
from chunkloom.geometry import Box
from chunkloom.serving import docs_page, metrics, replies, schema
from chunkloom.serving.app import WORDS, ChunkApp
from chunkloom.serving.building import build_volume, described
from chunkloom.serving.caches import cache_use, clear_caches
from chunkloom.serving.events import Events, server_sent
from chunkloom.serving.guard import Guard
from chunkloom.serving.plan import plan
from chunkloom.serving.served import ServedVolume

DESCRIPTION = (
    "Volumes served by this chunkloom server: what there is, what it is made of, what it takes to make a box. "
    "Axes are z, y, x; channel axes come first; sizes named _nm are in nanometres."
)
_REASONS = {
    400: "Not HTTP as it should be",
    401: "No token, or a wrong one",
    403: "Another site's page, edits that are off, or a place that may not be opened",
    404: "No such volume",
    409: "There is a volume of this name",
    413: "A body above 1 MiB",
    415: "A body that is not JSON by its type",
    422: "Not as the schema says, or nothing that can be made",
    503: "Too many listeners",
}
_EDIT: dict[str, Any] = {"security": [{"bearer": []}, {"token": []}]}
_BOX = r"^[0-9]{1,15}:[0-9]{1,15}(,[0-9]{1,15}:[0-9]{1,15}){2}$"

VolumeName = Annotated[str, Path(description="A served volume.", max_length=200)]


class RefusedError(Exception):
    """An answer that is a reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Json(JSONResponse):
    """JSON in ASCII: names of files may hold what UTF-8 cannot say."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def make_rest(app: ChunkApp, guard: Guard, events: Events) -> FastAPI:
    """The REST API over the volumes of `app`."""
    return _Rest(app, guard, events).api


class _Rest:
    def __init__(self, app: ChunkApp, guard: Guard, events: Events) -> None:
        self.app, self.guard, self.events = app, guard, events
        self.ops = schema.offered_ops(guard.options.allow_code)
        self.specs = schema.spec_models(self.ops)
        # What a volume was made from, valid while that very volume is served.
        self.made: dict[str, tuple[ServedVolume, dict[str, Any]]] = {}
        self.api = FastAPI(
            title="chunkloom",
            description=DESCRIPTION,
            version=__version__,
            openapi_url=None,
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
            generate_unique_id_function=lambda route: route.name,
        )
        self._document: dict[str, Any] | None = None
        self._route()
        self.api.add_exception_handler(RefusedError, _refused)
        self.api.add_exception_handler(RequestValidationError, _invalid)
        self.api.add_exception_handler(HTTPException, _no_route)

    def _route(self) -> None:
        api, specs = self.api, self.specs
        api.get("/api/volumes", **_says(replies.VolumeList))(self.list_volumes)
        api.post("/api/volumes", **_edits(replies.VolumeEntry, specs.volume, 201, 409))(self.create_volume)
        api.get("/api/volumes/{name}", **_says(replies.VolumeEntry, 404, 422))(self.show_volume)
        api.put("/api/volumes/{name}", **_edits(replies.VolumeEntry, specs.computation, 200, 404))(self.replace_volume)
        api.delete("/api/volumes/{name}", **_edits(None, None, 204, 404))(self.delete_volume)
        api.get("/api/volumes/{name}/equivalences", **_says(replies.EquivalencesReply, 404))(self.show_equivalences)
        api.get("/api/ops", **_says(replies.OpList))(self.list_ops)
        api.get("/api/schema", **_says(dict))(self.show_schema)
        api.get("/api/plan", **_says(replies.PlanReply, 404, 422))(self.show_plan)
        api.get("/api/cache", **_says(replies.CacheReply))(self.show_cache)
        api.delete("/api/cache", **_edits(replies.CacheReply, None, 200))(self.clear_cache)
        api.get("/api/queue", **_says(replies.QueueReply))(self.show_queue)
        stream: dict[int | str, dict[str, Any]] = {
            200: {"description": "Changes as they happen", "content": {"text/event-stream": {}}}
        }
        api.get(
            "/api/events",
            response_class=StreamingResponse,
            responses={**stream, **_refusals(400, 403, 413, 503)},
        )(self.listen)
        for path, endpoint in (("/api/openapi.json", self.show_document), ("/api/docs", self.show_page)):
            api.get(path, include_in_schema=False)(endpoint)
        for path in ("/api", "/api/", "/docs", "/docs/"):
            api.get(path, include_in_schema=False)(self.to_page)
        api.get("/metrics", include_in_schema=False)(self.show_metrics)

    async def list_volumes(self, request: Request) -> Response:
        """Every served volume. With the token also what each is made of."""
        entries = [self._entry(served, request) for served in self.app.volumes.values()]
        return _json(replies.VolumeList(volumes=entries))

    async def create_volume(self, request: Request) -> Response:
        """Make a volume of a source, a model and ops, and serve it."""
        spec = await self._body(request, self.specs.volume)
        name = spec.pop("name")
        self._refuse_taken(name)
        volume = await self._build(spec)
        self._refuse_taken(name)  # somebody may have been faster
        self.app.add(name, volume)
        self.made[name] = (self.app.volumes[name], spec)
        entry = self._entry(self.app.volumes[name], request)
        return _json(entry, 201, {"Location": f"{_prefix(request)}/api/volumes/{name}"})

    async def show_volume(self, request: Request, name: VolumeName) -> Response:
        """One volume."""
        return _json(self._entry(self._served(name), request))

    async def replace_volume(self, request: Request, name: VolumeName) -> Response:
        """Serve another volume under a name, with another digest where anything about it differs."""
        self._served(name)
        spec = await self._body(request, self.specs.computation)
        volume = await self._build(spec)
        self._served(name)  # it may be gone by now
        self.app.add(name, volume)
        self.made[name] = (self.app.volumes[name], spec)
        return _json(self._entry(self.app.volumes[name], request))

    async def delete_volume(self, name: VolumeName) -> Response:
        """Serve a volume no more. What it was made from is untouched."""
        self._served(name)
        self.app.remove(name)
        self.made.pop(name, None)
        return Response(status_code=204)

    async def show_equivalences(self, name: VolumeName) -> Response:
        """Which ids of a volume of labels are one object, as found so far in the chunks that were asked for."""
        served = self._served(name)
        seams = served.volume.seams
        groups = [] if seams is None else await run_in_threadpool(seams.groups)
        # As text: numbers of JSON are exact to 2^53 only.
        texts = [[str(identifier) for identifier in group] for group in groups]
        return _json(replies.EquivalencesReply(name=name, digest=served.digest, joins=seams is not None, groups=texts))

    async def list_ops(self) -> Response:
        """The ops that volumes can be made with, and their parameters."""
        entries = [
            replies.OpEntry(name=name, description=schema.summary(cls), schema=schema.op_model(cls).model_json_schema())
            for name, cls in self.ops.items()
        ]
        return _json(replies.OpList(ops=entries))

    async def show_schema(self) -> Response:
        """JSON Schema (2020-12) of the body that makes a volume."""
        found = self.specs.volume.model_json_schema()
        return Json({"$schema": "https://json-schema.org/draft/2020-12/schema", **found})

    async def show_plan(
        self,
        volume: Annotated[str, Query(description="A served volume.", max_length=200)],
        level: Annotated[int, Query(description="Which level; 0 is the finest.", ge=0, le=1000)] = 0,
        box: Annotated[
            str | None,
            Query(
                description="Voxels of that level, z, y, x, ends not included: `0:64,0:64,0:64`. Default: all of it.",
                pattern=_BOX,
                max_length=100,
            ),
        ] = None,
    ) -> Response:
        """The chunks that a box of a volume takes to make, stage by stage, without making any."""
        served = self._served(volume)
        try:
            described = served.volume.level(level)
            wanted = described.box if box is None else _parse_box(box)
            if wanted.is_empty or not described.box.contains(wanted):
                raise ParameterError(
                    f"box {wanted} is not inside level {level}: expected z, y, x within {described.box} and not empty"
                )
        except ParameterError as error:
            raise RefusedError(422, str(error)) from error
        stages = [
            replies.PlanEntry(
                stage=planned.stage,
                level=planned.level,
                chunks=planned.chunks.size,
                chunk_range=_pairs(planned.chunks),
                box=_pairs(planned.box),
                bytes=planned.nbytes,
                kept=planned.kept,
            )
            for planned in plan(served.volume, level, wanted)
        ]
        return _json(
            replies.PlanReply(volume=volume, digest=served.digest, level=level, box=_pairs(wanted), stages=stages)
        )

    async def show_cache(self) -> Response:
        """How full the caches are."""
        return _json(self._caches())

    async def clear_cache(self) -> Response:
        """Forget every kept chunk and answer."""
        clear_caches(self.app)
        return _json(self._caches())

    async def show_queue(self) -> Response:
        """The chunks that clients wait for, per level."""
        return _json(replies.QueueReply(**self.app.scheduler.snapshot()))

    async def listen(self) -> Response:
        """Server-sent events: a `volume` event with `change`, `name` and `digest` whenever a volume changes.

        `change` is `created`, `replaced`, `deleted`, or `joined`: its equivalences have grown.
        """
        if self.events.full:
            raise RefusedError(503, "too many listen already: close one, or ask again later")
        return StreamingResponse(server_sent(self.events), media_type="text/event-stream")

    async def show_document(self, request: Request) -> Response:
        document = self.document()
        prefix = _prefix(request)
        return Json({**document, "servers": [{"url": prefix}]} if prefix else document)

    async def show_page(self, request: Request) -> Response:
        text = docs_page.page(self.document(), _prefix(request))
        return HTMLResponse(text, headers={"Content-Security-Policy": docs_page.POLICY})

    async def to_page(self, request: Request) -> Response:
        return RedirectResponse(f"{_prefix(request)}/api/docs", 307)

    async def show_metrics(self) -> Response:
        return Response(metrics.exposition(self.app), media_type=metrics.CONTENT_TYPE)

    def document(self) -> dict[str, Any]:
        """The OpenAPI document."""
        if self._document is None:
            made = get_openapi(
                title=self.api.title, description=DESCRIPTION, version=__version__, routes=self.api.routes
            )
            bodies = [(self.specs.volume, "validation"), (self.specs.computation, "validation")]
            _, bodies_schema = models_json_schema(bodies, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
            made["components"]["schemas"] |= bodies_schema["$defs"]
            made["components"]["securitySchemes"] = {
                "bearer": {"type": "http", "scheme": "bearer"},
                "token": {"type": "apiKey", "in": "header", "name": "X-Chunkloom-Token"},
            }
            self._document = made
        return self._document

    async def _body(self, request: Request, model: type[BaseModel]) -> dict[str, Any]:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RefusedError(415, f"the body is {kind or 'of no type'}: expected Content-Type: application/json")
        try:
            return schema.read_body(model, await request.body())
        except ParameterError as error:
            raise RefusedError(422, str(error)) from error

    async def _build(self, spec: dict[str, Any]) -> Any:
        try:
            return await run_in_threadpool(build_volume, spec, self.guard.options)
        except AccessError as error:
            raise RefusedError(403, str(error)) from error
        except ChunkloomError as error:
            raise RefusedError(422, str(error)) from error

    def _served(self, name: str) -> ServedVolume:
        if name not in self.app.volumes:
            raise RefusedError(404, f"no volume {name!r} here: {nearest(name, list(self.app.volumes))}")
        return self.app.volumes[name]

    def _refuse_taken(self, name: str) -> None:
        if name in self.app.volumes:
            raise RefusedError(409, f"there is a volume {name!r}: replace it with PUT /api/volumes/{name}")

    def _entry(self, served: ServedVolume, request: Request) -> replies.VolumeEntry:
        levels = [
            replies.LevelEntry(
                shape=list(level.shape),
                dtype=level.dtype.name,
                chunk_shape=list(level.chunk_shape),
                axes=list(level.axes),
                voxel_size_nm=list(level.grid.voxel_size_nm),
                corner_nm=list(level.grid.corner_nm),
            )
            for level in served.volume.levels
        ]
        told: dict[str, Any] = {}
        if self.guard.has_token(request.scope):
            # Paths, and the parameters of ops, which may be code: not for everybody.
            volume, spec = self.made.get(served.name, (None, {}))
            told = {
                "spec": spec if volume is served else described(served.volume),
                "warnings": list(served.volume.warnings),
            }
        return replies.VolumeEntry(
            name=served.name,
            digest=served.digest,
            kind=served.volume.kind,
            urls={word: f"{_prefix(request)}/{served.name}/{word}" for word in WORDS},
            levels=levels,
            **told,
        )

    def _caches(self) -> replies.CacheReply:
        entries = {name: dataclasses.asdict(use) for name, use in cache_use(self.app).items()}
        return replies.CacheReply.model_validate(entries)


def _json(reply: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Json:
    return Json(reply.model_dump(by_alias=True, exclude_unset=True), status, headers)


def _says(model: Any, *statuses: int) -> dict[str, Any]:
    """How a route that reads is documented."""
    return {"response_model": model, "responses": _refusals(400, 403, 413, *statuses)}


def _edits(model: Any, body: type[BaseModel] | None, status: int, *statuses: int) -> dict[str, Any]:
    """How a route that edits is documented, with its body."""
    extra: dict[str, Any] = dict(_EDIT)
    if body is not None:
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}}
        extra["requestBody"] = {"required": True, "content": content}
        statuses = (*statuses, 415)
    return {
        "response_model": model,
        "status_code": status,
        "responses": _refusals(400, 401, 403, 413, 422, *statuses),
        "openapi_extra": extra,
    }


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": replies.Error, "description": _REASONS[status]} for status in sorted(statuses)}


def _prefix(request: Request) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/")


def _parse_box(text: str) -> Box:
    return as_box([[int(n) for n in pair.split(":")] for pair in text.split(",")])


def _pairs(box: Box) -> list[list[int]]:
    return [list(pair) for pair in zip(box.lo, box.hi, strict=True)]


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return Json({"error": schema.one_line(error)}, error.status)


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return Json({"error": schema.one_line(f"{where}: {first['msg']}")}, 422)


def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = {404: f"nothing at {request.url.path}: see /api/docs", 405: f"{request.method} is not answered here"}
    return Json(
        {"error": schema.one_line(words.get(error.status_code, error.detail))}, error.status_code, error.headers
    )
