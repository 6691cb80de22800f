"""People who move about in served volumes: each asks for the chunks around a place, moves, and often hangs up early."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

Index = tuple[int, int, int]


@dataclass(frozen=True)
class Place:
    """A level of a served volume that people move about in."""

    port: int
    prefix: str
    grid: Index


@dataclass
class Seen:
    """What all of them together met."""

    answers: Counter[str] = field(default_factory=Counter)
    hung_up: int = 0
    wrong: list[str] = field(default_factory=list)


async def pan(places: list[Place], clients: int, seconds: float, seed: int, check: Callable[[str, bytes], str]) -> Seen:
    """So many people for so long. `check` says what is wrong with an answer to a path, "" for nothing."""
    seen = Seen()
    end = time.monotonic() + seconds
    people = (_person(places, random.Random(seed * 1000 + i), end, check, seen) for i in range(clients))
    await asyncio.gather(*people)
    return seen


async def _person(
    places: list[Place], dice: random.Random, end: float, check: Callable[[str, bytes], str], seen: Seen
) -> None:
    place = dice.choice(places)
    at = [dice.randrange(n) for n in place.grid]
    while time.monotonic() < end:
        if dice.random() < 0.1:
            place = dice.choice(places)
            at = [dice.randrange(n) for n in place.grid]
        axis = dice.randrange(3)
        at[axis] = min(max(at[axis] + dice.choice((-1, 1)), 0), place.grid[axis] - 1)
        view = [
            (at[0], y, x)
            for y in range(max(0, at[1] - 1), min(place.grid[1], at[1] + 2))
            for x in range(max(0, at[2] - 1), min(place.grid[2], at[2] + 2))
        ]
        await _look(place, view, dice, end, check, seen)


async def _look(
    place: Place,
    view: list[Index],
    dice: random.Random,
    end: float,
    check: Callable[[str, bytes], str],
    seen: Seen,
) -> None:
    """Ask for a view over one connection; perhaps hang up in the middle."""
    leaves = dice.randrange(len(view)) if dice.random() < 0.3 else None
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port, limit=4 << 20)
    try:
        for number, index in enumerate(view):
            path = place.prefix + "/".join(map(str, index))
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            if number == leaves or time.monotonic() > end:
                await asyncio.sleep(dice.random() * 0.02)
                seen.hung_up += 1
                return
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            status = head[9:12].decode()
            seen.answers[status] += 1
            wrong = check(path, body) if status == "200" else f"{status}: {body[:200]!r}"
            if wrong:
                seen.wrong.append(f"{path}: {wrong}")
    finally:
        writer.close()
