"""What lies below an address, as a page of links: for people, and for programs that find levels that way (N5 in Fiji).

One link a line, in the form of a plain file server's listings, which is what such programs parse.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from chunkloom.serving import answers
from chunkloom.serving.answers import Answer, Scope

JSON = b"application/json"
HTML = b"text/html; charset=utf-8"


def wants_html(scope: Scope) -> bool:
    """Whether a browser asks for a page."""
    return b"text/html" in (answers.header(scope, b"accept") or b"").lower()


def page(path: str, below: Iterable[str]) -> Answer:
    """A page of links to `below`, names that end in "/" where there is more below them."""
    # From an address without its last slash, a link is relative to the group above.
    prefix = "" if path.endswith("/") else path.rsplit("/", 1)[-1] + "/"
    title = html.escape(path)
    links = "\n".join(
        f'<li><a href="{html.escape(quote(prefix + name))}">{html.escape(name)}</a></li>' for name in below
    )
    text = (
        f'<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>{title}</title></head>\n'
        f"<body>\n<h1>{title}</h1>\n<ul>\n{links}\n</ul>\n</body></html>\n"
    )
    return answers.answer(200, text.encode(), HTML, cache=b"no-store")


def children(files: Iterable[str], levels: int, below: str) -> list[str] | None:
    """What is below a group of a format, `below` being "" for all of it or a level such as "s0"; None if no group.

    `files` are the paths of the metadata files, `levels` how many levels there are. Chunks are not listed: there may be
    millions, and most are computed when asked for.
    """
    groups = [f"s{i}" for i in range(levels)]
    if below == "":
        return [f"{group}/" for group in groups] + sorted(file for file in files if "/" not in file)
    if below in groups:
        return sorted(file[len(below) + 1 :] for file in files if file.startswith(below + "/"))
    return None


def formats(name: str, digest: str, prefix: str, words: Sequence[str]) -> Answer:
    """A volume's digest, and its address in each format, in JSON; `prefix` is where the volumes are."""
    urls = {word: f"{prefix}/{quote(name)}/{word}" for word in words}
    text = json.dumps({"name": name, "digest": digest, "urls": urls}, indent=2) + "\n"
    return answers.answer(200, text.encode(), JSON, cache=b"no-store")
