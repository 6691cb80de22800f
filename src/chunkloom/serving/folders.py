"""Files that are served beside volumes: a folder of them under a name, in Neuroglancer's precomputed form.

Whoever has such files (annotations of a network, say) gives a `Folder`; this module makes answers of them, and knows
nothing of what is in them.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import Protocol

from chunkloom.serving import answers
from chunkloom.serving.answers import Answer, Scope

WORD = "precomputed"


class Folder(Protocol):
    """Files by their paths. `digest` is another one whenever any of them is."""

    @property
    def digest(self) -> str: ...

    def file(self, path: str) -> bytes | None:
        """The file, or None where there is none. Called from several threads."""


async def answer_file(scope: Scope, name: str, folder: Folder, parts: list[str], readers: Executor) -> Answer:
    """The answer to a request for `parts` below the folder's name."""
    if parts[:1] != [WORD]:
        return answers.refusal(404, f"{name!r} is not a volume: its files are below /{name}/{WORD}/")
    path = "/".join(parts[1:])
    etag = f'"{folder.digest}-{WORD}-{path}"'.encode()
    if answers.matches(etag, answers.header(scope, b"if-none-match")):
        return answers.not_modified(etag, answers.REVALIDATE)
    found = await asyncio.get_running_loop().run_in_executor(readers, folder.file, path)
    if found is None:
        return answers.refusal(404, f"no such file in {name}/{WORD}: {path!r}")
    kind = b"application/json" if path == "info" else b"application/octet-stream"
    return answers.answer(200, found, kind, etag=etag)
