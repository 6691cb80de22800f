"""Answers to requests for chunks: stored bytes passed on, or voxels computed and encoded; both as claimed work.

One claim a request: requests for the same chunk share one job, and a job that nobody waits for any more is dropped,
whether it reads or computes. Knows nothing of paths and volumes' names; `serving.app` has found the chunk.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import re
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chunkloom.engine.demand import Claim, Scheduler, Work
from chunkloom.engine.formats import ChunkKey
from chunkloom.errors import CancelledWorkError
from chunkloom.serving import answers, reasons
from chunkloom.serving.answers import Answer, Receive, Scope
from chunkloom.serving.served import ServedVolume

if TYPE_CHECKING:
    from chunkloom.io.source import StoredArray
    from chunkloom.serving.app import ChunkApp, Kept

log = logging.getLogger(__name__)

_PLAIN = re.compile(r"[A-Za-z0-9.-]{0,64}")

OCTETS = b"application/octet-stream"
LOOKED = "looked"
WATCH_AFTER_S = 0.05
"""Who waits is watched for hanging up from then on: to begin with it costs as much as reading a chunk, and what is
answered sooner is not worth it."""
MISSING = answers.refusal(404, "all fill value: not stored")
COMPUTE = answers.refusal(500, "this chunk has to be computed")  # never sent


@dataclass(frozen=True, slots=True)
class Asked:
    """One chunk that somebody asks for; `generation` stands for how often everything was forgotten before."""

    path: str
    served: ServedVolume
    word: str
    key: ChunkKey
    pinned: bool
    client: Hashable
    generation: str

    @property
    def cache(self) -> bytes:
        return answers.IMMUTABLE if self.pinned else answers.REVALIDATE

    def etag(self, state: str) -> bytes:
        """The chunk's validator, its stored data being in this state."""
        if not _PLAIN.fullmatch(state):
            # Another server's validator may hold what one of ours must not.
            state = hashlib.blake2b(state.encode(), digest_size=12).hexdigest()
        return self.served.etag(self.word, self.key, "-".join(filter(None, (state, self.generation))))

    def answer(self, body: bytes, state: str) -> Answer:
        return answers.answer(200, body, OCTETS, etag=self.etag(state), cache=self.cache)


def client_of(scope: Scope) -> Hashable:
    """Who asks, for taking turns.

    Not the connection: a browser opens six, and a program as many as it likes. The host, then; and as most clients of
    a server on one's own machine have the same, also the program's name for itself.
    """
    client = scope.get("client")
    return (client[0] if client else None, answers.header(scope, b"user-agent"))


class Chunks:
    """Answers for chunks of the volumes of an app."""

    def __init__(self, app: ChunkApp) -> None:
        self.app = app

    async def answer(self, asked: Asked, scope: Scope, receive: Receive, kept: Kept | None) -> Answer | None:
        """The answer to a GET or HEAD; None when the client hangs up first. `kept` is an older one, to be looked at.

        A client's own copy (`If-None-Match`) is answered 304 without computing where the state of the stored data
        says that nothing has changed; of what is passed on, it is read first.
        """
        served, key = asked.served, asked.key
        stored = served.passes(asked.word, key.level)
        known = answers.header(scope, b"if-none-match")
        if kept is not None:
            looked = await self._claimed(
                self.app.readers, "look", lambda _: self.app.look(kept), asked, receive, ("look", served.digest)
            )
            if looked is not LOOKED:
                return looked  # type: ignore[no-any-return]
            if kept.until > time.monotonic():
                return kept.answer
        if stored is None and (known is not None or scope["method"] == "HEAD"):
            state = await self._state(asked, receive)
            if not isinstance(state, str):
                return state
            etag = asked.etag(state)
            # Of "*" nothing is known but that there is something; and a chunk whose objects join those of its
            # neighbours must be looked at, whoever has it.
            holds = known is not None and known.strip() != b"*" and answers.matches(etag, known)
            if holds and served.volume.seams is None:
                return answers.not_modified(etag, asked.cache)
            if scope["method"] == "HEAD":
                return answers.unmeasured(OCTETS, etag, asked.cache)
        if stored is not None:
            readers = self.app.readers if stored.is_local else self.app.fetchers
            passed = await self._claimed(readers, "stored", lambda _: self._pass_on(asked, stored), asked, receive)
            if passed is not COMPUTE:
                return passed  # type: ignore[no-any-return]
            if scope["method"] == "HEAD":
                return answers.unmeasured(OCTETS, asked.etag("missing"), asked.cache)
        made: Answer | None = await self._claimed(
            self.app.scheduler, "made", self.app.times.timed(lambda work: self._compute(asked, work)), asked, receive
        )
        if made is not None and made.start["status"] == 200:
            self.app.ahead.seen(served, key)
        return made

    async def _state(self, asked: Asked, receive: Receive) -> str | Answer | None:
        if not asked.served.changing:
            return ""
        found: str | Answer | None = await self._claimed(
            self.app.readers, "state", lambda _: asked.served.state(asked.key), asked, receive
        )
        return found

    def _pass_on(self, asked: Asked, stored: StoredArray) -> Answer:
        """The stored bytes, in a thread."""
        asked.served.check()
        found = stored.stored_piece((*(0,) * (asked.key.ndim - 3), *asked.key.index))
        if found is None:
            layout = stored.stored_layout
            return COMPUTE if layout is not None and layout.fill_value else MISSING
        made = asked.answer(*found)
        self.app.keep(asked, made)
        return made

    def _compute(self, asked: Asked, work: Work) -> Answer:
        """The chunk, read and computed and encoded, in a thread."""
        served, key = asked.served, asked.key
        state = served.state(key)  # before anything is read: what is written meanwhile is another state
        level = served.volume.levels[key.level]
        block = served.volume.read_box(key.level, served.box(key), work)
        work.check()
        made = asked.answer(served.format(asked.word).encode(block, level), state)
        self.app.keep(asked, made)
        return made

    async def _claimed(
        self,
        scheduler: Scheduler,
        what: str,
        run: Callable[[Work], Any],
        asked: Asked,
        receive: Receive,
        shared: Hashable = None,
    ) -> Any:
        """What `run` gives, in a thread; a refusal where it fails; None when the client hangs up first.

        Those who ask for the same of the same chunk share it, or all who ask for `shared`.
        """
        served, key = asked.served, asked.key
        try:
            claim = scheduler.claim(
                shared or (what, served.digest, asked.word, asked.pinned, key, asked.generation),
                run,
                level=key.level,
                cost=served.volume.cost(key.level),
                client=asked.client,
            )
        except CancelledWorkError:
            return _closing(asked)
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
        gone: list[asyncio.Task[None]] = []

        def watch() -> None:
            gone.append(loop.create_task(_disconnected(receive)))
            gone[0].add_done_callback(wake)

        later = loop.call_later(WATCH_AFTER_S, watch)
        try:
            await woken
            return _settled(claim, asked)
        finally:
            claim.release()
            later.cancel()
            for task in gone:
                task.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _settled(claim: Claim, asked: Asked) -> Any:
    """What a claim came to; None where it was given up."""
    future = claim.future
    if not future.done():
        return None
    if future.cancelled() or isinstance(future.exception(), CancelledWorkError):
        return _closing(asked)
    failure = future.exception()
    if failure is None:
        return future.result()
    served, chunk = asked.served, asked.served.named(asked.key)
    text = reasons.reason(failure)
    log.warning("chunk %s: %s", chunk, text)
    log.debug("chunk %s", chunk, exc_info=failure)
    return answers.refusal(500, f"chunk {chunk}: {reasons.told(text, served.places, served.name)}")


def _closing(asked: Asked) -> Answer:
    return answers.refusal(503, f"chunk {asked.served.named(asked.key)}: the server is closing")
