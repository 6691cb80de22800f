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
import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chunkloom import __version__
from chunkloom.engine.cache import ByteCache
from chunkloom.engine.demand import Claim, Scheduler, Work
from chunkloom.engine.formats import DEFAULT_CODEC, ChunkKey, Format, codec_of, served_format
from chunkloom.engine.volume import Volume, make_digest
from chunkloom.errors import CancelledWorkError, ChunkloomError, FormatError, ParameterError
from chunkloom.geometry import Box
from chunkloom.serving import answers, listing
from chunkloom.serving.access import ApiOptions
from chunkloom.serving.answers import Answer, Receive, Scope, Send
from chunkloom.serving.events import Change
from chunkloom.serving.gate import Gate
from chunkloom.serving.ranges import fitted
from chunkloom.serving.times import Times

if TYPE_CHECKING:
    from chunkloom.io.source import StoredArray

log = logging.getLogger(__name__)

RESERVED = frozenset({"api", "metrics", "static", "v", "update", "__control__", "docs", "healthz"})
FORMATS = {"zarr": "zarr2", "zarr2": "zarr2", "zarr3": "zarr3", "n5": "n5", "precomputed": "precomputed"}
WORDS = ("zarr2", "zarr3", "n5", "precomputed")
ENCODED_BYTES = 512 << 20

READERS = 8
READS = ("GET", "HEAD")

JSON = b"application/json"
OCTETS = b"application/octet-stream"
MISSING = answers.refusal(404, "all fill value: not stored")


@dataclass(eq=False)
class Served:
    """A volume under its name, with what is made once: digest, formats and metadata answers."""

    name: str
    volume: Volume
    asked_codec: str | None
    digest: str = ""
    codec: str = ""
    formats: dict[str, Format] = field(default_factory=dict)
    metadata: dict[tuple[str, bool], dict[str, Answer]] = field(default_factory=dict)
    passing: dict[tuple[str, int], StoredArray | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.digest = self.volume.digest
        stored = self.volume.stored(0)
        kept = codec_of(stored.stored_layout) if stored is not None and stored.stored_layout is not None else None
        self.codec = self.asked_codec or kept or DEFAULT_CODEC

    def addressed(self, rest: list[str]) -> tuple[str, str] | None:
        """The format and the file in it that the segments after the name (and digest) address; None for neither."""
        return (FORMATS[rest[0]], "/".join(rest[1:])) if rest[0] in FORMATS else None

    def format(self, word: str) -> Format:
        if word not in self.formats:
            self.formats[word] = served_format(word, self.codec)
        return self.formats[word]

    def passes(self, word: str, level: int) -> StoredArray | None:
        """The stored array whose chunks are, byte for byte, those of a level in a format; None where they are not."""
        if (word, level) not in self.passing:
            stored = self.volume.stored(level)
            layout = None if stored is None else stored.stored_layout
            same = layout is not None and self.format(word).passes(layout, self.volume.levels[level])
            self.passing[word, level] = stored if same else None
        return self.passing[word, level]

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
        self,
        volumes: Mapping[str, Volume],
        *,
        codec: str | None,
        scheduler: Scheduler | None,
        encoded_bytes: int,
        api: ApiOptions | None = None,
    ) -> None:
        self.volumes: dict[str, Served] = {}
        self.gate = Gate(self, api or ApiOptions())
        self.answered: Counter[int] = Counter()
        self.times = Times()
        self._changing = threading.Lock()
        self.codec = codec
        self.scheduler = scheduler or Scheduler()
        self.encoded = ByteCache(encoded_bytes)
        # Waiting for storage takes no core: more of it may go on at a time than computing.
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="chunkloom-read")
        for name, volume in volumes.items():
            self.add(name, volume)

    def add(self, name: str, volume: Volume) -> None:
        """Serve `volume` under `name`, in place of one that was there."""
        if not name or name in RESERVED or "/" in name or name.startswith("@"):
            raise ParameterError(
                f"{name!r} cannot be a volume's name: expected one path segment, not @…, and none of "
                f"{', '.join(sorted(RESERVED))}"
            )
        made = self.made(name, volume)
        with self._changing:
            replaced = name in self.volumes
            self.volumes = {**self.volumes, name: made}
            self.encoded.clear()
        self.gate.events.publish(Change("replaced" if replaced else "created", name, made.digest))

    def made(self, name: str, volume: Volume) -> Served:
        """A volume as it is served. For apps that serve some in more ways."""
        return Served(name, volume, self.codec)

    async def unlisted(self, name: str) -> Served | Answer | None:
        """What a name stands for that is not among `volumes`, or why nothing. For apps that make it on demand."""
        return None

    def current(self, served: Served) -> bool:
        """Whether a volume is still what its name stands for."""
        return self.volumes.get(served.name) is served

    def remove(self, name: str) -> None:
        """Serve `name` no more. Raises `KeyError` where it is not served."""
        with self._changing:
            gone = self.volumes[name]
            self.volumes = {n: served for n, served in self.volumes.items() if n != name}
            self.encoded.clear()
        self.gate.events.publish(Change("deleted", name, gone.digest))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] != "http":
            return
        path = scope["path"]
        # The whole of the hot path: a kept chunk, asked for again.
        kept: Answer | None = self.encoded.get(path)
        if kept is None or scope["method"] not in READS:
            if self.gate.takes(scope):
                await self.gate(scope, receive, send)
                return
            kept = await self._answer(scope, receive)
            if kept is None:
                return  # the client is gone
        kept = fitted(scope, kept)
        self.answered[kept.start["status"]] += 1
        await send(kept.start)
        await send({"type": "http.response.body", "body": b""} if scope["method"] == "HEAD" else kept.body)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            else:
                self.scheduler.close()
                self._readers.shutdown(wait=False, cancel_futures=True)
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _answer(self, scope: Scope, receive: Receive) -> Answer | None:
        method = scope["method"]
        if method == "OPTIONS":
            return answers.preflight(scope)
        if method not in READS:
            return answers.refusal(405, f"{method} is not answered here: GET, HEAD and OPTIONS are")
        root = scope.get("root_path", "")
        path = scope["path"]
        if root and path.startswith(root + "/"):
            path = path[len(root) :]
        parts = path.lstrip("/").split("/")
        if parts == ["healthz"]:
            return answers.answer(200, b"ok\n", b"text/plain; charset=utf-8", cache=b"no-store")
        if parts == [""]:
            if listing.wants_html(scope):
                return listing.page(scope["path"] or "/", [f"{name}/" for name in sorted(self.volumes)])
            return answers.answer(200, self._index(), JSON, cache=b"no-store")
        served = self.volumes.get(parts[0]) or await self.unlisted(parts[0])
        if isinstance(served, Answer):
            return served
        if served is None:
            return answers.refusal(404, f"no volume {parts[0]!r} here: there are {', '.join(sorted(self.volumes))}")
        rest, pinned = parts[1:], False
        if rest and rest[0].startswith("@"):
            if rest[0][1:] != served.digest:
                return answers.refusal(404, f"volume {served.name!r} has another digest now: {served.digest}")
            rest, pinned = rest[1:], True
        if rest in ([], [""]):
            if rest or listing.wants_html(scope):
                return listing.page(scope["path"], [f"{word}/" for word in WORDS])
            return listing.formats(served.name, served.digest, root, WORDS)
        addressed = served.addressed(rest)
        if addressed is None:
            return answers.refusal(404, f"no such format of {served.name!r}: there are {', '.join(FORMATS)}")
        word, below = addressed
        try:
            document = served.documents(word, pinned).get(below)
        except FormatError as error:
            return answers.refusal(422, f"{served.name}: {error}")
        if document is not None:
            return document
        # Readers that try a group's address without its slash look for a file there: that is missing, as in a store.
        if scope["path"].endswith("/") or listing.wants_html(scope):
            found = listing.children(served.documents(word, pinned), len(served.volume.levels), below.removesuffix("/"))
            if found is not None:
                return listing.page(scope["path"], found)
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
        if scope["method"] == "HEAD" and served.passes(word, key.level) is None:
            return Answer(
                {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [
                        (b"content-type", OCTETS),
                        (b"etag", etag),
                        (b"cache-control", cache),
                        (b"accept-ranges", b"bytes"),
                        *answers.CORS,
                    ],
                },
                {"type": "http.response.body", "body": b""},
                etag,
            )

        stored = served.passes(word, key.level)
        if stored is not None:
            found = await self._stored(stored, key, f"{served.name}/{key.level}/{'.'.join(map(str, key.index))}")
            if isinstance(found, Answer):
                return found
            if found is not None:
                passed = answers.answer(200, found, OCTETS, etag=etag, cache=cache)
                self._keep(scope["path"], passed, served)
                return passed

        def run(work: Work) -> Answer:
            level = served.volume.levels[key.level]
            box = Box.of_chunk(key.index, level.spatial_chunk).intersect(level.box)
            block = served.volume.read_box(key.level, box, work)
            work.check()
            body = served.format(word).encode(block, level)
            made = answers.answer(200, body, OCTETS, etag=etag, cache=cache)
            self._keep(scope["path"], made, served)
            return made

        claim = self.scheduler.claim(
            (served.digest, word, pinned, key),
            self.times.timed(run),
            level=key.level,
            cost=served.volume.cost(key.level),
            client=scope.get("client"),
        )
        return await self._wait(claim, receive, f"{served.name}/{key.level}/{'.'.join(map(str, key.index))}")

    def _keep(self, path: str, made: Answer, served: Served) -> None:
        with self._changing:
            # A volume replaced or gone while its chunk was made must not answer the next request.
            if self.current(served):
                self.encoded.put(path, made, made.nbytes)

    async def _stored(self, stored: StoredArray, key: ChunkKey, chunk: str) -> bytes | Answer | None:
        """The stored bytes of a chunk; a refusal where it is missing or fails; None where it must be computed."""
        index = (*(0,) * (key.ndim - 3), *key.index)
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._readers, stored.stored_chunk, index)
        except ChunkloomError as error:
            log.warning("chunk %s: %s", chunk, error)
            return answers.refusal(500, f"chunk {chunk}: {error}")
        if found is None and stored.stored_layout is not None and not stored.stored_layout.fill_value:
            return MISSING
        return found

    async def _wait(self, claim: Claim, receive: Receive, chunk: str) -> Answer | None:
        """The claim's answer; None when the client hangs up first."""
        loop = asyncio.get_running_loop()
        woken = loop.create_future()

        def wake(_: object = None) -> None:
            if not woken.done():
                woken.set_result(None)

        def settled(_: object) -> None:
            # The loop may have been closed meanwhile: then nobody waits.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(wake)

        claim.future.add_done_callback(settled)
        gone = loop.create_task(_disconnected(receive))
        gone.add_done_callback(wake)
        try:
            await woken
            return self._settled(claim, chunk)
        finally:
            claim.release()
            gone.cancel()

    def _settled(self, claim: Claim, chunk: str) -> Answer | None:
        """The answer a claim came to; None where it was given up."""
        future = claim.future
        if not future.done():
            return None
        if future.cancelled():
            return answers.refusal(503, f"chunk {chunk}: the server is closing")
        failure = future.exception()
        if failure is None:
            made: Answer = future.result()
            return made
        if isinstance(failure, CancelledWorkError):
            return answers.refusal(503, f"chunk {chunk}: the server is closing")
        if isinstance(failure, ChunkloomError):
            log.warning("chunk %s: %s", chunk, failure)
            return answers.refusal(500, f"chunk {chunk}: {failure}")
        log.error("chunk %s: %s: %s", chunk, type(failure).__name__, failure)
        log.debug("chunk %s", chunk, exc_info=failure)
        return answers.refusal(500, f"chunk {chunk}: {type(failure).__name__}: {failure}")

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


def create_app(
    volumes: Mapping[str, Volume],
    *,
    codec: str | None = None,
    scheduler: Scheduler | None = None,
    encoded_bytes: int = ENCODED_BYTES,
    api: ApiOptions | None = None,
) -> ChunkApp:
    """An ASGI app that serves `volumes` by name, as zarr v2, zarr v3, N5 and precomputed.

    Parameters
    ----------
    volumes
        Name (one path segment) to volume.
    codec
        "zstd", "blosc", "gzip" or "none": how served chunks are packed. Default: as a stored volume's are, so that
        stored bytes are passed on untouched; zstd for the rest.
    scheduler
        Runs the work; one thread per core when left out.
    encoded_bytes
        At most this much memory for answers kept to be sent again.
    api
        What the REST API below `/api` allows. Default: reading only.

    Raises
    ------
    ParameterError
        A name that cannot be served, or an unknown codec.
    """
    return ChunkApp(volumes, codec=codec, scheduler=scheduler, encoded_bytes=encoded_bytes, api=api)
