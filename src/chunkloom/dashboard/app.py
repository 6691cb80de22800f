"""The dashboard as one ASGI app: the way in, Neuroglancer's server behind it, the chunk server, the pages and the API.

Made with `create_dashboard`. Paths in pages and answers are relative, so that it works below any prefix of a proxy.
"""

from __future__ import annotations

import logging
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from chunkloom import __version__
from chunkloom.dashboard import proxy
from chunkloom.dashboard.access import Access, Entered, without_token
from chunkloom.dashboard.logs import LogBuffer
from chunkloom.dashboard.options import DashboardOptions
from chunkloom.dashboard.routes import ROUTERS
from chunkloom.dashboard.routes.equivalences import take_equivalences
from chunkloom.dashboard.services.models import ModelPool
from chunkloom.dashboard.sessions import Session, SessionStore
from chunkloom.dashboard.starting import fill
from chunkloom.dashboard.state import Context
from chunkloom.errors import ChunkloomError, ConflictError, VolumeNotFoundError
from chunkloom.serving.answers import Message, Receive, Scope, Send
from chunkloom.serving.app import create_app
from chunkloom.serving.gate import refuse, route_path
from chunkloom.serving.guard import Refusal

STATIC = Path(__file__).parent / "static"
DESCRIPTION = "The dashboard's own API: data, chain, models, layers and jobs of one session."
# The pages hold no inline script and load nothing from elsewhere.
POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; frame-src 'self'; frame-ancestors 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'"
)

log = logging.getLogger(__name__)


class Dashboard:
    """The ASGI app. Made with `create_dashboard`."""

    def __init__(self, options: DashboardOptions, pool: ModelPool) -> None:
        self.options = options
        self.sessions = SessionStore(options.start)
        self.logs = LogBuffer()
        self.chunks = create_app({}, api=options.api)
        self.pool = pool
        self.context = Context(options, self.sessions, self.logs, self.chunks, pool)
        pool.attach(self.context)
        self.access = Access(options, self.sessions)
        self.viewers = proxy.ViewerProxy()
        self.static = StaticFiles(directory=STATIC)
        self.api = make_api(self.context)
        logger = logging.getLogger("chunkloom")
        logger.addHandler(self.logs)
        if logger.getEffectiveLevel() > logging.INFO:
            logger.setLevel(logging.INFO)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        path = route_path(scope)
        first = path.lstrip("/").split("/", 1)[0]
        if first == "volumes":
            # Chunks alone: no list of what there is, and not the chunk server's own API.
            if path.count("/") > 2 and path.split("/")[2] in self.chunks.volumes:
                await self.chunks(_below(scope, "/volumes"), receive, send)
            else:
                await refuse(Refusal(404, "no such volume"), send)
            return
        refused = self.access.foreign(scope)
        if refused is not None:
            await refuse(refused, send)
            return
        if first == "static":
            await self.static(_below(scope, "/static"), receive, _with_headers(send))
            return
        if first == "equivalences":
            await take_equivalences(self.context, scope, receive, send)
            return
        await self._in_session(first, path, scope, receive, send)

    async def _in_session(self, first: str, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        entered = self.access.enter(scope)
        if isinstance(entered, Refusal):
            if path in ("/", "/pipeline-builder") and entered.status == 401:
                await _closed_page(send)
            else:
                await refuse(entered, send)
            return
        session = entered.session
        if entered.welcome:
            await self._welcome(entered, scope, send)
            return
        if not session.filled and path in ("/", "/pipeline-builder"):
            session.filled, session.base_url = True, base_url(scope)
            await run_in_threadpool(fill, self, session)
        if first in proxy.SEGMENTS:
            token = path.lstrip("/").split("/")[1:2]
            if first != "neuroglancer" and self.sessions.of_viewer(token[0] if token else "") is not session:
                await refuse(Refusal(404, "no such viewer in this session"), send)
                return
            await self.viewers({**scope, "path": path}, receive, send)
            return
        session.base_url = base_url(scope)
        await self.api({**scope, "chunkloom_session": session}, receive, _with_headers(send))

    async def _welcome(self, entered: Entered, scope: Scope, send: Send) -> None:
        """Keep the cookie, and go on without the token in the address."""
        cookie = self.access.set_cookie(entered.session, secure=_scheme(scope) == "https")
        target = f".{route_path(scope)}" if route_path(scope) == "/" else route_path(scope).rpartition("/")[2] or "."
        headers = [
            (b"location", f"{target}{without_token(scope)}".encode("latin-1")),
            (b"set-cookie", cookie.encode("latin-1")),
            (b"cache-control", b"no-store"),
            (b"content-length", b"0"),
        ]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.viewers.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    def close(self) -> None:
        """Stop the models and the chunk server's work."""
        logging.getLogger("chunkloom").removeHandler(self.logs)
        self.pool.close()
        self.chunks.close()

    def first_session(self) -> Session:
        """The session that the first browser takes over."""
        return self.sessions.new(adopted=False)


def create_dashboard(options: DashboardOptions | None = None, pool: ModelPool | None = None) -> Dashboard:
    """The dashboard as an ASGI app."""
    options = options or DashboardOptions()
    return Dashboard(options, pool or ModelPool(options.models_run_on))


def make_api(context: Context) -> FastAPI:
    """The pages and the API below `/api`, for requests whose session is known."""
    api = FastAPI(
        title="chunkloom dashboard",
        description=DESCRIPTION,
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    api.state.context = context
    for router in ROUTERS:
        api.include_router(router)
    api.add_exception_handler(RequestValidationError, _invalid)
    api.add_exception_handler(ChunkloomError, _refused)
    api.add_exception_handler(HTTPException, _http)
    api.add_exception_handler(Exception, _unexpected)
    return api


def base_url(scope: Scope) -> str:
    """The address the browser knows this dashboard by, without a slash at its end."""
    headers = {name: str(value.decode("latin-1")).split(",")[0].strip() for name, value in scope["headers"]}
    host = headers.get(b"x-forwarded-host") or headers.get(b"host", "")
    prefix = (headers.get(b"x-forwarded-prefix") or str(scope.get("root_path", ""))).rstrip("/")
    return f"{_scheme(scope)}://{host}{prefix}"


def _scheme(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-forwarded-proto":
            return str(value.decode("latin-1").split(",")[0].strip())
    return str(scope.get("scheme", "http"))


def _below(scope: Scope, prefix: str) -> Scope:
    return {**scope, "root_path": scope.get("root_path", "") + prefix}


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message.get("headers", ())}
            ours = [
                (b"content-security-policy", POLICY.encode()),
                (b"x-content-type-options", b"nosniff"),
                (b"referrer-policy", b"same-origin"),
                (b"cache-control", b"no-cache"),
            ]
            message = {
                **message,
                "headers": [*message.get("headers", ()), *(pair for pair in ours if pair[0] not in given)],
            }
        await send(message)

    return with_headers


async def _closed_page(send: Send) -> None:
    body = (STATIC / "closed.html").read_bytes()
    headers = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _failure(status: int, reason: str) -> JSONResponse:
    return JSONResponse({"success": False, "error": reason}, status)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    status = 404 if isinstance(error, VolumeNotFoundError) else 409 if isinstance(error, ConflictError) else 400
    log.warning("%s %s: %s", request.method, request.url.path, error)
    return _failure(status, str(error))


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    return _failure(400, f"{where or 'body'}: {first['msg']}")


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return _failure(error.status_code, f"{request.method} {request.url.path}: {error.detail}")


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    log.exception("%s %s failed", request.method, request.url.path)
    return _failure(500, f"unexpected: {type(error).__name__}: {error}")
