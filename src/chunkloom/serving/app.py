"""The chunk server: an ASGI app that answers the files of volumes.

``/{name}/{format}/…`` and ``/{name}/@{digest}/{format}/…``. A plain ASGI callable, mountable in any other app; no
web framework stands between a request and a kept chunk. Chunks are read and computed on schedulers' threads, never on
the event loop, and given up when their client hangs up.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from chunkloom.engine.cache import ByteCache
from chunkloom.engine.demand import Scheduler
from chunkloom.engine.formats import FORMATS as FORMAT_WORDS
from chunkloom.engine.formats import URL_WORDS
from chunkloom.engine.volume import Volume
from chunkloom.errors import FormatError, ParameterError
from chunkloom.serving import answers, listing
from chunkloom.serving.access import ApiOptions
from chunkloom.serving.ahead import Ahead
from chunkloom.serving.answers import Answer, Receive, Scope, Send
from chunkloom.serving.chunks import LOOKED, Asked, Chunks, client_of
from chunkloom.serving.events import Change
from chunkloom.serving.folders import Folder, answer_file
from chunkloom.serving.gate import Gate
from chunkloom.serving.ranges import fitted
from chunkloom.serving.served import JSON, ServedVolume
from chunkloom.serving.times import Times

RESERVED = frozenset({"api", "metrics", "static", "v", "update", "__control__", "docs", "healthz"})
FORMATS = URL_WORDS
WORDS = FORMAT_WORDS
ENCODED_BYTES = 512 << 20

FETCHERS = 16
FRESH_S = 2.0
"""For how long an answer is sent again without a look at the stored data behind it."""
LOOK_S = 0.02
READS = ("GET", "HEAD")


@dataclass(slots=True)
class Kept:
    """An answer kept to be sent again, and until when without a look at the stored data behind it."""

    answer: Answer
    until: float
    asked: Asked


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
        self.volumes: dict[str, ServedVolume] = {}
        self.folders: dict[str, Folder] = {}
        self.gate = Gate(self, api or ApiOptions())
        self.answered: Counter[int] = Counter()
        self.times = Times()
        self._changing = threading.Lock()
        self.codec = codec
        self.scheduler = scheduler or Scheduler()
        self._own_scheduler = scheduler is None
        # Reads of files keep a core busy; waiting for a place elsewhere takes none, and much of it may go on at a time.
        self.readers = Scheduler()
        self.fetchers = Scheduler(FETCHERS)
        # Files of folders; threads begin with the first of them.
        self._files = ThreadPoolExecutor(FETCHERS, thread_name_prefix="chunkloom-files")
        self.encoded = ByteCache(encoded_bytes)
        self.generation = ""
        self.ahead = Ahead(self.scheduler)
        self._chunks = Chunks(self)
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
            replaced = self.volumes.get(name)
            self.volumes = {**self.volumes, name: made}
            self.encoded.clear()
        if replaced is not None:
            replaced.end()
            self.ahead.close()
        events = self.gate.events
        events.publish(Change("replaced" if replaced else "created", name, made.digest))
        if volume.seams is not None:
            made.ending.append(volume.seams.listen(lambda: events.publish(Change("joined", name, made.digest))))

    def made(self, name: str, volume: Volume) -> ServedVolume:
        """A volume as it is served. For apps that serve some in more ways."""
        return ServedVolume(name, volume, self.codec)

    async def unlisted(self, name: str) -> ServedVolume | Answer | None:
        """What a name stands for that is not among `volumes`, or why nothing. For apps that make it on demand."""
        return None

    def current(self, served: ServedVolume) -> bool:
        """Whether a volume is still what its name stands for."""
        return self.volumes.get(served.name) is served

    def remove(self, name: str) -> None:
        """Serve `name` no more. Raises `KeyError` where it is not served."""
        with self._changing:
            gone = self.volumes[name]
            self.volumes = {n: served for n, served in self.volumes.items() if n != name}
            self.encoded.clear()
        gone.end()
        self.ahead.close()
        self.gate.events.publish(Change("deleted", name, gone.digest))

    def forget(self) -> None:
        """Forget every kept answer, and what clients hold: their next request gets what is stored by then."""
        with self._changing:
            self.generation = f"{time.time_ns():x}"
            self.encoded.clear()

    def keep(self, asked: Asked, made: Answer) -> None:
        """Keep an answer to be sent again. Called from any thread."""
        until = time.monotonic() + FRESH_S if asked.served.changing else math.inf
        with self._changing:
            # A volume replaced or gone while its chunk was made must not answer the next request, nor must what was
            # read before everything was forgotten.
            if self.current(asked.served) and asked.generation == self.generation:
                self.encoded.put(asked.path, Kept(made, until, asked), made.nbytes)

    def look(self, kept: Kept) -> str:
        """Look at the stored data behind a kept answer and, as one is at it, behind others of its volume.

        An answer is good again, or forgotten. In a thread, and not for long: each look at one alone would cost as much
        as the answer itself.
        """
        began = time.monotonic()
        for each in [kept, *self.encoded.values()]:
            if each.until > began or each.asked.served is not kept.asked.served:
                continue
            asked = each.asked
            if asked.etag(asked.served.state(asked.key)) == each.answer.etag:
                each.until = time.monotonic() + FRESH_S
            else:
                self.encoded.drop(asked.path)
            if time.monotonic() - began > LOOK_S:
                break
        return LOOKED

    def add_folder(self, name: str, folder: Folder) -> None:
        """Serve files that are no volume's under `name`."""
        if not name or name in RESERVED or "/" in name or name in self.volumes:
            raise ParameterError(f"{name!r} cannot be what files are served under: it is taken, or no path segment")
        self.folders = {**self.folders, name: folder}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] != "http":
            return
        # The whole of the hot path: a kept chunk, asked for again.
        kept: Kept | None = self.encoded.get(scope["path"])
        if kept is not None and kept.until > time.monotonic() and scope["method"] in READS:
            whole = kept.answer
        else:
            if self.gate.takes(scope):
                await self.gate(scope, receive, send)
                return
            made = await self._answer(scope, receive)
            if made is None:
                return  # the client is gone
            whole = made
        fit = fitted(scope, whole)
        self.answered[fit.start["status"]] += 1
        await send(fit.start)
        await send({"type": "http.response.body", "body": b""} if scope["method"] == "HEAD" else fit.body)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            else:
                self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    def close(self) -> None:
        """Drop what waits, and end the threads. A scheduler that was given belongs to whoever gave it."""
        self._files.shutdown(wait=False, cancel_futures=True)
        self.ahead.close()
        self.readers.close()
        self.fetchers.close()
        if self._own_scheduler:
            self.scheduler.close()

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
        if parts[0] in self.folders:
            return await answer_file(scope, parts[0], self.folders[parts[0]], parts[1:], self._files)
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
        if key is None or not served.exists(key):
            return answers.refusal(404, f"no such file or chunk in {served.name}/{word}: {below!r}")
        kept: Kept | None = self.encoded.peek(scope["path"])
        asked = Asked(scope["path"], served, word, key, pinned, client_of(scope), self.generation)
        return await self._chunks.answer(asked, scope, receive, kept)

    def _index(self) -> bytes:
        listing: dict[str, Any] = {
            name: {"digest": served.digest, "formats": list(WORDS)} for name, served in self.volumes.items()
        }
        return (json.dumps({"volumes": listing}, indent=2) + "\n").encode()


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
