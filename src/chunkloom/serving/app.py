"""The chunk server: an ASGI app that answers the files of volumes.

``/{name}/{format}/…`` and ``/{name}/@{digest}/{format}/…``. A plain ASGI callable, mountable in any other app; no
web framework stands between a request and a kept chunk. Chunks are computed on the scheduler's threads, never on the
event loop, and given up when their client hangs up.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from chunkloom import __version__
from chunkloom.engine.cache import ByteCache
from chunkloom.engine.demand import Claim, Scheduler, Work
from chunkloom.engine.formats import ChunkKey, Format, served_format
from chunkloom.engine.volume import Volume, make_digest
from chunkloom.errors import CancelledWorkError, ChunkloomError, FormatError, ParameterError
from chunkloom.geometry import Box
from chunkloom.serving import answers
from chunkloom.serving.answers import Answer, Receive, Scope, Send

log = logging.getLogger(__name__)

RESERVED = frozenset({"api", "metrics", "static", "v", "update", "__control__", "docs", "healthz"})
FORMATS = {"zarr": "zarr2", "zarr2": "zarr2", "zarr3": "zarr3", "n5": "n5", "precomputed": "precomputed"}
WORDS = ("zarr2", "zarr3", "n5", "precomputed")
ENCODED_BYTES = 512 << 20

JSON = b"application/json"
OCTETS = b"application/octet-stream"


@dataclass(eq=False)
class Served:
    """A volume under its name, with what is made once: digest, formats and metadata answers."""

    name: str
    volume: Volume
    codec: str
    digest: str = ""
    formats: dict[str, Format] = field(default_factory=dict)
    metadata: dict[tuple[str, bool], dict[str, Answer]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.digest = self.volume.digest

    def format(self, word: str) -> Format:
        if word not in self.formats:
            self.formats[word] = served_format(word, self.codec)
        return self.formats[word]

    def documents(self, word: str, pinned: bool) -> dict[str, Answer]:
        """The metadata files in a format; `pinned` when the URL carries the digest."""
        key = (word, pinned)
        if key not in self.metadata:
            cache = answers.IMMUTABLE if pinned else answers.REVALIDATE
            self.metadata[key] = {
                path: answers.answer(
                    200, text, JSON, etag=b'"%s"' % make_digest([self.digest, text.decode()]).encode(), cache=cache
                )
                for path, text in self.format(word).metadata(self.volume, self.name).items()
            }
        return self.metadata[key]

    def etag(self, word: str, key: ChunkKey) -> bytes:
        """Known without computing: the digest covers all that can change the bytes, with codec and version."""
        z, y, x = key.index
        return f'"{self.digest}-{word}-{self.codec}-{__version__}-{key.level}.{z}.{y}.{x}"'.encode()


class ChunkApp:
    """The ASGI app. Made with `create_app`."""

    def __init__(
        self, volumes: Mapping[str, Volume], *, codec: str, scheduler: Scheduler | None, encoded_bytes: int
    ) -> None:
        self.volumes: dict[str, Served] = {}
        self.codec = codec
        self.scheduler = scheduler or Scheduler()
        self.encoded = ByteCache(encoded_bytes)
        for name, volume in volumes.items():
            self.add(name, volume)

    def add(self, name: str, volume: Volume) -> None:
        """Serve `volume` under `name`, in place of one that was there."""
        if not name or name in RESERVED or "/" in name or name.startswith("@"):
            raise ParameterError(
                f"{name!r} cannot be a volume's name: expected one path segment, not @…, and none of "
                f"{', '.join(sorted(RESERVED))}"
            )
        self.volumes[name] = Served(name, volume, self.codec)
        self.encoded.clear()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] != "http":
            return
        path = scope["path"]
        # The whole of the hot path: a kept chunk, asked for again.
        kept: Answer | None = self.encoded.get(path)
        if kept is None or scope["method"] != "GET":
            kept = await self._answer(scope, receive)
        elif answers.matches(kept.etag or b"", answers.header(scope, b"if-none-match")):
            kept = answers.not_modified(kept.etag or b"", _cache_control(kept))
        if kept is None:
            return  # the client is gone
        await send(kept.start)
        await send({"type": "http.response.body", "body": b""} if scope["method"] == "HEAD" else kept.body)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            else:
                self.scheduler.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _answer(self, scope: Scope, receive: Receive) -> Answer | None:
        method = scope["method"]
        if method == "OPTIONS":
            return answers.preflight(scope)
        if method not in ("GET", "HEAD"):
            return answers.refusal(405, f"{method} is not answered here: GET, HEAD and OPTIONS are")
        root = scope.get("root_path", "")
        path = scope["path"]
        if root and path.startswith(root + "/"):
            path = path[len(root) :]
        parts = path.lstrip("/").split("/")
        if parts == ["healthz"]:
            return answers.answer(200, b"ok\n", b"text/plain; charset=utf-8", cache=b"no-store")
        if parts == [""]:
            return answers.answer(200, self._index(), JSON, cache=b"no-store")
        served = self.volumes.get(parts[0])
        if served is None:
            return answers.refusal(404, f"no volume {parts[0]!r} here: there are {', '.join(sorted(self.volumes))}")
        rest, pinned = parts[1:], False
        if rest and rest[0].startswith("@"):
            if rest[0][1:] != served.digest:
                return answers.refusal(404, f"volume {served.name!r} has another digest now: {served.digest}")
            rest, pinned = rest[1:], True
        if not rest or rest[0] not in FORMATS:
            return answers.refusal(404, f"no such format of {served.name!r}: there are {', '.join(FORMATS)}")
        word, below = FORMATS[rest[0]], "/".join(rest[1:])
        try:
            document = served.documents(word, pinned).get(below)
        except FormatError as error:
            return answers.refusal(422, f"{served.name}: {error}")
        if document is not None:
            if answers.matches(document.etag or b"", answers.header(scope, b"if-none-match")):
                return answers.not_modified(document.etag or b"", _cache_control(document))
            return document
        key = served.format(word).parse_key(below, served.volume)
        if key is None or not _exists(served.volume, key):
            return answers.refusal(404, f"no such file or chunk in {served.name}/{word}: {below!r}")
        return await self._chunk(scope, receive, served, word, key, pinned)

    async def _chunk(
        self, scope: Scope, receive: Receive, served: Served, word: str, key: ChunkKey, pinned: bool
    ) -> Answer | None:
        cache = answers.IMMUTABLE if pinned else answers.REVALIDATE
        etag = served.etag(word, key)
        if answers.matches(etag, answers.header(scope, b"if-none-match")):
            return answers.not_modified(etag, cache)
        if scope["method"] == "HEAD":
            return Answer(
                {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [(b"content-type", OCTETS), (b"etag", etag), (b"cache-control", cache), *answers.CORS],
                },
                {"type": "http.response.body", "body": b""},
                etag,
            )

        def run(work: Work) -> Answer:
            level = served.volume.levels[key.level]
            box = Box.of_chunk(key.index, level.spatial_chunk).intersect(level.box)
            block = served.volume.read_box(key.level, box, work)
            work.check()
            body = served.format(word).encode(block, level)
            made = answers.answer(200, body, OCTETS, etag=etag, cache=cache)
            self.encoded.put(scope["path"], made, made.nbytes)
            return made

        claim = self.scheduler.claim(
            (served.digest, word, pinned, key), run, level=key.level, client=scope.get("client")
        )
        return await self._wait(claim, receive, f"{served.name}/{key.level}/{'.'.join(map(str, key.index))}")

    async def _wait(self, claim: Claim, receive: Receive, chunk: str) -> Answer | None:
        """The claim's answer; None when the client hangs up first."""
        made = asyncio.wrap_future(claim.future)
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait({made, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not made.done():
                return None
            result: Answer = made.result()
            return result
        except CancelledWorkError:
            return answers.refusal(503, f"chunk {chunk}: the server is closing")
        except asyncio.CancelledError:
            if made.cancelled():
                return answers.refusal(503, f"chunk {chunk}: the server is closing")
            raise
        except ChunkloomError as error:
            log.warning("chunk %s: %s", chunk, error)
            return answers.refusal(500, f"chunk {chunk}: {error}")
        except Exception as error:
            log.exception("chunk %s", chunk)
            return answers.refusal(500, f"chunk {chunk}: {type(error).__name__}: {error}")
        finally:
            claim.release()
            gone.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await gone

    def _index(self) -> bytes:
        listing = {name: {"digest": served.digest, "formats": list(WORDS)} for name, served in self.volumes.items()}
        return (json.dumps({"volumes": listing}, indent=2) + "\n").encode()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _exists(volume: Volume, key: ChunkKey) -> bool:
    if key.level >= len(volume.levels):
        return False
    level = volume.levels[key.level]
    return key.ndim == len(level.shape) and all(i < n for i, n in zip(key.index, level.chunk_grid, strict=True))


def _cache_control(kept: Answer) -> bytes:
    headers: answers.Headers = kept.start["headers"]
    return next(value for name, value in headers if name == b"cache-control")


def create_app(
    volumes: Mapping[str, Volume],
    *,
    codec: str = "zstd",
    scheduler: Scheduler | None = None,
    encoded_bytes: int = ENCODED_BYTES,
) -> ChunkApp:
    """An ASGI app that serves `volumes` by name, as zarr v2 and v3.

    Parameters
    ----------
    volumes
        Name (one path segment) to volume.
    codec
        "zstd", "blosc", "gzip" or "none": how served chunks are packed.
    scheduler
        Runs the work; one thread per core when left out.
    encoded_bytes
        At most this much memory for answers kept to be sent again.

    Raises
    ------
    ParameterError
        A name that cannot be served, or an unknown codec.
    """
    return ChunkApp(volumes, codec=codec, scheduler=scheduler, encoded_bytes=encoded_bytes)
